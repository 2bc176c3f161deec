"""Summarise pasted text on a local web page, with the model in a model folder: the command ``etads-demo``."""
