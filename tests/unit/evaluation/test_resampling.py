"""Bootstrap intervals, tests and their power against loops, exact counts, simulations and known distributions."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student
from seeds import shifted

from fairseq_etads.evaluation import bootstrap_intervals, compare_pairs
from fairseq_etads.evaluation.resampling import (
    assign_family_indices,
    bootstrap_means,
    compare_systems_over_runs,
    compute_power,
    correct_p_values,
    trainings_needed,
)


def test_interval_equals_a_loop():
    scores, rng, means = np.random.default_rng(0).random((7, 2)), np.random.default_rng(3), []
    for _ in range(50):
        means.append([sum(column[i] for i in draw) / 7 for draw in [rng.integers(7, size=7)] for column in scores.T])
    assert np.allclose(bootstrap_intervals(scores, 50, shifted(3)), np.percentile(means, [2.5, 97.5], axis=0))


@settings(max_examples=25)
@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=12), st.integers(0, 5))
def test_swapping_the_systems_flips_the_sign_and_nothing_else(pairs, seed):
    first, second = (np.array(column)[:, None] for column in zip(*pairs))
    there, back = compare_pairs(first, second, 40, seed), compare_pairs(second, first, 40, seed)
    assert back["difference"] == pytest.approx(-there["difference"])
    if len(pairs) > 1:
        assert back["interval"][::-1] == pytest.approx(-there["interval"])
    for name in ("p_bootstrap", "p_randomisation"):
        assert back[name] == there[name] and 0 < there[name] <= 1


def test_randomisation_equals_all_exchanges():
    """With five documents there are 32 exchanges; the drawn share must be close to the exact one."""
    pairs = np.array([3.0, 1.0, 2.0, -0.5, 4.0])
    found = compare_pairs(pairs, np.zeros(5), 20_000, 1)
    sums = [sum(p if bits >> i & 1 else -p for i, p in enumerate(pairs)) for bits in range(32)]
    exact = sum(abs(s) >= abs(pairs.sum()) - 1e-9 for s in sums) / 32
    assert found["p_randomisation"] == pytest.approx(exact, abs=0.01)


def test_a_true_difference_is_found_and_none_is_not():
    rng = np.random.default_rng(0)
    scores, noise = rng.normal(40, 10, 400), rng.normal(0, 5, 400)
    noise += 0.1 - noise.mean()  # the mean is 0.4 standard errors from 0
    better, same = compare_pairs(scores + noise + 2, scores, 999, 1), compare_pairs(scores + noise, scores, 999, 1)
    assert better["p_bootstrap"] == better["p_randomisation"] == 1 / 1000
    assert min(same["p_bootstrap"], same["p_randomisation"]) > 0.05
    assert better["interval"][0] > 0 and same["interval"][0] < 0 < same["interval"][1]


def test_one_document_or_family_proves_nothing():
    rng = np.random.default_rng(0)
    first, second = rng.normal(30, 5, (2, 3, 6, 2))
    family = (50, 1, np.zeros(6, dtype=int))
    for found in (
        compare_systems_over_runs(first[:, :1], second[:, :1], 50, 1),
        compare_systems_over_runs(first, second, *family),
        compare_pairs(first[0, :1], second[0, :1], 50, 1),
        compare_pairs(first[0], second[0], *family),
    ):
        assert found["interval"] is None and found["difference"].shape == (2,)
        assert all((p == 1).all() and p.shape == (2,) for name, p in found.items() if name.startswith("p_"))


def test_whole_families_are_drawn():
    """There are two families, of 1 and 3 documents: a draw has the first twice, the second twice, or each once."""
    families = assign_family_indices(["b", "a", "a", "a"])
    assert families.tolist() == [1, 0, 0, 0]
    scores = np.array([8.0, 1.0, 2.0, 3.0])
    means = bootstrap_means(scores, 400, 1, families)
    found, counts = np.unique(means.round(6), return_counts=True)
    assert found.tolist() == [2.0, 3.5, 8.0]
    assert counts / 400 == pytest.approx([0.25, 0.5, 0.25], abs=0.08)


def test_copies_of_a_document_prove_nothing():
    """With ten copies of each of forty documents, p is the same as for the forty."""
    rng = np.random.default_rng(3)
    pairs = rng.normal(0.25, 1.0, 40)
    families = np.repeat(np.arange(40), 10)
    alone = compare_pairs(pairs, np.zeros(40), 2000, 1)
    copied = compare_pairs(np.repeat(pairs, 10), np.zeros(400), 2000, 1, families)
    assert copied["interval"] == pytest.approx(alone["interval"])
    for name in ("p_bootstrap", "p_randomisation"):
        assert copied[name] == pytest.approx(alone[name], abs=1e-9)
    careless = compare_pairs(np.repeat(pairs, 10), np.zeros(400), 2000, 1)
    assert careless["p_bootstrap"] < alone["p_bootstrap"] / 5
    runs = rng.normal(0.25, 1.0, (2, 3, 40))
    alone = compare_systems_over_runs(*runs, 500, 1)
    copied = compare_systems_over_runs(*runs.repeat(10, axis=2), 500, 1, families)
    assert copied["interval"] == pytest.approx(alone["interval"])


def of_levels(levels):
    """Make scores (trainings, documents) of trainings that differ only in their level."""
    return np.array(levels)[:, None] + np.linspace(0, 1, 20)


@pytest.mark.parametrize(
    ("first", "second", "freedom", "shares"),
    [
        ([1.0, 2.0, 4.0], [0.5, 1.0, 3.0], 4, 1 / 3 + 1 / 3),  # for equal numbers, variances are pooled
        ([1.0, 2.0, 4.0, 3.0], [2.0], 3, 1 / 4 + 1),  # a single training is taken to vary like the other system's
        ([1.0, 1.0], [0.0, 1.0, 3.0, 2.0], 3, 1 / 4),  # Welch's test: two equal trainings add no variance
    ],
)
def test_without_luck_of_documents_the_interval_is_students(first, second, freedom, shares):
    found = compare_systems_over_runs(of_levels(first), of_levels(second), 60_000, 1)
    squares = sum((x - statistics.mean(side)) ** 2 for side in (first, second) for x in side)
    half = student.ppf(0.975, freedom) * (squares / freedom * shares) ** 0.5
    difference = statistics.mean(first) - statistics.mean(second)
    assert found["difference"] == pytest.approx(difference)
    assert found["interval"] == pytest.approx([difference - half, difference + half], abs=0.05 * half)


def test_trainings_and_documents_add_their_variances():
    """With two parts of equal size, the interval is wider than with either part alone by the square root of two."""
    rng = np.random.default_rng(5)
    documents = rng.normal(size=400)
    documents -= documents.mean()
    level = np.array([-1.0, 0.0, 1.0] * 40)[:, None]  # with many trainings, Student's t is nearly normal
    wanted = documents.std() / 20
    first = documents + level * wanted * np.sqrt(120) / level.std(ddof=1)
    found = compare_systems_over_runs(first, np.zeros((120, 400)), 20_000, 1)
    half = 1.96 * wanted * 2**0.5
    assert np.diff(found["interval"])[0] / 2 == pytest.approx(half, rel=0.04)


def test_one_training_each_is_the_paired_bootstrap():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 1, 60, 2))
    together = compare_systems_over_runs(first, second, 300, 7)
    pairs = compare_pairs(first[0], second[0], 300, 7)
    assert together["difference"] == pytest.approx(pairs["difference"])
    assert together["interval"] == pytest.approx(pairs["interval"])
    assert together["p_bootstrap"] == pytest.approx(pairs["p_bootstrap"])


@pytest.mark.parametrize(("trainings", "at_most"), [((3, 3), 0.10), ((2, 5), 0.11)])
def test_equal_systems_rarely_differ(trainings, at_most):
    """The old bootstrap of three trainings had p < 0.05 in about 14 % of such cases."""
    rng = np.random.default_rng(6)
    times = 0
    for repeat in range(200):
        first, second = (rng.normal(size=(n, 1)) + rng.normal(size=(n, 30)) for n in trainings)
        times += compare_systems_over_runs(first, second, 200, repeat)["p_bootstrap"] < 0.05
    assert times / 200 <= at_most


def test_holm_steps_down():
    """Holm (1979): the smallest p times 3, the next times 2, the largest unchanged; none is below the one before."""
    assert correct_p_values([0.03, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert correct_p_values([0.9, 0.5]) == pytest.approx([1.0, 1.0])
    assert correct_p_values([]).tolist() == []


@pytest.mark.parametrize("trainings,difference", [(3, 1.16), (10, 0.5)])
def test_power_is_the_share_of_significant_simulations(trainings, difference):
    rng = np.random.default_rng(1)
    first = rng.normal(difference, 0.377, size=(40_000, trainings))
    second = rng.normal(0, 0.377, size=(40_000, trainings))
    pooled = (first.var(axis=1, ddof=1) + second.var(axis=1, ddof=1)) / 2
    t = (first.mean(axis=1) - second.mean(axis=1)) / np.sqrt(2 * pooled / trainings)
    share = (np.abs(t) > student.ppf(0.975, 2 * trainings - 2)).mean()
    assert compute_power(difference, 0.377, trainings) == pytest.approx(share, abs=4 * math.sqrt(0.16 / 40_000))
    assert compute_power(0.0, 0.4, trainings, level=0.05) == pytest.approx(0.05, abs=1e-4)


def test_the_number_of_trainings_is_the_least_that_suffices_for_a_positive_deviation():
    found = trainings_needed(0.5, 0.377)
    assert compute_power(0.5, 0.377, found) >= 0.8 > compute_power(0.5, 0.377, found - 1)
    assert trainings_needed(0.5, 0.377, level=0.05 / 35) > found
    assert trainings_needed(9.0, 0.377) == 3
    assert trainings_needed(0.01, 0.377, most=50) is None
    for deviation in (0.0, math.nan):
        with pytest.raises(ValueError, match="the standard deviation between runs is"):
            trainings_needed(1.0, deviation)
