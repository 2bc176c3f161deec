"""The work behind the commands, one module per command, with the command's name."""
