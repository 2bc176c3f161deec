"""Choose decoding options on a validation set: :func:`.tune.tune`; :class:`.store.TrialStore` stores any trials.

This package's ``__init__`` imports nothing, so that ``etads-tune --help`` does not wait for torch.
"""
