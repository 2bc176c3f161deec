"""Generate summaries with beam search.

The search extends fairseq's beam search. It adds the penalties from the papers, corrects n-gram blocking, and does not
copy the document for each hypothesis in the beam. This module only exports the public names. The code is in
:mod:`fairseq_etads.search`.
"""

from .search.generator import SummaryGenerator
from .search.hypotheses import coverage_penalty, length_penalty

__all__ = ["SummaryGenerator", "coverage_penalty", "length_penalty"]
