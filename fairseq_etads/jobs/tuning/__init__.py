"""Choose decoding options on a validation set with :func:`.tune.tune`. :class:`.store.TrialStore` stores the trials.

The ``__init__`` module of this package imports nothing, so that ``etads-tune --help`` does not have to wait for torch.
"""
