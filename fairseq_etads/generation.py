"""Generate summaries with beam search.

The search extends fairseq's beam search with the penalties in the papers, corrects n-gram blocking, and does not copy
each document for all beams. This module only exports the public names; the code is in :mod:`fairseq_etads.search`.
"""

from .search.generator import SummaryGenerator
from .search.penalties import coverage_penalty, length_penalty

__all__ = ["SummaryGenerator", "coverage_penalty", "length_penalty"]
