"""Modules that do the work of the commands; each has the name of its command."""
