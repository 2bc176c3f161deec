"""Utilities that read text files, split lines into sentences and words, and join words into text."""
