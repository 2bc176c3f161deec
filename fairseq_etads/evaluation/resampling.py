"""Confidence intervals for means, and tests of the difference between two means: bootstrap, randomisation, Student's t.

All functions draw with a given seed, so the same scores result in the same intervals and p-values.

If documents belong to families (near-copies, packages from one source), pass ``families`` (n,), which contains a family
number for each document. Whole families are then drawn, because documents of the same family are not independent.
"""

from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np


def family_numbers(names: Sequence[str]) -> np.ndarray:
    """Number the families 0, 1, ... in the order of their names, and return the number of each document (n,)."""
    return np.unique(np.asarray(names), return_inverse=True)[1]


def _draw_counts(rng: np.random.Generator, n: int, families: Optional[np.ndarray]) -> np.ndarray:
    """Draw n documents, or the number of families, and return how often each document (n,) was drawn."""
    if families is None:
        return np.bincount(rng.integers(n, size=n), minlength=n).astype(float)
    count = int(families.max()) + 1
    return np.bincount(rng.integers(count, size=count), minlength=count)[families].astype(float)


def bootstrap_means(scores: np.ndarray, resamples: int, seed: int, families: Optional[np.ndarray] = None) -> np.ndarray:
    """Compute the means of bootstrap samples, which draw n of the n rows of ``scores`` (n, ...) with replacement.

    All columns share the draws. Samples are drawn one at a time to save memory. With ``families`` (n,), whole families
    are drawn.

    Returns:
        means (resamples, ...).
    """
    rng = np.random.default_rng(seed)
    rows = scores.reshape(len(scores), -1)
    means = np.empty((resamples, rows.shape[1]))
    for draw in range(resamples):
        counts = _draw_counts(rng, len(rows), families)
        means[draw] = counts @ rows / counts.sum()
    return means.reshape(resamples, *scores.shape[1:])


def bootstrap_intervals(scores: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Compute 95 % confidence intervals, low and high (2, ...), for the means of ``scores`` (n, ...) over axis 0.

    The percentile bootstrap (Efron 1979) uses the 2.5th and 97.5th percentiles of :func:`bootstrap_means`.
    """
    return np.percentile(bootstrap_means(scores, resamples, seed), [2.5, 97.5], axis=0)


def _share_as_far(means: np.ndarray, difference: np.ndarray) -> np.ndarray:
    """Compute two-sided p-values (...): the share of ``means`` (resamples, ...) as far from ``difference`` as 0 is.

    The observed difference counts as one resample, so that no p-value is 0: (1 + times) / (1 + resamples).
    """
    # Equal sums may differ in their last digits, because the order of addition differs.
    as_far = np.abs(means - difference) >= np.abs(difference) - 1e-9
    return (1 + as_far.sum(axis=0)) / (1 + len(means))


def compare_pairs(
    first: np.ndarray, second: np.ndarray, resamples: int, seed: int, families: Optional[np.ndarray] = None
) -> Dict[str, Any]:
    """Test the difference between the mean scores of two sets of summaries of the same n documents.

    The result says nothing about other training runs of the two systems; see :func:`compare_trainings`.

    Args:
        first, second: scores (n, ...) of the same documents in the same order.
        families: number of each document's family (n,); documents of a family are drawn and exchanged together.

    Returns:
        "difference" (...) of the means, first minus second, its 95 % "interval" (2, ...) from a paired bootstrap, and
        two two-sided p-values (...). "p_bootstrap" is the share of bootstrap differences at least as far from the
        observed difference as the observed difference is from 0 (Efron and Tibshirani 1993, section 16.4).
        "p_randomisation" is the share of random swaps of the two systems' scores that give a difference at least as
        large as the observed one (Noreen 1989; Riezler and Maxwell 2005).
    """
    pairs = first - second
    n = len(pairs)
    difference = pairs.mean(axis=0)
    means = bootstrap_means(pairs, resamples, seed, families)
    groups = np.arange(n) if families is None else families
    rng = np.random.default_rng([seed, 1])
    rows = pairs.reshape(n, -1)
    exchanged = np.empty((resamples, rows.shape[1]))
    for draw in range(resamples):
        signs = rng.integers(2, size=int(groups.max()) + 1) * 2.0 - 1
        exchanged[draw] = signs[groups] @ rows / n
    return {
        "difference": difference,
        "interval": np.percentile(means, [2.5, 97.5], axis=0),
        "p_bootstrap": _share_as_far(means, difference),
        "p_randomisation": _share_as_far(exchanged.reshape(resamples, *difference.shape) + difference, difference),
    }


def _training_error(first: np.ndarray, second: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Compute the standard error (...) of the difference between means over runs, and its degrees of freedom (...).

    The runs of both systems are assumed to vary equally if both systems have the same number of runs or one system has
    a single run (Student). Otherwise, Welch's formula is used.

    Args:
        first, second: mean score of each training run (runs, ...).
    """
    numbers = len(first), len(second)
    variances = [
        means.var(axis=0, ddof=1) if len(means) > 1 else np.zeros(means.shape[1:]) for means in (first, second)
    ]
    if min(numbers) == 1 or numbers[0] == numbers[1]:
        freedom = max(sum(numbers) - 2, 1)
        pooled = ((numbers[0] - 1) * variances[0] + (numbers[1] - 1) * variances[1]) / freedom
        return np.sqrt(pooled * sum(1 / number for number in numbers)), np.full(pooled.shape, float(freedom))
    parts = [variance / number for number, variance in zip(numbers, variances)]
    below = sum(part**2 / (number - 1) for number, part in zip(numbers, parts))
    total = parts[0] + parts[1]
    freedom = np.divide(total**2, below, out=np.full(total.shape, float(min(numbers) - 1)), where=below > 0)
    return np.sqrt(total), freedom


def _variance_of_mean(rows: np.ndarray, families: Optional[np.ndarray]) -> np.ndarray:
    """Compute the variance (...) of the mean of ``rows`` (n, ...) over axis 0, from sums over families if given."""
    deviations = rows - rows.mean(axis=0)
    if families is not None:
        sums = np.zeros((int(families.max()) + 1, *rows.shape[1:]))
        np.add.at(sums, families, deviations)
        deviations = sums
    return (deviations**2).sum(axis=0) / len(rows) ** 2


def _document_share(first: np.ndarray, second: np.ndarray, families: Optional[np.ndarray]) -> np.ndarray:
    """Compute the share (...) of the bootstrap variance that is due to documents, independently of the training.

    The mean scores over runs also vary between documents because each run treats documents differently. The spread of
    the runs' means already contains this part, so it must not be counted twice.

    Args:
        first, second: scores (runs, n, ...).
    """
    spread = _variance_of_mean(first.mean(axis=0) - second.mean(axis=0), families)
    freedom = len(first) + len(second) - 2
    if not freedom:
        return np.ones(spread.shape)
    by_training = sum(
        _variance_of_mean(training - scores.mean(axis=0), families) for scores in (first, second) for training in scores
    )
    twice = by_training / freedom * (1 / len(first) + 1 / len(second))
    return np.clip(1 - np.divide(twice, spread, out=np.zeros(spread.shape), where=spread > 0), 0, 1)


def compare_trainings(
    first: np.ndarray, second: np.ndarray, resamples: int, seed: int, families: Optional[np.ndarray] = None
) -> Dict[str, Any]:
    """Test the difference between two systems, each trained several times with different seeds.

    The uncertainty consists of two independent parts, which are drawn together. For the documents, the test uses a
    paired bootstrap of the mean scores over training runs. For the runs, it uses Student's t with the standard error of
    the difference between their means (Welch's form if the systems have different numbers of runs). The interval from a
    bootstrap over two to five runs would be too narrow: its type-I error is two to four times the nominal error.
    ``scripts/simulate_comparisons.py`` measures the error and the power of this test.

    Args:
        first, second: scores (runs, n, ...) of the same documents in the same order. If one system has a single run,
            its scores are assumed to vary between runs like the scores of the other system. If both systems have a
            single run, only documents are drawn.
        families: number of each document's family (n,); documents of a family are drawn together.

    Returns:
        "difference" (...) of the means, first minus second, its 95 % "interval" (2, ...) and the two-sided
        "p_bootstrap" (...), as in :func:`compare_pairs`.
    """
    documents = first.mean(axis=0) - second.mean(axis=0)  # (n, ...)
    difference = documents.mean(axis=0)
    error, freedom = _training_error(first.mean(axis=1), second.mean(axis=1))
    rng = np.random.default_rng([seed, 2])
    trainings = error * rng.standard_t(np.broadcast_to(freedom, (resamples, *difference.shape)))
    drawn = bootstrap_means(documents, resamples, seed, families) - difference
    means = difference + np.sqrt(_document_share(first, second, families)) * drawn + trainings
    return {
        "difference": difference,
        "interval": np.percentile(means, [2.5, 97.5], axis=0),
        "p_bootstrap": _share_as_far(means, difference),
    }


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Correct the p-values of a family of tests for the number of tests (Holm 1979), and keep their order.

    At a significance level of 0.05 for the corrected values, the probability of one or more false rejections in the
    family is at most 0.05.
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)
    corrected = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    found = np.empty(len(p))
    found[order] = np.minimum(corrected, 1.0)
    return found
