"""Choose decoding options on a validation set with :func:`.tune.tune`.

Trials are stored in a :class:`.trial_store.TrialStore`. This ``__init__`` module does not import anything, so that
``etads-tune --help`` does not have to import torch.
"""
