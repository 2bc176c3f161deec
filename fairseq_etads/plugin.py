"""What ``--user-dir`` loads: registers everything with fairseq, and makes checkpoints load safely."""

from .platform import compat, distributed

compat.install()
distributed.install()

from .models import rnn, selector, transformer  # noqa: E402
from .systems.abs import model as abs_model  # noqa: E402
from .systems.convs2s import model as convs2s_model  # noqa: E402
from .systems.rewards import augmented, self_critical  # noqa: E402
from .systems.rewriting import criterion as rewriting_criterion  # noqa: E402
from .systems.rewriting import model as rewriting_model  # noqa: E402
from .text import tokenizer  # noqa: E402
from .training import lazy_optimisers, muon, nll, schedulers, selection, task  # noqa: E402

__all__ = [
    "abs_model",
    "augmented",
    "compat",
    "convs2s_model",
    "distributed",
    "lazy_optimisers",
    "muon",
    "nll",
    "rewriting_criterion",
    "rewriting_model",
    "rnn",
    "schedulers",
    "selection",
    "selector",
    "self_critical",
    "task",
    "tokenizer",
    "transformer",
]
