"""Summarise pasted text on a local web page with the model in a model folder. Used by the command ``etads-demo``."""
