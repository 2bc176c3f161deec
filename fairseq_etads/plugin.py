"""What ``--user-dir`` loads: registers everything with fairseq, and makes checkpoints load safely."""

from . import compat

compat.install()

from . import criterions, optim, task  # noqa: E402
from .models import rnn, transformer  # noqa: E402
from .text import tokenizer  # noqa: E402

__all__ = ["compat", "criterions", "optim", "rnn", "task", "tokenizer", "transformer"]
