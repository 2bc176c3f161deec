"""Why a summary is as it is: an :class:`Explanation` as data, and as a page to look at. Without torch and fairseq.

:meth:`fairseq_etads.Summarizer.explain` makes one.
"""

from .explanation import Explanation, FocusLayer, SaliencyLayer, SourceToken, SummaryToken

__all__ = ["Explanation", "FocusLayer", "SaliencyLayer", "SourceToken", "SummaryToken"]
