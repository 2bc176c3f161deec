"""Implementations of the commands, and the Python code of ``scripts/train.sh``."""
