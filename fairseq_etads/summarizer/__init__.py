"""Summarise raw text or prepared splits with a trained model. This package is the main Python interface of the project.

The main class is :class:`Summarizer`. It and the classes of prepared splits import torch and fairseq on first use; the
classes of results never import them.
"""

import logging
from typing import TYPE_CHECKING, Any

from .explanation import (
    ChosenSentence,
    Explanation,
    FocusLayer,
    PickedSentence,
    SaliencyLayer,
    Selection,
    SourceToken,
    SummaryToken,
)
from .summary import CopiedWord, PartialSummary, Summary, Truncation
from .surprisal import Surprisal

if TYPE_CHECKING:
    from .prepared_split import PreparedDocument, PreparedSplit, WordSelection
    from .summarizer import Summarizer

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
    """Import :class:`Summarizer` and the classes of prepared splits when they are first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for logger in map(logging.getLogger, (__name__.split(".")[0], "fairseq")):
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.WARNING)  # importing fairseq causes all loggers to show INFO messages
    from . import prepared_split, summarizer

    return getattr(summarizer if name == "Summarizer" else prepared_split, name)
