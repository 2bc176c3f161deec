"""Minimum-error-rate training: line searches against brute force, and known optima."""

import itertools

import numpy as np
import pytest

from fairseq_etads.tuning.extractive_weights import (
    NBestList,
    compute_mean_score,
    find_best_weight_value,
    find_best_weights,
    hill_climb_weights,
)


def random_lists(seed, documents=6, size=8, features=5):
    numbers = np.random.default_rng(seed)
    return [
        NBestList(numbers.integers(-3, 4, (size, features)).astype(float), numbers.random(size))
        for _ in range(documents)
    ]


def candidates(lists, weights, feature):
    """List a value on each step of the metric, between any two places where two lines of a document meet."""
    places = set()
    for nbest in lists:
        others = np.array(weights)
        others[feature] = 0
        heights, slopes = nbest.features @ others, nbest.features[:, feature]
        for i, j in itertools.combinations(range(len(slopes)), 2):
            if slopes[i] != slopes[j]:
                places.add((heights[j] - heights[i]) / (slopes[i] - slopes[j]))
    ordered = sorted(places)
    return [ordered[0] - 1, *((a + b) / 2 for a, b in zip(ordered, ordered[1:])), ordered[-1] + 1]


@pytest.mark.parametrize("feature", [1, 3])
def test_a_line_search_finds_the_best_of_all_steps(feature):
    for seed in range(8):
        lists, weights = random_lists(seed), [1.0, *np.random.default_rng(seed).normal(size=4).tolist()]
        value, score = find_best_weight_value(lists, weights, feature)

        def score_at(x, lists=lists, weights=weights):
            return compute_mean_score(lists, [*weights[:feature], x, *weights[feature + 1 :]])

        assert score_at(value) == pytest.approx(score)
        assert score == pytest.approx(max(map(score_at, [weights[feature], *candidates(lists, weights, feature)])))
    flat = [NBestList(np.ones((3, 5)), np.array([0.2, 0.9, 0.5]))]
    assert find_best_weight_value(flat, weights, feature) == (weights[feature], pytest.approx(0.2)), (
        "the first of equals"
    )


def test_a_known_optimum_is_found():
    """The metric is highest for the top hypotheses under certain weights, so these score 1."""
    numbers, wanted = np.random.default_rng(0), np.array([1.0, 4.0, -2.0, 0.5, 3.0])
    lists = []
    for _ in range(40):
        features = numbers.normal(size=(15, 5))
        scores = np.zeros(15)
        scores[(features @ wanted).argmax()] = 1.0
        lists.append(NBestList(features, scores))
    plain = [1.0, 0.0, 0.0, 0.0, 0.0]
    found, score = find_best_weights(lists, plain, points=20, seed=1)
    assert compute_mean_score(lists, plain) < 0.5 and found[0] == 1.0
    assert score == pytest.approx(compute_mean_score(lists, found)) and score >= 0.95
    assert find_best_weights(lists, plain, points=20, seed=1) == (found, score)
    assert hill_climb_weights(lists, plain)[1] <= score
    assert hill_climb_weights(lists, wanted.tolist()) == (wanted.tolist(), 1.0), "nothing is left to gain"
