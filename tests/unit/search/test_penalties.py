"""Length and coverage penalties against the oracles, and the bound on a hypothesis's possible score."""

import math

import pytest
import reference
import torch

from fairseq_etads.generation import coverage_penalty, length_penalty
from fairseq_etads.search.hypotheses import HypothesisScorer
from fairseq_etads.search.options import DecodingOptions


@pytest.mark.parametrize("kind", ["avg", "wu"])
@pytest.mark.parametrize("alpha", [0.0, 0.9, 2.0, -1.0])
def test_length_penalty(kind, alpha):
    lengths = torch.arange(1, 30)
    got = length_penalty(lengths.float(), alpha, 4.0, kind)
    expected = [reference.length_penalty(n, alpha, 4.0, kind) for n in lengths.tolist()]
    torch.testing.assert_close(got, torch.tensor(expected))
    assert length_penalty(7, alpha, 4.0, kind) == pytest.approx(expected[6])
    assert length_penalty(13, 0.9) == pytest.approx((18 / 6) ** 0.9), "the paper's kind is the default"


@pytest.mark.parametrize("kind", ["summary", "wu"])
def test_coverage_penalty_ignores_padding(kind):
    coverage = torch.rand(3, 4, 6) * 2
    mask = torch.zeros(3, 6, dtype=torch.bool)
    mask[1, 4:] = mask[2, :3] = True
    got = coverage_penalty(coverage, 0.7, kind, mask)
    for b in range(3):
        for k in range(4):
            expected = reference.coverage_penalty(coverage[b, k][~mask[b]].tolist(), 0.7, kind)
            assert got[b, k].item() == pytest.approx(expected, rel=1e-5)
    assert coverage_penalty(coverage[0, 0], 0.7, kind).dim() == 0
    assert coverage_penalty(torch.tensor([2.5, 0.5]), 2.0).item() == 3.0, "reading twice is the default kind"


@pytest.mark.parametrize("options", [{}, {"unnormalized": True}, {"length_penalty_type": "wu", "lenpen": 0.7}])
@pytest.mark.parametrize("gain", [0.0, 0.5, math.inf])
def test_each_document_can_have_its_own_greatest_length(options, gain):
    """The bound is above each score that words with a gain can reach, and without one it is the best score."""
    scoring = HypothesisScorer(DecodingOptions(**{"length_penalty_beta": 4.0, **options}))
    log_probs = torch.tensor([[-1.0, -9.5, -math.inf], [-3.0, -2.5, -0.5], [-4.0, -1.0, -7.0]])
    longest = torch.tensor([3, 12, 40])
    together = scoring.compute_upper_bound(log_probs, 3, longest, None, None, gain)
    assert together.dtype == log_probs.dtype and not together.isnan().any()
    for row, most, bounds in zip(log_probs, longest.tolist(), together):
        torch.testing.assert_close(bounds, scoring.compute_upper_bound(row[None], 3, most, None, None, gain)[0])
        for value, bound in zip(row.tolist(), bounds.tolist()):
            gained = [(value + gain * (n - 2)) / scoring.compute_length_penalty(n) for n in range(3, most + 1)]
            # the words that are gained may all come, and the summary be as short as possible
            best = -math.inf if value == -math.inf else max(gained)
            assert bound >= best - 1e-5 and (gain or bound == pytest.approx(best, rel=1e-5))
            assert (bound == -math.inf) == (value == -math.inf)
