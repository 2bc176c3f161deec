"""Code that depends on versions of fairseq and torch, on the machine and on the terminal."""
