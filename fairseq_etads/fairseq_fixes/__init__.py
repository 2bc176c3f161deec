"""Corrections of fairseq and torch."""
