"""Compute the consensus among hypotheses, which is the mean ROUGE of each hypothesis against the others."""

from collections import Counter
from typing import List, Sequence

from ...text.subsequences import compute_lcs_length, iterate_ngrams


def compute_consensus(hypotheses: Sequence[Sequence[str]], counts: Sequence[bool]) -> List[float]:
    """Compute the mean of ROUGE-1, ROUGE-2 and ROUGE-L (F1) of each hypothesis against the others.

    Args:
        hypotheses: the stems of each hypothesis.
        counts: a boolean for each hypothesis, True if the other hypotheses are compared with it.

    Returns:
        The consensus of each hypothesis, from 0 to 1, which is 0 for a hypothesis that is not compared with any other.
    """
    totals = [0.0] * len(hypotheses)
    for one in range(len(hypotheses)):
        for other in range(one):
            if counts[one] or counts[other]:
                score = compute_similarity(hypotheses[one], hypotheses[other])
                totals[one] += score * counts[other]
                totals[other] += score * counts[one]
    return [total / max(sum(counts) - counted, 1) for total, counted in zip(totals, counts)]


def compute_similarity(one: Sequence[str], other: Sequence[str]) -> float:
    """Compute the mean of ROUGE-1, ROUGE-2 and ROUGE-L (F1) between two texts. Each text is treated as one sentence."""
    common = [_count_common_ngrams(one, other, order) for order in (1, 2)]
    sizes = [max(len(one) - order, 0) + max(len(other) - order, 0) for order in (0, 1)]
    rows = [*zip(common, sizes), (compute_lcs_length(one, other), sizes[0])]
    return sum(2 * number / size for number, size in rows if number) / len(rows)


def _count_common_ngrams(one: Sequence[str], other: Sequence[str], order: int) -> int:
    return sum((Counter(iterate_ngrams(one, order)) & Counter(iterate_ngrams(other, order))).values())
