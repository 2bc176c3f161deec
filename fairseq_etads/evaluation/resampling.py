"""Compute confidence intervals for means, and test differences between means for significance.

The methods are the bootstrap, randomisation tests and Student's t-test. All functions use a given seed, so the same
scores always produce the same intervals and p-values. The power of a t-test on the mean scores of training runs, with
the same number of runs of both systems, is computed from ``deviation``, the standard deviation of these scores.

Documents may belong to families, such as near-duplicates or packages from the same source. Documents in the same family
are not independent, so whole families should be drawn. For this purpose, pass an array ``families`` (n,) with the
family index of each document.
"""

import math
from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np


def assign_family_indices(names: Sequence[str]) -> np.ndarray:
    """Return the family index of each document, shape (n,). Names are numbered in alphabetical order."""
    return np.unique(np.asarray(names), return_inverse=True)[1]


def count_resampling_units(documents: int, families: Optional[np.ndarray] = None) -> int:
    """Return the number of units that are drawn: the families if they are given, or otherwise the documents."""
    return documents if families is None else len(np.unique(families))


def _draw_bootstrap_document_counts(rng: np.random.Generator, n: int, families: Optional[np.ndarray]) -> np.ndarray:
    """Draw as many documents (or families) as there are. Returns how often each document was drawn, shape (n,)."""
    if families is None:
        return np.bincount(rng.integers(n, size=n), minlength=n).astype(float)
    count = int(families.max()) + 1
    return np.bincount(rng.integers(count, size=count), minlength=count)[families].astype(float)


def bootstrap_means(scores: np.ndarray, resamples: int, seed: int, families: Optional[np.ndarray] = None) -> np.ndarray:
    """Compute the means (resamples, ...) of bootstrap samples of the scores (n, ...).

    Each sample consists of n rows that are drawn with replacement, the same for all columns, or of whole families if
    ``families`` (n,) is given. Samples are drawn one at a time to save memory.
    """
    rng = np.random.default_rng(seed)
    rows = scores.reshape(len(scores), -1)
    means = np.empty((resamples, rows.shape[1]))
    for draw in range(resamples):
        counts = _draw_bootstrap_document_counts(rng, len(rows), families)
        means[draw] = counts @ rows / counts.sum()
    return means.reshape(resamples, *scores.shape[1:])


def bootstrap_intervals(scores: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Compute 95 % confidence intervals (2, ...) for the means of ``scores`` (n, ...) over axis 0.

    The method is the percentile bootstrap (Efron 1979): the 2.5th and 97.5th percentiles of :func:`bootstrap_means`.
    """
    return np.percentile(bootstrap_means(scores, resamples, seed), [2.5, 97.5], axis=0)


def _compute_p_values(means: np.ndarray, difference: np.ndarray) -> np.ndarray:
    """Compute (1 + k) / (1 + resamples), where k resampled means are at least as far from ``difference`` as 0 is."""
    # The observed difference is treated as an additional resample, so the p-value is never 0.
    # Sums that should be equal may differ in the last digits, because their terms are added in different orders.
    as_far = np.abs(means - difference) >= np.abs(difference) - 1e-9
    return (1 + as_far.sum(axis=0)) / (1 + len(means))


def compare_pairs(
    first: np.ndarray, second: np.ndarray, resamples: int, seed: int, families: Optional[np.ndarray] = None
) -> Dict[str, Any]:
    """Test the difference between the mean scores of two systems that have summarised the same n documents.

    The result does not reflect the variation of scores between training runs; see :func:`compare_systems_over_runs`.

    Args:
        first, second: scores of the two systems for the same documents in the same order, shape (n, ...).
        families: family index of each document, shape (n,). Documents in the same family are drawn and swapped
            together.

    Returns:
        A dictionary with the "difference" (...) between the means (first minus second), its 95 % "interval" (2, ...)
        from a paired bootstrap, and two two-sided p-values (...). "p_bootstrap" is the fraction of bootstrap
        differences that are at least as far from the observed difference as 0 is (Efron and Tibshirani 1993, section
        16.4). "p_randomisation" is the fraction of random swaps between the scores of both systems that produce a
        difference at least as large as the observed difference (Noreen 1989; Riezler and Maxwell 2005). A single
        document or family proves nothing: the interval is None and the p-values are 1.
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
    found = {
        "difference": difference,
        "interval": np.percentile(means, [2.5, 97.5], axis=0),
        "p_bootstrap": _compute_p_values(means, difference),
        "p_randomisation": _compute_p_values(exchanged.reshape(resamples, *difference.shape) + difference, difference),
    }
    return _withhold_undefined_results(found, count_resampling_units(n, families))


def _compute_standard_error_over_runs(first: np.ndarray, second: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Compute the standard error (...) of a difference between means (runs, ...), and its degrees of freedom (...)."""
    # With the same number of runs, or a single run of one system, the variance between runs is assumed to be the same
    # for both systems (Student's t-test). Otherwise, Welch's t-test is used.
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


def _compute_variance_of_mean(rows: np.ndarray, families: Optional[np.ndarray]) -> np.ndarray:
    """Compute the variance (...) of the mean of ``rows`` (n, ...), from sums over families if they are given."""
    deviations = rows - rows.mean(axis=0)
    if families is not None:
        sums = np.zeros((int(families.max()) + 1, *rows.shape[1:]))
        np.add.at(sums, families, deviations)
        deviations = sums
    return (deviations**2).sum(axis=0) / len(rows) ** 2


def _compute_document_share(first: np.ndarray, second: np.ndarray, families: Optional[np.ndarray]) -> np.ndarray:
    """Compute the share (...) of the bootstrap variance of scores (runs, n, ...) that is caused by the documents."""
    # The rest arises because different runs perform better on different documents. It is already included in the
    # variance between the means of the runs and must not be counted twice.
    spread = _compute_variance_of_mean(first.mean(axis=0) - second.mean(axis=0), families)
    freedom = len(first) + len(second) - 2
    if not freedom:
        return np.ones(spread.shape)
    by_training = sum(
        _compute_variance_of_mean(training - scores.mean(axis=0), families)
        for scores in (first, second)
        for training in scores
    )
    twice = by_training / freedom * (1 / len(first) + 1 / len(second))
    return np.clip(1 - np.divide(twice, spread, out=np.zeros(spread.shape), where=spread > 0), 0, 1)


def compare_systems_over_runs(
    first: np.ndarray, second: np.ndarray, resamples: int, seed: int, families: Optional[np.ndarray] = None
) -> Dict[str, Any]:
    """Test the difference between two systems that were each trained several times with different seeds.

    The uncertainty has two independent sources, which are sampled together. The variation between documents is
    estimated with a paired bootstrap of the mean scores over training runs. The variation between runs is modelled by
    Student's t-distribution with the standard error of the difference between the means of the runs (Welch's t-test if
    the systems have different numbers of runs). A bootstrap over two to five runs would produce intervals that are too
    narrow, with a type-I error rate of two to four times the nominal rate. ``results/comparisons.json`` contains the
    type-I error rate and the power of this test in simulations.

    Args:
        first, second: scores of the two systems for the same documents in the same order, shape (runs, n, ...). If one
            system has a single run, its variance between runs is assumed to be the same as for the other system. If
            both systems have a single run, only documents are drawn.
        families: family index of each document, shape (n,). Documents in the same family are drawn together.

    Returns:
        A dictionary with the "difference" (...) between the means (first minus second), its 95 % "interval" (2, ...)
        and the two-sided p-value "p_bootstrap" (...), as in :func:`compare_pairs`. With a single document or family,
        the interval is None and the p-value is 1.
    """
    documents = first.mean(axis=0) - second.mean(axis=0)  # (n, ...)
    difference = documents.mean(axis=0)
    error, freedom = _compute_standard_error_over_runs(first.mean(axis=1), second.mean(axis=1))
    rng = np.random.default_rng([seed, 2])
    trainings = error * rng.standard_t(np.broadcast_to(freedom, (resamples, *difference.shape)))
    drawn = bootstrap_means(documents, resamples, seed, families) - difference
    means = difference + np.sqrt(_compute_document_share(first, second, families)) * drawn + trainings
    found = {
        "difference": difference,
        "interval": np.percentile(means, [2.5, 97.5], axis=0),
        "p_bootstrap": _compute_p_values(means, difference),
    }
    return _withhold_undefined_results(found, count_resampling_units(len(documents), families))


def _withhold_undefined_results(found: Dict[str, Any], units: int) -> Dict[str, Any]:
    """Replace the interval with None and the p-values with 1 if there is only one document or family."""
    if units > 1:
        return found
    p_values = {name: np.ones_like(value) for name, value in found.items() if name.startswith("p_")}
    return {**found, "interval": None, **p_values}


def correct_p_values(p_values: Sequence[float]) -> np.ndarray:
    """Correct the p-values of several tests for multiple testing (Holm 1979), and return them in the same order.

    If they are compared with a significance level of 0.05, the probability of rejecting at least one true null
    hypothesis is at most 0.05.
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)
    corrected = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    found = np.empty(len(p))
    found[order] = np.minimum(corrected, 1.0)
    return found


def compute_power(difference: float, deviation: float, trainings: int, level: float = 0.05) -> float:
    """Compute the probability that the test detects a true difference at the significance level ``level``.

    ``deviation`` is assumed to be the same for both systems, each of which has ``trainings`` runs, at least 2.

    Raises:
        ValueError: the deviation is not positive, so the test is undefined.
    """
    from scipy.stats import f, ncf  # imported here, because this takes a second

    if not deviation > 0:
        raise ValueError(f"the standard deviation between runs is {deviation}, but must be greater than 0")
    if difference == 0:
        return level
    freedom = 2 * trainings - 2
    # The square of t follows an F-distribution, whose noncentrality is the square of the shift of t.
    shift = difference / (deviation * math.sqrt(2 / trainings))
    return float(ncf.sf(f.isf(level, 1, freedom), 1, freedom, shift**2))


def trainings_needed(
    difference: float, deviation: float, level: float = 0.05, wanted: float = 0.8, most: int = 1000
) -> Optional[int]:
    """Compute the number of runs per system needed to detect a true difference with the probability ``wanted``.

    The number is at least three, or None if it is greater than ``most``.

    Raises:
        ValueError: the deviation is not positive, so the test is undefined.
    """
    numbers = range(3, most + 1)
    return next((n for n in numbers if compute_power(difference, deviation, n, level) >= wanted), None)
