"""Compute evaluation scores of a content selector from a histogram of its logits."""

import math
from typing import Any, List, Tuple

import numpy as np

EDGES: List[float] = [number / 20 for number in range(-240, 241)]
"""Logits at the edges of the histogram bins: probabilities from 0.000006 to 0.999994 in steps of at most 0.0125."""


def find_histogram_bin(probability: float) -> int:
    """Return the index b of a probability's bin: its logit is above EDGES[b - 1] and at most EDGES[b]."""
    if not 0 < probability < 1:
        return 0 if probability <= 0 else len(EDGES)
    logit = math.log(probability / (1 - probability))
    return min(max(math.ceil((logit - EDGES[0]) * 20 - 1e-9), 0), len(EDGES))


def compute_roc_auc(counts: Any) -> float:
    """Compute the area under the ROC curve, or return 0.5 if there are no positive or no negative examples.

    The area is the probability that a random positive example has a larger logit than a random negative example. Each
    pair of a positive and a negative example in the same bin contributes one half. ``counts`` contains the numbers of
    negative and positive words or sentences in each bin, shape (2, bins).
    """
    negative, positive = np.asarray(counts, dtype=float)
    pairs = negative.sum() * positive.sum()
    return float((positive * (negative.cumsum() - negative / 2)).sum() / pairs) if pairs else 0.5


def find_best_f1_threshold(counts: Any) -> Tuple[float, float]:
    """Return the highest F1 score, and the bin edge that yields it as a threshold of probability.

    A word or sentence is selected if its probability exceeds the threshold. ``counts`` is as in
    :func:`compute_roc_auc`.
    """
    negative, positive = np.asarray(counts, dtype=float)
    true, chosen = (row[:0:-1].cumsum() for row in (positive, positive + negative))  # from the highest edge
    f1 = 2 * true / np.maximum(chosen + positive.sum(), 1)
    best = int(f1.argmax())
    return (float(f1[best]), 1 / (1 + math.exp(-EDGES[-1 - best]))) if f1[best] else (0.0, 0.5)


def make_empty_histogram() -> List[List[float]]:
    """Return an empty histogram, i.e. counts of 0 with shape (2, bins)."""
    return [[0.0] * (len(EDGES) + 1) for _ in range(2)]
