"""Beam search for summaries: fairseq's, with the papers' penalties, working n-gram blocking, and documents that are not
repeated per beam.

This module has the public names; the code is in :mod:`fairseq_etads.search`.
"""

from .search.generator import SummaryGenerator
from .search.penalties import coverage_penalty, length_penalty

__all__ = ["SummaryGenerator", "coverage_penalty", "length_penalty"]
