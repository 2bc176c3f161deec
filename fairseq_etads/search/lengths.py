"""Length statistics of training texts, and length limits for a search.

This module imports neither torch nor fairseq.
"""

import math
from typing import Any, Dict, Iterable, Optional, Sequence

REMEMBERED = (1, 5, 10, 25, 50, 75, 90, 95, 99)
"""Percentiles of length that are stored in checkpoints, model folders and recipe records."""
LONG = 40
"""Minimum median length in tokens for which beam search is assumed to end summaries too early."""


class TextLengths:
    """The lengths of a collection of texts in tokens, without end symbols. Raises ValueError if there are no texts."""

    def __init__(self, counts: Iterable[int]):
        self._ordered = sorted(counts)
        if not self._ordered:
            raise ValueError("lengths of an empty list of texts")

    def compute_mean(self, longest: Optional[int] = None) -> float:
        """Return the mean length of the texts after truncating them to ``longest`` tokens."""
        kept = self._ordered if longest is None else [min(length, longest) for length in self._ordered]
        return sum(kept) / len(kept)

    def get_percentile(self, percent: int) -> int:
        """Return a percentile of the lengths, the length that ``percent`` per cent of the texts do not exceed."""
        return int(self._ordered[round(percent / 100 * (len(self._ordered) - 1))])

    def get_percentiles(self) -> Dict[str, int]:
        """Return a dictionary that maps the percentages in :data:`REMEMBERED`, as strings, to percentiles of length."""
        return {str(percent): self.get_percentile(percent) for percent in REMEMBERED}


def are_percentiles(value: Any, percents: Sequence[int] = REMEMBERED, kinds: Sequence[type] = (int,)) -> bool:
    """Return whether a value maps the percentages, as strings, to ascending numbers of these types, not below 0."""
    if not isinstance(value, dict) or list(value) != [str(percent) for percent in percents]:
        return False
    found: Sequence[Any] = list(value.values())
    return all(type(number) in kinds and 0 <= number < math.inf for number in found) and sorted(found) == found


def choose_length_bounds(percentiles: Dict[str, int], longest: Optional[int] = None) -> Dict[str, int]:
    """Choose the minimum and maximum length of generated summaries from the lengths of training summaries.

    Beam search tends to end long summaries too early. If the training summaries are long, the minimum length is
    therefore their median length, so that generated summaries have a similar length. The length of a short summary
    depends on its content. If the training summaries are short, the limits therefore exclude only the lengths of the
    shortest 10 % and the longest 1 %.

    Args:
        percentiles: the percentiles of the lengths of the training summaries; see :meth:`TextLengths.get_percentiles`.
        longest: the maximum number of tokens that the model can produce, or None for no limit.
    """
    median = percentiles["50"]
    if median < LONG:
        found = {"min_len": max(percentiles["10"], 1), "max_len": max(percentiles["99"], median + 5)}
    else:
        found = {"min_len": median, "max_len": max(percentiles["90"], median * 3 // 2)}
    return {name: min(length, longest) if longest else length for name, length in found.items()}
