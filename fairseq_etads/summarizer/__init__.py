"""Summaries of raw text by a model folder: the project's face in Python. Begin with :class:`Summarizer`."""

import logging

from .partial import PartialSummary
from .summarizer import Summarizer
from .summary import CopiedWord, Summary, Truncation

__all__ = ["CopiedWord", "PartialSummary", "Summarizer", "Summary", "Truncation"]

_logger = logging.getLogger(__name__.split(".")[0])
if _logger.level == logging.NOTSET:
    _logger.setLevel(logging.WARNING)  # importing fairseq shows the INFO of all modules
