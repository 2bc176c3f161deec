"""Lengths of training texts, and length bounds for a search. Imports neither torch nor fairseq."""

from typing import Any, Dict, Iterable, Optional, Sequence

REMEMBERED = (1, 5, 10, 25, 50, 75, 90, 95, 99)
"""Percentiles that are stored in checkpoints, model folders and records of recipes."""
LONG = 40
"""Median length, in tokens, from which beam search ends summaries too early."""


class Lengths:
    """Lengths of many texts in tokens, without end symbols.

    Args:
        counts: the length of each text; at least one.

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
        """Return the length that is not exceeded by ``percent`` per cent of the texts."""
        return int(self._ordered[round(percent / 100 * (len(self._ordered) - 1))])

    def percentiles(self) -> Dict[str, int]:
        """Return the percentiles listed in :data:`REMEMBERED`, in a form for JSON."""
        return {str(percent): self.at(percent) for percent in REMEMBERED}


def are_percentiles(value: Any) -> bool:
    """Return whether a value has the form of :meth:`Lengths.percentiles`."""
    if not isinstance(value, dict) or list(value) != [str(percent) for percent in REMEMBERED]:
        return False
    found: Sequence[Any] = list(value.values())
    return all(type(length) is int and length >= 0 for length in found) and sorted(found) == found


def bounds(percentiles: Dict[str, int], longest: Optional[int] = None) -> Dict[str, int]:
    """Choose the minimum and maximum length of summaries in a search from the lengths of the training summaries.

    Beam search ends long summaries too early. With the median as the minimum length, long summaries become as long as
    the training summaries. The length of short summaries depends on their content, so the bounds only exclude lengths
    in the shortest tenth and the longest hundredth of the training summaries.

    Args:
        percentiles: percentiles of the lengths; see :meth:`Lengths.percentiles`.
        longest: maximum number of tokens that the model can write.
    """
    median = percentiles["50"]
    if median < LONG:
        found = {"min_len": max(percentiles["10"], 1), "max_len": max(percentiles["99"], median + 5)}
    else:
        found = {"min_len": median, "max_len": max(percentiles["90"], median * 3 // 2)}
    return {name: min(length, longest) if longest else length for name, length in found.items()}
