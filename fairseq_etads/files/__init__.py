"""Files: plain or compressed inputs, outputs that appear when they are complete, checksums, files of a split."""

SPLITS = ("train", "valid", "test")
SIDES = ("source", "target")
ORIGINAL = "original"
"""Suffix of the file SPLIT.source.original, which contains the documents with their original case and digits."""
ORIGIN = "origin"
"""Suffix of the file SPLIT.source.origin, which names the origin of each document with one word, such as "cnn"."""
