"""Consensus of hypotheses: the mean ROUGE of each against the others."""

import random

import pytest
import reference
from rouge_score import rouge_scorer

from fairseq_etads.search.content.reranking import compute_consensus, compute_similarity


def text(r, longest=8):
    return [f"w{r.randint(0, 5)}" for _ in range(r.randint(0, longest))]


@pytest.mark.parametrize("seed", range(5))
def test_the_consensus_is_the_mean_over_the_others(seed):
    r = random.Random(seed)
    hypotheses = [text(r) for _ in range(6)]
    for counts in ([True] * 6, [r.random() < 0.5 for _ in range(6)], [False] * 6):
        assert compute_consensus(hypotheses, counts) == pytest.approx(reference.consensus(hypotheses, counts))


def test_similarity_is_the_mean_of_three_rouge_scores():
    r = random.Random(1)
    kinds = ["rouge1", "rouge2", "rougeL"]
    scorer = rouge_scorer.RougeScorer(kinds)
    for _ in range(50):
        one, other = text(r), text(r)
        scores = scorer.score(" ".join(one), " ".join(other))
        assert compute_similarity(one, other) == pytest.approx(sum(scores[kind].fmeasure for kind in kinds) / 3)
        assert compute_similarity(one, other) == compute_similarity(other, one)


def test_a_single_hypothesis_has_no_consensus():
    assert compute_consensus([], []) == []
    assert compute_consensus([["a", "b"]], [True]) == [0.0]
    assert compute_consensus([["a", "b"], []], [True, True]) == [0.0, 0.0]
    assert compute_consensus([["a", "b"], ["a", "b"]], [True, False]) == [0.0, 1.0], "only the first counts"
