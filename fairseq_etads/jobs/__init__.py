"""The implementations of the commands. Each module is named after its command."""
