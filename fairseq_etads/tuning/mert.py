"""Minimum-error-rate training (Och 2003): find weights for which the top hypotheses in n-best lists score highest.

The score of a hypothesis is a linear function of each weight. If only one weight varies, the maximum score over the
hypotheses of a document is therefore an upper envelope of lines, and the mean of a metric is a step function. The
search finds the best step of this function exactly. This module does not import torch or fairseq.
"""

import math
import random
from typing import Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

_RANGE = 3.0
"""Bound for the random weights at the starting points, which are drawn uniformly between minus and plus this value.

The weight of log p is 1. With a larger bound, the search more often ends at weights that are good only on these n-best
lists: decoding with such weights finds other hypotheses.
"""
_LEAST_GAIN = 1e-9


class NBestList(NamedTuple):
    """Hypotheses of a document, which are ranked by the weighted sum of their features."""

    features: np.ndarray  # shape (n, K)
    scores: np.ndarray  # metric scores, shape (n,); higher is better


def compute_mean_score(lists: Sequence[NBestList], weights: Sequence[float]) -> float:
    """Return the mean metric score of the top hypotheses with the given weights, of equal ones the first."""
    return float(np.mean([nbest.scores[(nbest.features @ np.asarray(weights)).argmax()] for nbest in lists]))


def find_upper_envelope(slopes: Sequence[float], intercepts: Sequence[float]) -> Tuple[List[float], List[int]]:
    """Find the lines that form the upper envelope, from left to right, only the first of identical lines.

    Returns the start of each line's interval (minus infinity for the first line), and the indices of the lines.
    """
    starts: List[float] = []
    lines: List[int] = []
    for line in sorted(range(len(slopes)), key=lambda number: (slopes[number], intercepts[number], -number)):
        start = -math.inf
        while lines:
            last = lines[-1]
            if slopes[line] != slopes[last]:  # if the slopes are equal, the last line is never the highest
                start = (intercepts[last] - intercepts[line]) / (slopes[line] - slopes[last])
                if start > starts[-1]:
                    break
            lines.pop()
            starts.pop()
            start = -math.inf
        lines.append(line)
        starts.append(start)
    return starts, lines


def find_best_weight_value(lists: Sequence[NBestList], weights: Sequence[float], feature: int) -> Tuple[float, float]:
    """Find the best value of the weight of ``feature``, in the middle of the best step, or keep the present value.

    Returns the value and the mean score with it.
    """
    others = np.array(weights, dtype=float)
    others[feature] = 0.0
    changes: Dict[float, float] = {}  # position and size of each change in the sum of scores
    total = 0.0
    for nbest in lists:
        slopes, intercepts = nbest.features[:, feature].tolist(), (nbest.features @ others).tolist()
        starts, lines = find_upper_envelope(slopes, intercepts)
        total += float(nbest.scores[lines[0]])
        for place in range(1, len(lines)):
            change = float(nbest.scores[lines[place]] - nbest.scores[lines[place - 1]])
            changes[starts[place]] = changes.get(starts[place], 0.0) + change
    edges = [-math.inf, *sorted(changes), math.inf]
    best_value, best = float(weights[feature]), compute_mean_score(lists, weights) * len(lists)
    for left, right in zip(edges, edges[1:]):
        total += changes.get(left, 0.0)
        if changes and total > best + _LEAST_GAIN:  # the middle of the step, or 1 beyond its only edge
            value = right - 1.0 if math.isinf(left) else left + 1.0 if math.isinf(right) else (left + right) / 2
            best_value, best = value, total
    return best_value, best / len(lists)


def hill_climb_weights(lists: Sequence[NBestList], weights: Sequence[float]) -> Tuple[List[float], float]:
    """Change the weight with the largest gain until there is none, never the first. Returns weights and mean score."""
    found, score = list(weights), compute_mean_score(lists, weights)
    while True:
        options = [(*find_best_weight_value(lists, found, feature), feature) for feature in range(1, len(found))]
        value, best, feature = max(options, key=lambda option: option[1])
        if best <= score + _LEAST_GAIN:
            return found, score
        found[feature], score = value, best


def find_best_weights(
    lists: Sequence[NBestList], first: Sequence[float], points: int = 20, seed: int = 1
) -> Tuple[List[float], float]:
    """Run :func:`hill_climb_weights` from several starting points, and return the best weights and their mean score.

    The first of the ``points`` starting points is ``first``; the others are random and have the same first weight. If
    scores are equal, the result from the earlier starting point is returned.
    """
    numbers = random.Random(seed)
    starts = [list(first)]
    while len(starts) < points:
        starts.append([first[0], *(numbers.uniform(-_RANGE, _RANGE) for _ in first[1:])])
    return max((hill_climb_weights(lists, start) for start in starts), key=lambda found: found[1])
