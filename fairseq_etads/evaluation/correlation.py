"""Correlations between scores and people's ratings, for systems and for the summaries of one document."""

from typing import Callable, Dict, Tuple

import numpy as np


def compute_pearson(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute Pearson's r along the last axis. It is NaN if all values of one side are equal."""
    x, y = (values - values.mean(-1, keepdims=True) for values in (first, second))
    with np.errstate(invalid="ignore", divide="ignore"):
        r: np.ndarray = (x * y).sum(-1) / np.sqrt((x**2).sum(-1) * (y**2).sum(-1))
    return r


def compute_spearman(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute Spearman's rho along the last axis: Pearson's r of the ranks."""
    from scipy.stats import rankdata  # imported here, because this takes a second

    return compute_pearson(rankdata(first, axis=-1), rankdata(second, axis=-1))


def compute_kendall(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute Kendall's tau-b along the last axis, which allows for equal values (Kendall 1945)."""
    x, y = (np.sign(values[..., :, None] - values[..., None, :]) for values in (first, second))
    return compute_pearson(*(signs.reshape(*signs.shape[:-2], -1) for signs in (x, y)))


CORRELATIONS: Dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "pearson": compute_pearson,
    "spearman": compute_spearman,
    "kendall": compute_kendall,
}


def correlate(scores: np.ndarray, ratings: np.ndarray, resamples: int, seed: int) -> Dict[str, Dict[str, Tuple]]:
    """Correlate the scores and ratings of several systems' summaries of the same documents.

    Args:
        scores, ratings: one value for each summary, shape (documents, systems).
        resamples: number of bootstrap resamples of the documents for the 95 % intervals.

    Returns:
        For each name in :data:`CORRELATIONS`, a dictionary with "summary", the mean over the documents of the
        correlation between the systems' summaries (documents with equal scores or ratings are left out), and "system",
        the correlation between the systems' means. Each is a tuple (value, lower bound, upper bound).
    """
    draws = np.random.default_rng(seed).integers(len(scores), size=(resamples, len(scores)))
    found: Dict[str, Dict[str, Tuple]] = {}
    for name, compute in CORRELATIONS.items():
        within = compute(scores, ratings)
        of_summaries = np.nanmean(within[draws], axis=1)
        of_systems = compute(scores[draws].mean(1), ratings[draws].mean(1))
        found[name] = {
            level: (float(value), *np.nanpercentile(sample, [2.5, 97.5]).tolist())
            for level, value, sample in (
                ("summary", np.nanmean(within), of_summaries),
                ("system", compute(scores.mean(0), ratings.mean(0)), of_systems),
            )
        }
    return found
