"""Options of decoding chosen on a validation set: :func:`.tune.tune`, and :class:`.store.TrialStore` for any trials.

Imports nothing itself, so that ``etads-tune --help`` does not wait for torch.
"""
