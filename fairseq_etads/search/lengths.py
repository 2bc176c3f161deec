"""Length statistics of training texts, and length limits for a search.

This module imports neither torch nor fairseq.
"""

from typing import Any, Dict, Iterable, Optional, Sequence

REMEMBERED = (1, 5, 10, 25, 50, 75, 90, 95, 99)
"""Percentiles that are stored in checkpoints, model folders and recipe records."""
LONG = 40
"""Smallest median length in tokens for which beam search is assumed to end summaries too early."""


class Lengths:
    """The lengths of a collection of texts in tokens, without end symbols.

    Args:
        counts: length of each text, of at least one text.

    Raises:
        ValueError: there are no texts.
    """

    def __init__(self, counts: Iterable[int]):
        self._ordered = sorted(counts)
        if not self._ordered:
            raise ValueError("lengths of an empty list of texts")

    def mean(self, longest: Optional[int] = None) -> float:
        """Return the mean length of the texts after truncating them to ``longest`` tokens."""
        kept = self._ordered if longest is None else [min(length, longest) for length in self._ordered]
        return sum(kept) / len(kept)

    def at(self, percent: int) -> int:
        """Return a percentile of the lengths: ``percent`` per cent of the texts do not exceed this length."""
        return int(self._ordered[round(percent / 100 * (len(self._ordered) - 1))])

    def percentiles(self) -> Dict[str, int]:
        """Return the percentiles listed in :data:`REMEMBERED`, in a form that can be written as JSON."""
        return {str(percent): self.at(percent) for percent in REMEMBERED}


def are_percentiles(value: Any) -> bool:
    """Return whether a value has the form of a result of :meth:`Lengths.percentiles`."""
    if not isinstance(value, dict) or list(value) != [str(percent) for percent in REMEMBERED]:
        return False
    found: Sequence[Any] = list(value.values())
    return all(type(length) is int and length >= 0 for length in found) and sorted(found) == found


def bounds(percentiles: Dict[str, int], longest: Optional[int] = None) -> Dict[str, int]:
    """Choose the minimum and maximum length of summaries in a search, based on the lengths of the training summaries.

    Beam search tends to end long summaries too early. If the training summaries are long, the minimum length is
    therefore their median, so that the summaries are about as long as the training summaries. The length of a short
    summary depends on its content. If the training summaries are short, the limits exclude only the lengths of their
    shortest tenth and longest hundredth.

    Args:
        percentiles: percentiles of the lengths; see :meth:`Lengths.percentiles`.
        longest: maximum number of tokens that the model can produce, or None for no limit.
    """
    median = percentiles["50"]
    if median < LONG:
        found = {"min_len": max(percentiles["10"], 1), "max_len": max(percentiles["99"], median + 5)}
    else:
        found = {"min_len": median, "max_len": max(percentiles["90"], median * 3 // 2)}
    return {name: min(length, longest) if longest else length for name, length in found.items()}
