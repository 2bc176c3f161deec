"""Beam search for summaries.

It extends fairseq's beam search with the papers' penalties, corrects n-gram blocking, and does not repeat documents for
each beam. This module exports the public names; the code is in :mod:`fairseq_etads.search`.
"""

from .search.generator import SummaryGenerator
from .search.penalties import coverage_penalty, length_penalty

__all__ = ["SummaryGenerator", "coverage_penalty", "length_penalty"]
