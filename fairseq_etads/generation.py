"""Beam search for summaries: fairseq's, with the papers' penalties, blocking that works, and documents kept once.

The public names; the code is in :mod:`fairseq_etads.search`.
"""

from .search.generator import SummaryGenerator
from .search.penalties import coverage_penalty, length_penalty

__all__ = ["SummaryGenerator", "coverage_penalty", "length_penalty"]
