"""Choose decoding options on a validation set with :func:`.tune.tune`. :class:`.store.TrialStore` stores the trials.

This ``__init__`` module does not import anything, so that ``etads-tune --help`` does not have to import torch.
"""
