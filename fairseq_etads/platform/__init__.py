"""Provide code that depends on the versions of fairseq and torch, on the machine or on the terminal."""
