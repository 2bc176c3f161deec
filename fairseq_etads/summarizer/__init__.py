"""Summarise raw text or prepared splits with a trained model. This package is the main Python interface of the project.

The main class is :class:`Summarizer`. Importing this package does not import torch or fairseq. :class:`Summarizer` and
its result classes import these libraries on first use, whereas :class:`Explanation` never imports them.
"""

import logging
from typing import TYPE_CHECKING, Any

from .explanation import Explanation, FocusLayer, SaliencyLayer, SourceToken, SummaryToken
from .picked import ChosenSentence, PickedSentence, Selection
from .surprisal import Surprisal

if TYPE_CHECKING:
    from .partial_summary import PartialSummary
    from .prepared_split import PreparedDocument, PreparedSplit, WordSelection
    from .summarizer import Summarizer
    from .summary import CopiedWord, Summary, Truncation

__all__ = [
    "ChosenSentence",
    "CopiedWord",
    "Explanation",
    "FocusLayer",
    "PartialSummary",
    "PickedSentence",
    "PreparedDocument",
    "PreparedSplit",
    "SaliencyLayer",
    "Selection",
    "SourceToken",
    "Summarizer",
    "Summary",
    "SummaryToken",
    "Surprisal",
    "Truncation",
    "WordSelection",
]


def __getattr__(name: str) -> Any:
    """Import :class:`Summarizer` and its result classes when they are first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for logger in map(logging.getLogger, (__name__.split(".")[0], "fairseq")):
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.WARNING)  # importing fairseq causes all loggers to show INFO messages
    from . import partial_summary, prepared_split, summarizer, summary

    found = {
        "PartialSummary": partial_summary.PartialSummary,
        **{each: getattr(prepared_split, each) for each in ("PreparedDocument", "PreparedSplit", "WordSelection")},
        "Summarizer": summarizer.Summarizer,
        **{each: getattr(summary, each) for each in ("CopiedWord", "Summary", "Truncation")},
    }
    return found[name]
