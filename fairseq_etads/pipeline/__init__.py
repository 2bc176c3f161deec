"""Steps that run commands, show their progress, and are skipped while their results are up to date.

Importing this package does not import torch or fairseq.
"""
