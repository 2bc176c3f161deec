"""Choose decoding options on a validation set: :func:`.tune.tune`; :class:`.store.TrialStore` stores any trials.

It imports nothing itself, so that ``etads-tune --help`` does not wait for torch.
"""
