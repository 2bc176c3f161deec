"""The terminal, options, processes and output files."""
