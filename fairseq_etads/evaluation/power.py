"""Compute the power of a comparison between two systems, and the number of runs needed to detect a difference.

The test is Student's t-test on the mean scores of training runs, with the same number of runs for both systems. The
parameter ``deviation`` is the standard deviation of a system's mean score over runs with different seeds. All values
are computed by numerical integration, which does not require random numbers.
"""

import functools
import math
from typing import Optional

import numpy as np

_STEPS = 4001


def _integrate_with_trapezoidal_rule(values: np.ndarray, places: np.ndarray) -> float:
    """Compute the integral of ``values`` over ``places`` with the trapezoidal rule."""
    return float(((values[1:] + values[:-1]) / 2 * np.diff(places)).sum())


@functools.cache
def compute_critical_value(freedom: int, level: float) -> float:
    """Compute the critical value of a two-sided t-test, which |t| exceeds with probability ``level``.

    Args:
        freedom: degrees of freedom of Student's t-distribution.
        level: significance level of the two-sided test.
    """
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)

    def compute_exceedance(t: float) -> float:
        # The substitution x = tan(a) sqrt(freedom) maps the tail to a finite interval.
        angles = np.linspace(math.atan(t / math.sqrt(freedom)), math.pi / 2, _STEPS)
        return (
            2 * scale * math.sqrt(freedom) * _integrate_with_trapezoidal_rule(np.cos(angles) ** (freedom - 1), angles)
        )

    low, high = 0.0, 1.0
    while compute_exceedance(high) > level:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if compute_exceedance(middle) > level else (low, middle)
    return high


def compute_power(difference: float, deviation: float, trainings: int, level: float = 0.05) -> float:
    """Compute the probability that the test detects a true difference at the significance level ``level``.

    Args:
        difference: true difference between the expected scores of the two systems.
        deviation: standard deviation of a system's mean score over runs with different seeds, which is assumed to be
            the same for both systems.
        trainings: number of training runs per system, which must be at least 2.

    Raises:
        ValueError: the deviation is not positive, so the test is undefined.
    """
    if not deviation > 0:
        raise ValueError(f"the standard deviation between runs is {deviation}, but must be greater than 0")
    freedom = 2 * trainings - 2
    shift = abs(difference) / (deviation * math.sqrt(2 / trainings))
    limit = compute_critical_value(freedom, level)
    # The estimated standard deviation is s times the true one, where s² * freedom follows a chi-squared distribution.
    s = np.linspace(0, 1 + 12 / math.sqrt(2 * freedom), _STEPS)[1:]
    log_density = (freedom - 1) * np.log(s) - freedom * s**2 / 2
    log_density += math.log(2) + freedom / 2 * math.log(freedom / 2) - math.lgamma(freedom / 2)
    error = np.vectorize(math.erf)
    beyond = (2 + error((shift - limit * s) / math.sqrt(2)) + error((-shift - limit * s) / math.sqrt(2))) / 2
    return _integrate_with_trapezoidal_rule(np.exp(log_density) * beyond, s)


def trainings_needed(
    difference: float, deviation: float, level: float = 0.05, wanted: float = 0.8, most: int = 1000
) -> Optional[int]:
    """Compute the number of runs per system needed to detect a true difference with the probability ``wanted``.

    Returns:
        The smallest sufficient number of runs, which is at least three. None if it is greater than ``most``.

    Raises:
        ValueError: the deviation is not positive, so the test is undefined.
    """
    low, high = 2, 3
    while compute_power(difference, deviation, high, level) < wanted:
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        enough = compute_power(difference, deviation, middle, level) >= wanted
        low, high = (low, middle) if enough else (middle, high)
    return high
