"""What ``--user-dir`` loads: registers everything with fairseq, and makes checkpoints load safely."""

from . import compat, distributed

compat.install()
distributed.install()

from . import criterions, muon, optim, reward_augmented, selection_criterion, self_critical, task  # noqa: E402
from .models import convs2s, nnlm, pointer_extractor, rnn, selector, transformer  # noqa: E402
from .rewriting import criterion as rewriting_criterion  # noqa: E402
from .text import tokenizer  # noqa: E402

__all__ = [
    "compat",
    "convs2s",
    "criterions",
    "distributed",
    "muon",
    "nnlm",
    "optim",
    "pointer_extractor",
    "reward_augmented",
    "rewriting_criterion",
    "rnn",
    "selection_criterion",
    "selector",
    "self_critical",
    "task",
    "tokenizer",
    "transformer",
]
