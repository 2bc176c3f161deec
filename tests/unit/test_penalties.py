"""Length and coverage penalties against the oracles, and the bound on what a hypothesis can still score."""

import math

import pytest
import reference
import torch

from fairseq_etads.generation import coverage_penalty, length_penalty
from fairseq_etads.search.penalties import Scoring


@pytest.mark.parametrize("kind", ["avg", "wu"])
@pytest.mark.parametrize("alpha", [0.0, 0.9, 2.0, -1.0])
def test_length_penalty(kind, alpha):
    lengths = torch.arange(1, 30)
    got = length_penalty(lengths.float(), alpha, 4.0, kind)
    expected = [reference.length_penalty(n, alpha, 4.0, kind) for n in lengths.tolist()]
    torch.testing.assert_close(got, torch.tensor(expected))
    assert length_penalty(7, alpha, 4.0, kind) == pytest.approx(expected[6])


def test_the_papers_length_penalty_is_the_default_kind():
    assert length_penalty(13, 0.9) == pytest.approx((18 / 6) ** 0.9)


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


def test_words_never_looked_at_cost_much_but_not_infinitely():
    assert coverage_penalty(torch.zeros(2), 1.0, "wu").item() == pytest.approx(2 * 87.3, rel=1e-2)
    assert coverage_penalty(torch.full((5,), 0.2), 1.0, "summary").item() == 0.0


@pytest.mark.parametrize("function,arguments", [(length_penalty, (3, 1.0)), (coverage_penalty, (torch.ones(2), 1.0))])
def test_unknown_kinds_are_refused_in_words(function, arguments):
    with pytest.raises(ValueError, match=r'penalty type "mean": choose (avg|summary) or wu'):
        function(*arguments, kind="mean")


@pytest.mark.parametrize("length_kind", ["avg", "wu"])
@pytest.mark.parametrize("alpha", [-1.0, 0.0, 0.9, 2.0])
@pytest.mark.parametrize("coverage_kind", ["summary", "wu"])
def test_no_continuation_scores_more_than_the_bound(length_kind, alpha, coverage_kind):
    generator = torch.Generator().manual_seed(5)
    scoring = Scoring(
        len_penalty=alpha, length_penalty_type=length_kind, coverage_penalty=0.3, coverage_penalty_type=coverage_kind
    )
    longest, source = 9, 12
    for done in range(1, longest):
        steps = torch.softmax(torch.randn(longest, source, generator=generator) * 3, dim=-1)
        log_probs = -torch.rand(longest, generator=generator)
        now, cost = log_probs[:done].sum().view(1, 1), scoring.coverage_cost(steps[:done].sum(0).view(1, 1, -1), None)
        bound = scoring.bound(now, done + 1, longest, cost, torch.tensor([source])).item()
        for end in range(done + 1, longest + 1):
            final_cost = scoring.coverage_cost(steps[:end].sum(0).view(1, 1, -1), None)
            score = scoring.final(log_probs[:end].sum().view(1, 1), end, final_cost).item()
            assert score <= bound + 1e-5


def test_the_wu_bound_is_not_trivial():
    """A source of 400 words cannot be covered by 100 steps."""
    scoring = Scoring(coverage_penalty=1.0, coverage_penalty_type="wu")
    bound = scoring.bound(torch.zeros(1, 1), 5, 100, torch.zeros(1, 1), torch.tensor([400])).item()
    assert bound == pytest.approx(-400 * math.log(4))


@pytest.mark.parametrize(
    "options,message",
    [
        ({"coverage_penalty": -1.0}, r"--coverage-penalty -1.0: choose 0"),
        ({"coverage_penalty": float("nan")}, r"--coverage-penalty nan"),
        ({"stepwise_coverage_penalty": True}, r"--stepwise-coverage-penalty needs a weight"),
        ({"length_penalty_type": "sqrt"}, r'--length-penalty-type "sqrt": choose avg or wu'),
        ({"length_penalty_beta": -1.0}, r"--length-penalty-beta -1.0"),
    ],
)
def test_bad_options_are_refused_in_words(options, message):
    with pytest.raises(ValueError, match=message):
        Scoring(**options)
