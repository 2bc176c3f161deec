"""The model families and their presets."""
