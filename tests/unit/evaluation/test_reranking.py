"""The best combination of rewritten sentences, against all combinations; diverse siblings, against a loop."""

import random

import reference
import torch
from helpers import make_dictionary

from fairseq_etads.commands.rewrite import (
    RewriteCandidate,
    choose_least_repetitive_candidates,
    compute_candidate_limit,
)
from fairseq_etads.search.strategies import DiverseSiblingsSearch


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
