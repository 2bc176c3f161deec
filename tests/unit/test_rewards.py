"""Rewards: ROUGE against the package rouge-score on random texts, hand-computed cases, rewards of one's own."""

import itertools
import random

import pytest
from rouge_score import rouge_scorer, scoring
from seeds import shifted

from fairseq_etads.evaluation.rewards import REWARDS, reward_by_name, rouge_l, rouge_n, split_sentences


def random_text(generator, words, most):
    return [
        [generator.choice("abcdefgh"[:words]) for _ in range(generator.randint(1, most))]
        for _ in range(generator.randint(0, 4))
    ]


@pytest.mark.parametrize("words,most", [(2, 6), (4, 12), (8, 90)])
def test_rouge_l_is_that_of_rouge_score(words, most):
    """Ties are broken alike, so the union over sentences is the same, too."""
    generator = random.Random(shifted(words))
    for _ in range(60):
        hypothesis, reference = random_text(generator, words, most), random_text(generator, words, most)
        expected = rouge_scorer._summary_level_lcs(reference, hypothesis).fmeasure
        assert rouge_l(hypothesis, reference) == pytest.approx(expected, abs=1e-12), (hypothesis, reference)


@pytest.mark.parametrize("n", [1, 2])
def test_rouge_n_is_that_of_rouge_score(n):
    generator = random.Random(shifted(n))
    for _ in range(60):
        texts = [random_text(generator, 4, 12) for _ in range(2)]
        grams = [rouge_scorer._create_ngrams([*itertools.chain(*text)], n) for text in texts]
        expected: scoring.Score = rouge_scorer._score_ngrams(grams[1], grams[0])
        assert rouge_n(*texts, n) == pytest.approx(expected.fmeasure, abs=1e-12)


def test_by_hand():
    hypothesis, reference = [["a", "c", "d"]], [["a", "b", "c"]]
    assert rouge_n(hypothesis, reference, 1) == pytest.approx(2 / 3)
    assert rouge_n(hypothesis, reference, 2) == 0
    assert rouge_l(hypothesis, reference) == pytest.approx(2 / 3)
    assert rouge_l([["c", "a"]], reference) == pytest.approx(2 * 1 / 5)  # the order counts
    assert rouge_l([["c"], ["a"]], reference) == pytest.approx(2 * 2 / 5)  # but not that of sentences
    for empty in ([], [[]]):
        assert rouge_l(empty, reference) == rouge_n(reference, empty, 1) == 0


def test_sentences_end_at_the_mark():
    assert split_sentences(["a", "b", "<q>", "c", "<q>"], "<q>") == [["a", "b"], ["c"]]
    assert split_sentences([], "<q>") == split_sentences(["<q>"], "<q>") == []


class Length:
    """The words of each summary."""

    def __call__(self, hypotheses, references, documents):
        return [float(sum(map(len, text))) for text in hypotheses]


def test_rewards_are_found_by_name():
    texts = [[["a", "b"], ["c"]]], [[["a"]]], [[]]
    assert reward_by_name("rouge1")(*texts) == [pytest.approx(0.5)]
    assert reward_by_name(f"{__name__}:Length")(*texts) == [3.0]
    assert set(REWARDS) == {"rouge1", "rouge2", "rougeL"}
    for wrong, words in (("rouge3", "choose of rouge1"), ("nonesuch:A", "No module"), (f"{__name__}:A", "attribute")):
        with pytest.raises(ValueError, match=f"--rewards {wrong}.*{words}"):
            reward_by_name(wrong)
