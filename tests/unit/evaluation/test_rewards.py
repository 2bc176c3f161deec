"""Rewards: ROUGE against the package rouge-score on random texts, hand-computed cases, users' rewards."""

import itertools
import random

import pytest
from rouge_score import rouge_scorer
from seeds import shifted

from fairseq_etads.evaluation.rewards import REWARDS, EntailmentReward, RougeSalReward, create_reward, rouge_sal
from fairseq_etads.text.subsequences import rouge_l, rouge_n


def random_text(generator, words, most):
    return [
        [generator.choice("abcdefgh"[:words]) for _ in range(generator.randint(1, most))]
        for _ in range(generator.randint(0, 4))
    ]


@pytest.mark.parametrize("words,most", [(2, 6), (4, 12), (8, 90)])
def test_rouge_l_is_that_of_rouge_score(words, most):
    """Ties are broken in the same way, so the union over sentences is also the same; ROUGE-1 and ROUGE-2 are, too."""
    generator = random.Random(shifted(words))
    for _ in range(60):
        hypothesis, reference = random_text(generator, words, most), random_text(generator, words, most)
        expected = rouge_scorer._summary_level_lcs(reference, hypothesis).fmeasure
        assert rouge_l(hypothesis, reference) == pytest.approx(expected, abs=1e-12), (hypothesis, reference)
        for n in (1, 2):
            grams = [rouge_scorer._create_ngrams([*itertools.chain(*text)], n) for text in (reference, hypothesis)]
            expected = rouge_scorer._score_ngrams(*grams).fmeasure
            assert rouge_n(hypothesis, reference, n) == pytest.approx(expected, abs=1e-12)


def weights_of(text, generator=None):
    return [[generator.uniform(0.1, 1) if generator else 1.0 for _ in sentence] for sentence in text]


def test_rouge_sal_by_hand():
    reference, hypothesis = [["a", "b", "c"]], [["a", "c", "d"]]
    assert rouge_sal(hypothesis, reference, [[1, 1, 0]], [[1, 0, 1]]) == 1
    assert rouge_sal(hypothesis, reference, [[1, 1, 2]], [[1, 0, 1]]) == pytest.approx(2 * 0.5 / 1.5)
    assert rouge_sal(hypothesis, reference, [[3, 1, 0]], [[1, 4, 3]]) == pytest.approx(2 * 0.5 / 1.5)
    assert rouge_sal([["a", "a"]], [["a"]], [[3, 1]], [[1]]) == pytest.approx(2 * 0.75 / 1.75), "the first one counts"
    for empty in ([], [[]]):
        assert rouge_l(empty, reference) == rouge_n(reference, empty, 1) == 0
        assert rouge_sal(empty, reference, empty, [[1, 1, 1]]) == rouge_sal(reference, empty, [[1, 1, 1]], empty) == 0
    assert rouge_sal(hypothesis, reference, [[0, 0, 1]], [[1, 0, 1]]) == 0


@pytest.mark.parametrize("words,most", [(2, 6), (8, 40)])
def test_rouge_sal_is_rouge_l_if_all_words_weigh_alike_and_only_proportions_matter(words, most):
    generator = random.Random(shifted(words))
    for _ in range(60):
        texts = [random_text(generator, words, most) for _ in range(2)]
        assert rouge_sal(*texts, *map(weights_of, texts)) == pytest.approx(rouge_l(*texts), abs=1e-12)
        weights = [weights_of(text, generator) for text in texts]
        doubled = [[[2 * weight for weight in row] for row in side] for side in weights]
        assert rouge_sal(*texts, *doubled) == pytest.approx(rouge_sal(*texts, *weights), abs=1e-12)


def test_each_sentence_has_the_weights_of_its_own_words():
    asked = []

    def saliency(sentences):
        asked.extend(sentences)
        return [[len(sentence) * (2 if word == "a" else 1) for word in sentence] for sentence in sentences]

    hypotheses, references = [[["a", "b"], ["c"]], [], [["b"]]], [[["a", "c"]], [["b"]], [["b", "d"], ["a"]]]
    found = RougeSalReward(saliency)(hypotheses, references, None)
    assert asked == [["a", "b"], ["c"], ["b"], ["a", "c"], ["b"], ["b", "d"], ["a"]]
    first = rouge_sal(hypotheses[0], references[0], [[4, 2], [1]], [[4, 2]])
    assert found == pytest.approx([first, 0, rouge_sal(hypotheses[2], references[2], [[1]], [[2, 2], [2]])])
    assert first == pytest.approx(2 * 5 / 7 / (1 + 5 / 7))


def test_entailment_of_each_sentence_by_the_whole_reference():
    """The probability here is the share of the sentence's words that are in the premise."""

    def score(premises, hypotheses):
        return [sum(w in p for w in h) / len(h) for p, h in zip(premises, hypotheses)]

    reference = [["a", "b"], ["c", "d"]]
    hypotheses = [[["a", "x"], ["c"]], [], [["b"]], [["a", "b", "c", "d"], ["a", "x", "x", "x"]], [["x"]]]
    references = [reference] * 4 + [[]]
    expected = [3 / 4 * (1 / 2 + 1) / 2, 0, 1 / 4, (1 + 1 / 4) / 2, 0]
    assert EntailmentReward(score)(hypotheses, references, None) == pytest.approx(expected)
    expected[3] *= 2
    assert EntailmentReward(score, None)(hypotheses, references, None) == pytest.approx(expected)
    assert EntailmentReward(score)([[]], [reference], None) == [0]


class Length:
    def __call__(self, hypotheses, references, documents):
        return [float(sum(map(len, text))) for text in hypotheses]


def test_rewards_are_found_by_name():
    texts = [[["a", "b"], ["c"]]], [[["a"]]], [[]]
    assert create_reward("rouge1")(*texts) == [pytest.approx(0.5)]
    assert create_reward(f"{__name__}:Length")(*texts) == [3.0]
    assert set(REWARDS) == {"rouge1", "rouge2", "rougeL"}
    assert create_reward("mine", {"mine": Length})(*texts) == [3.0]
    for wrong in ("rouge3", "nonesuch:A", f"{__name__}:A"):
        with pytest.raises(ValueError, match=f"--rewards {wrong}"):
            create_reward(wrong)
