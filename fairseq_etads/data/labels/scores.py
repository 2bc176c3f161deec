"""Scores for the quality of a selector, computed from the number of units in each bin of logits."""

import math
from typing import Any, List, Tuple

EDGES: List[float] = [number / 20 for number in range(-240, 241)]
"""Edges of the bins in logits. As probabilities, they range from 0.000006 to 0.999994 in steps of at most 0.0125."""


def bin_of(probability: float) -> int:
    """Return the index of a probability's bin: bin b contains logits above EDGES[b - 1] up to EDGES[b]."""
    if not 0 < probability < 1:
        return 0 if probability <= 0 else len(EDGES)
    logit = math.log(probability / (1 - probability))
    return min(max(math.ceil((logit - EDGES[0]) * 20 - 1e-9), 0), len(EDGES))


def roc_area(counts: Any) -> float:
    """Compute the area under the ROC curve: the probability that a positive unit's logit exceeds a negative unit's.

    Args:
        counts: (2, bins), numbers of negative and positive units. A pair of units in the same bin counts one half.

    Returns:
        The area; 0.5 if either kind of unit is missing.
    """
    negative, positive = (list(map(float, row)) for row in counts)
    below = area = 0.0
    for without, having in zip(negative, positive):
        area += having * (below + without / 2)
        below += without
    pairs = sum(negative) * sum(positive)
    return area / pairs if pairs else 0.5


def f1_at(true: float, chosen: float, positive: float) -> float:
    """Compute F1 from the numbers of correctly chosen (``true``), chosen and positive units."""
    return 2 * true / (chosen + positive) if chosen + positive else 0.0


def best_f1(counts: Any) -> Tuple[float, float]:
    """Find the threshold p among the edges of the bins with the largest F1; return this F1 and p.

    A unit is selected if its probability is above p.

    Args:
        counts: numbers of units per bin; see :func:`roc_area`.
    """
    negative, positive = (list(map(float, row)) for row in counts)
    total, best = sum(positive), (0.0, 0.5)
    true = chosen = 0.0
    for number in range(len(EDGES) - 1, -1, -1):
        true += positive[number + 1]
        chosen += positive[number + 1] + negative[number + 1]
        found = f1_at(true, chosen, total)
        if found > best[0]:
            best = found, 1 / (1 + math.exp(-EDGES[number]))
    return best


def no_counts() -> List[List[float]]:
    """Return counts (2, bins) of 0."""
    return [[0.0] * (len(EDGES) + 1) for _ in range(2)]
