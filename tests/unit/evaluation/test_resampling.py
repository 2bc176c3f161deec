"""Bootstrap intervals and paired tests against loops, exact counts and the normal approximation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seeds import shifted

from fairseq_etads.evaluation import bootstrap_intervals, compare_pairs


def test_interval_equals_a_loop():
    scores, rng, means = np.random.default_rng(0).random((7, 2)), np.random.default_rng(3), []
    for _ in range(50):
        means.append([sum(column[i] for i in draw) / 7 for draw in [rng.integers(7, size=7)] for column in scores.T])
    assert np.allclose(bootstrap_intervals(scores, 50, shifted(3)), np.percentile(means, [2.5, 97.5], axis=0))


def test_interval_has_the_width_of_the_normal_approximation():
    scores = np.random.default_rng(0).normal(size=(2000, 1))
    low, high = bootstrap_intervals(scores, 2000, 1)[:, 0]
    half = 1.96 * scores.std() / np.sqrt(len(scores))
    assert [low, high] == pytest.approx([scores.mean() - half, scores.mean() + half], abs=half / 10)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=12), st.integers(0, 5))
def test_swapping_the_systems_flips_the_sign_and_nothing_else(pairs, seed):
    first, second = (np.array(column)[:, None] for column in zip(*pairs))
    there, back = compare_pairs(first, second, 40, seed), compare_pairs(second, first, 40, seed)
    assert back["difference"] == pytest.approx(-there["difference"])
    assert back["interval"][::-1] == pytest.approx(-there["interval"])
    for name in ("p_bootstrap", "p_randomisation"):
        assert back[name] == there[name] and 0 < there[name] <= 1


def test_randomisation_equals_all_exchanges():
    """With five documents there are 32 exchanges; the drawn share must come near to theirs."""
    pairs = np.array([3.0, 1.0, 2.0, -0.5, 4.0])
    found = compare_pairs(pairs, np.zeros(5), 20_000, 1)
    sums = [sum(p if bits >> i & 1 else -p for i, p in enumerate(pairs)) for bits in range(32)]
    exact = sum(abs(s) >= abs(pairs.sum()) - 1e-9 for s in sums) / 32
    assert found["p_randomisation"] == pytest.approx(exact, abs=0.01)


def test_a_true_difference_is_found_and_none_is_not():
    rng = np.random.default_rng(0)
    scores, noise = rng.normal(40, 10, 400), rng.normal(0, 5, 400)
    noise += 0.1 - noise.mean()  # 0.4 standard errors from 0
    better, same = compare_pairs(scores + noise + 2, scores, 999, 1), compare_pairs(scores + noise, scores, 999, 1)
    assert better["p_bootstrap"] == better["p_randomisation"] == 1 / 1000
    assert min(same["p_bootstrap"], same["p_randomisation"]) > 0.05
    assert better["interval"][0] > 0 and same["interval"][0] < 0 < same["interval"][1]


def test_equal_systems_have_the_p_value_1():
    scores = np.array([1.0, 2.0, 3.0])
    found = compare_pairs(scores, scores, 50, 1)
    assert found["p_bootstrap"] == found["p_randomisation"] == 1
