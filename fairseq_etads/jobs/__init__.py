"""Implementations of the commands. Each module is named after the command that uses it."""
