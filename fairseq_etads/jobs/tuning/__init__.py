"""Choose decoding options on a validation set with :func:`.tune.tune`; :class:`.store.TrialStore` stores trials.

The ``__init__`` of this package imports nothing, so that ``etads-tune --help`` does not wait for torch.
"""
