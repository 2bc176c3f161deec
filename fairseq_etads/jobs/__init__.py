"""Modules that do the work of the commands. Each module is named after its command."""
