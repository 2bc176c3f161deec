"""fairseq-etads: abstractive summarisation models for fairseq.

fairseq imports this package for ``--user-dir fairseq_etads``; in Python, ``import fairseq_etads`` does the same. Either
way :mod:`fairseq_etads.plugin` registers the task, the models, the criterion, the optimisers and the tokenizer, and
makes checkpoints load safely.
"""

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from .version import __version__ as __version__

if TYPE_CHECKING:
    from .summarizer import CopiedWord as CopiedWord
    from .summarizer import Explanation as Explanation
    from .summarizer import PartialSummary as PartialSummary
    from .summarizer import Summarizer as Summarizer
    from .summarizer import Summary as Summary
    from .summarizer import Truncation as Truncation


COMMANDS_WITHOUT_FAIRSEQ = frozenset(
    {
        "etads-analyse",
        "etads-average",
        "etads-compare",
        "etads-corpus",
        "etads-debian",
        "etads-demo",
        "etads-dictionary",
    }
    | {"etads-explain", "etads-export", "etads-human", "etads-likelihood", "etads-models", "etads-plot"}
    | {"etads-prepare", "etads-rouge", "etads-summarize", "etads-tune"}
    | {"etads-labels", "etads-select", "etads-extract", "etads-rewrite", "etads-control", "etads-shortlist"}
    | {"etads-nli"}
)
"""Commands that import neither torch nor fairseq when they start, and so answer within a second."""

if os.path.basename((sys.argv or [""])[0]) not in COMMANDS_WITHOUT_FAIRSEQ:
    from . import plugin  # noqa: F401  # imported for its effect
elif signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Ctrl-C while modules are being imported; fairseq_etads.platform.console takes over when the work begins
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(128 + number))


def __getattr__(name: str) -> Any:
    """``from fairseq_etads import Summarizer``, without importing it for those who do not want it."""
    if name in ("CopiedWord", "PartialSummary", "Summarizer", "Summary", "Truncation"):
        from . import summarizer

        return getattr(summarizer, name)
    if name == "Explanation":
        from .summarizer import Explanation

        return Explanation
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
