"""Rewards against rouge-score and hand-computed cases; reranking against all combinations, siblings against a loop."""

import itertools
import random

import pytest
import reference
import torch
from helpers import make_dictionary
from rouge_score import rouge_scorer
from seeds import shifted

from fairseq_etads.commands.rewrite import (
    RewriteCandidate,
    choose_least_repetitive_candidates,
    compute_candidate_limit,
)
from fairseq_etads.evaluation.rewards import REWARDS, EntailmentReward, RougeSalReward, create_reward, rouge_sal
from fairseq_etads.search.strategies import DiverseSiblingsSearch
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


def beams_of(r, sentences, size):
    """Candidates with few different words, so that bigrams repeat, even within a sentence. Scores may be equal."""
    return [
        [RewriteCandidate(tuple(r.choices(range(4), k=r.randint(0, 5))), -r.randint(1, 6) / 2) for _ in range(size)]
        for _ in range(sentences)
    ]


def test_it_is_the_best_of_all_combinations():
    r = random.Random(1)
    for _ in range(60):
        beams = beams_of(r, 3, 3)
        assert choose_least_repetitive_candidates(beams) == reference.best_combination(beams)
        assert choose_least_repetitive_candidates(beams, "words") == reference.best_combination(beams, ends=0)
    assert choose_least_repetitive_candidates([]) == []


def test_of_many_sentences_fewer_candidates_are_looked_at():
    assert [compute_candidate_limit(n)[0] for n in (1, 5, 6, 7, 8, 9, 14)] == [5, 5, 4, 3, 3, 2, 2]
    assert compute_candidate_limit(16) == [2] * 14 + [1] * 2
    r = random.Random(2)
    for sentences in (6, 7, 9, 16):
        beams = beams_of(r, sentences, 5)
        found = choose_least_repetitive_candidates(beams)
        pruned = [beam[:count] for beam, count in zip(beams, compute_candidate_limit(sentences))]
        assert all(place < len(beam) for place, beam in zip(found, pruned))
        if sentences < 9:
            assert found == reference.best_combination(pruned)


def test_diverse_siblings_are_those_of_a_loop():
    torch.manual_seed(3)
    strategy = DiverseSiblingsSearch(make_dictionary(6), 0.7)
    for step in (0, 2):
        lprobs, sums = torch.randn(2, 3, 10).log_softmax(2), -torch.rand(2, 3, step)
        scores, words, parents = strategy.step(step, lprobs.clone(), sums)
        for row in range(2):
            found = []
            for parent in range(3 if step else 1):
                before = sums[row, parent, step - 1].item() if step else 0.0
                order = sorted(range(10), key=lambda word: -lprobs[row, parent, word].item())
                found += [
                    (before + lprobs[row, parent, w].item() - 0.7 * i, w, parent) for i, w in enumerate(order[:6])
                ]
            best = sorted(found, reverse=True)[:6]
            torch.testing.assert_close(scores[row], torch.tensor([score for score, _, _ in best]))
            assert list(zip(words[row].tolist(), parents[row].tolist())) == [(w, parent) for _, w, parent in best]
