"""Word vectors from text: counts and mutual information by loops, neighbours with similar meanings, and odd texts."""

import math
import random

import pytest
import torch

from fairseq_etads.data import initial_values
from fairseq_etads.data.initial_values import SMOOTHING, WEIGHTS, compute_mutual_information, count_cooccurrences


@pytest.mark.parametrize("contexts", [4, 9])
def test_counts_and_mutual_information_are_those_of_the_loops(contexts, monkeypatch):
    monkeypatch.setattr(initial_values, "MOST_CONTEXTS", contexts)
    generator = random.Random(0)
    size, contexts = 7, min(contexts, 7)
    words = [generator.choice([-1, 0, 1, 2, 3, 5, 6]) for _ in range(60)]  # 4 never occurs
    expected = [[0.0] * contexts for _ in range(size)]
    for i, word in enumerate(words):
        for j, context in enumerate(words):
            if 1 <= abs(i - j) <= len(WEIGHTS) and word >= 0 and 0 <= context < contexts:
                expected[word][context] += WEIGHTS[abs(i - j) - 1]
    counts = count_cooccurrences(torch.tensor(words), size)
    torch.testing.assert_close(counts, torch.tensor(expected))
    smoothed = [sum(row[c] for row in expected) ** SMOOTHING for c in range(contexts)]
    found = compute_mutual_information(counts)
    for w in range(size):
        for c in range(contexts):
            value = 0.0
            if expected[w][c]:
                value = max(0.0, math.log(expected[w][c] / sum(expected[w]) / (smoothed[c] / sum(smoothed))))
            assert found[w, c].item() == pytest.approx(value, abs=1e-5)


def text_of_two_topics(sentences=400):
    """Words 0 to 9 belong to one topic, 10 to 19 to another; a sentence has words of one topic."""
    generator = random.Random(1)
    words = []
    for _ in range(sentences):
        topic = generator.randrange(2)
        words += [10 * topic + generator.randrange(10) for _ in range(8)] + [-1] * len(WEIGHTS)
    return torch.tensor(words)


def test_words_of_one_topic_are_near_one_another():
    made = initial_values.compute_word_vectors(text_of_two_topics(), 20, 8)
    assert made.found.all()
    torch.testing.assert_close(made.vectors.norm(dim=1), torch.ones(20))
    cosines = made.vectors @ made.vectors.t()
    same, other = cosines[:10, :10].mean(), cosines[:10, 10:].mean()
    assert same > other + 0.3


def test_the_same_text_has_the_same_vectors_and_no_draw_of_others_is_changed():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = initial_values.compute_word_vectors(text_of_two_topics(), 20, 8)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(first.vectors, initial_values.compute_word_vectors(text_of_two_topics(), 20, 8).vectors)


@pytest.mark.parametrize("words", [[], [3], [3, -1, -1, -1, -1, 3]])
def test_a_text_without_pairs_has_no_vectors(words):
    made = initial_values.compute_word_vectors(torch.tensor(words, dtype=torch.long), 6, 4)
    assert not made.found.any() and not made.vectors.any()


def test_more_dimensions_than_words_are_zero():
    made = initial_values.compute_word_vectors(text_of_two_topics(), 20, 50)
    assert made.vectors.shape == (20, 50) and made.found.all() and not made.vectors[:, 20:].any()
