"""Power of the comparison of two systems by the means of their trainings."""

import math

import numpy as np
import pytest

from fairseq_etads.evaluation.power import compute_critical_value, compute_power, trainings_needed


@pytest.mark.parametrize("freedom,level,expected", [(4, 0.05, 2.776445), (18, 0.05, 2.100922), (2, 0.01, 9.924843)])
def test_critical_values_are_those_of_tables(freedom, level, expected):
    assert compute_critical_value(freedom, level) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("trainings", [2, 3, 10])
def test_without_a_difference_the_power_is_the_level(trainings):
    assert compute_power(0.0, 0.4, trainings, level=0.05) == pytest.approx(0.05, abs=1e-4)


@pytest.mark.parametrize("trainings,difference", [(3, 1.16), (5, 0.76), (10, 0.5)])
def test_power_is_the_share_of_significant_simulations(trainings, difference):
    rng = np.random.default_rng(1)
    first = rng.normal(difference, 0.377, size=(40_000, trainings))
    second = rng.normal(0, 0.377, size=(40_000, trainings))
    pooled = (first.var(axis=1, ddof=1) + second.var(axis=1, ddof=1)) / 2
    t = (first.mean(axis=1) - second.mean(axis=1)) / np.sqrt(2 * pooled / trainings)
    share = (np.abs(t) > compute_critical_value(2 * trainings - 2, 0.05)).mean()
    assert compute_power(difference, 0.377, trainings) == pytest.approx(share, abs=4 * math.sqrt(0.16 / 40_000))


def test_the_number_of_trainings_is_the_least_that_suffices():
    found = trainings_needed(0.5, 0.377)
    assert compute_power(0.5, 0.377, found) >= 0.8 > compute_power(0.5, 0.377, found - 1)
    assert trainings_needed(0.5, 0.377, level=0.05 / 35) > found
    assert trainings_needed(9.0, 0.377) == 3
    assert trainings_needed(0.01, 0.377, most=50) is None


@pytest.mark.parametrize("deviation", [0.0, -1.0, math.nan])
def test_a_deviation_that_is_not_positive_is_refused(deviation):
    with pytest.raises(ValueError, match=r"the standard deviation between runs is .*, but must be greater than 0"):
        trainings_needed(1.0, deviation)
