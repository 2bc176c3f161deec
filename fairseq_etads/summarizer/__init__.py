"""Summarise raw text with the model in a model folder. This package is the main Python interface of the project.

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
    from .summarizer import Summarizer
    from .summary import CopiedWord, Summary, Truncation

__all__ = [
    "ChosenSentence",
    "CopiedWord",
    "Explanation",
    "FocusLayer",
    "PartialSummary",
    "PickedSentence",
    "SaliencyLayer",
    "Selection",
    "SourceToken",
    "Summarizer",
    "Summary",
    "SummaryToken",
    "Surprisal",
    "Truncation",
]


def __getattr__(name: str) -> Any:
    """Import :class:`Summarizer` and its result classes when they are first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    logger = logging.getLogger(__name__.split(".")[0])
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)  # importing fairseq causes all loggers to show INFO messages
    from . import partial_summary, summarizer, summary

    found = {
        "PartialSummary": partial_summary.PartialSummary,
        "Summarizer": summarizer.Summarizer,
        **{each: getattr(summary, each) for each in ("CopiedWord", "Summary", "Truncation")},
    }
    return found[name]
