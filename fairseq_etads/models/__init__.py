"""Model families and their presets."""
