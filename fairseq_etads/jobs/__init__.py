"""The work behind the commands, a module for each, under the command's name."""
