"""Consensus of hypotheses, written as loops over single words."""

from .parts import lcs


def _rouge_n(one, other, order):
    first = [tuple(one[start : start + order]) for start in range(len(one) - order + 1)]
    second = [tuple(other[start : start + order]) for start in range(len(other) - order + 1)]
    size, left, common = len(first) + len(second), list(second), 0
    for gram in first:
        if gram in left:
            left.remove(gram)
            common += 1
    return 2 * common / size if size else 0.0


def _rouge_l(one, other):
    size = len(one) + len(other)
    return 2 * lcs(one, other) / size if size else 0.0


def consensus(hypotheses, counts):
    """Mean of ROUGE-1, ROUGE-2 and ROUGE-L of each hypothesis against the others that count."""
    means = []
    for number, one in enumerate(hypotheses):
        scores = []
        for place, other in enumerate(hypotheses):
            if place != number and counts[place]:
                scores.append((_rouge_n(one, other, 1) + _rouge_n(one, other, 2) + _rouge_l(one, other)) / 3)
        means.append(sum(scores) / len(scores) if scores else 0.0)
    return means
