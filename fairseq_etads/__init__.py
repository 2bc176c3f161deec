"""fairseq-etads: abstractive summarisation models for fairseq.

fairseq loads this package through ``--user-dir fairseq_etads``; importing it registers the task, the models and their
presets, and makes checkpoints load safely.
"""

from . import compat

compat.install()

from . import criterions, optim, task, text  # noqa: E402
from .models import rnn, transformer  # noqa: E402

__all__ = ["compat", "criterions", "optim", "rnn", "task", "text", "transformer"]
__version__ = "0.1.0"
