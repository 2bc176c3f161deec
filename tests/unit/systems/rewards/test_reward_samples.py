"""Samples of summarization_rl: by the model's probabilities, independent, each with its own baseline."""

import pytest
import torch
from helpers import EOS, make_task
from seeds import shifted
from test_criterions import make_sample
from test_self_critical import build, drawable

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.search.strategies import GREEDY_SCORE, SamplingWithGreedyHypothesis


def test_only_the_greedy_hypothesis_is_not_drawn():
    """Its score tells it: here it is second, as when another hypothesis has ended, and sums of log P round above 0."""
    p = torch.tensor([0.5, 0.3, 0.2])
    rows = 4000
    lprobs = p.log().expand(rows, 3, 3).contiguous()
    scores = torch.tensor([1e-6, GREEDY_SCORE, -2.0])[None, :, None].repeat(rows, 1, 1)
    torch.manual_seed(shifted(5))
    sums, words, parents = SamplingWithGreedyHypothesis(make_task().target_dictionary).step(1, lprobs, scores)
    assert (words[:, 1] == 0).all() and (sums[:, 1] == GREEDY_SCORE).all()
    assert parents.tolist() == [[0, 1, 2]] * rows
    for column in (0, 2):
        found = words[:, column].bincount(minlength=3) / rows
        assert ((found - p).abs() < 5 * (p * (1 - p) / rows).sqrt()).all()
        torch.testing.assert_close(sums[:, column], scores[:, column, 0] + p.log()[words[:, column]])


@pytest.mark.parametrize("samples", [1, 2])
def test_greedy_summaries_are_those_of_a_search_of_their_own(samples):
    """They are the same, regardless of when they or the samples of their documents end."""
    model, ours = build("soft", rl_samples=samples, rl_max_len=6)
    with torch.no_grad():
        model.decoder.output_projection.weight[EOS] *= 3
    sample = make_sample([[number, 50 + number, 5, 61] for number in range(5, 25)], [[5]] * 20)
    alone = SummaryGenerator([model.eval()], ours.dictionary, 1, max_len_b=6, min_len=0)
    expected = [hypotheses[0]["tokens"].tolist() for hypotheses in alone.generate(None, sample)]
    torch.manual_seed(shifted(6))
    sampled, greedy = ours.sample_summaries(model.train(), sample)
    assert [row.tolist() for row in greedy] == expected
    assert len(sampled) == 20 * samples and all(row[-1] == EOS for row in sampled)
    assert len(set(map(len, expected))) > 1 and len(set(map(len, sampled))) > 1, "all end at the same step"
    assert any(a.tolist() != b for a, b in zip(sampled[::samples], expected)), "nothing is drawn"


def test_samples_of_a_document_are_drawn_independently():
    """3,000 pairs of whole summaries, of at most two tokens: each pair as often as the product of its probabilities."""
    model, ours = build("none", task=make_task(), rl_max_len=2, rl_samples=2, rl_baseline="others")
    with torch.no_grad():  # only three words and the end symbol are probable
        model.decoder.output_projection.weight[[EOS, 5, 6, 7]] *= 4
    rows = 500
    sample = make_sample([[5, 6]] * rows, [[5]] * rows)
    torch.manual_seed(shifted(4))
    pairs = torch.zeros(len(ours.dictionary), len(ours.dictionary))
    for _ in range(6):
        drawn = ours.sample_summaries(model, sample)[0]
        for one, other in zip(drawn[::2], drawn[1::2]):
            # The search returns the more probable one first, but the order of drawing is random.
            pairs[one[0], other[0]] += 0.5
            pairs[other[0], one[0]] += 0.5
    count = pairs.sum()
    assert count == 6 * rows
    p = pairs.sum(0) / count
    one = {key: value[:1] for key, value in sample["net_input"].items()}
    output = model.eval()(**{**one, "prev_output_tokens": torch.tensor([[EOS]])})
    model_p = drawable(model.get_normalized_probs(output, log_probs=False)[0].detach(), "none")[0]
    assert ((p - model_p).abs() <= 5 * (model_p * (1 - model_p) / (2 * count)).sqrt() + 1e-4).all()
    joint = model_p[:, None] * model_p
    assert ((pairs / count - joint).abs() <= 5 * (joint * (1 - joint) / count).sqrt() + 5e-4).all()
    assert joint.diagonal().max() > 0.05, "pairs of the same word are too rare for the test to mean anything"


class Length:
    """A reward of one for each word of the summary."""

    def __call__(self, hypotheses, references, documents):
        self.references = references
        return [float(sum(map(len, h))) for h in hypotheses]


def test_samples_are_compared_with_the_documents_others():
    _, ours = build(rewards=f"{__name__}:Length", rl_samples=3, rl_baseline="others")
    rows = [[5], [5, 6, 7], [], [6], [6], [6]]
    sample = make_sample([[8, 9], [9]], [[5], [7]])
    advantages, figures = ours.compute_advantages(sample, [torch.tensor([*row, EOS]) for row in rows], [], 0)
    assert advantages.tolist() == [1 - 3 / 2, 3 - 1 / 2, 0 - 4 / 2, 0, 0, 0]
    assert ours.rewards._rewards[0].references == [[["w1"]]] * 3 + [[["w3"]]] * 3
    assert figures == pytest.approx({f"reward_{__name__}:Length": 4 / 3 + 1, f"reward_{__name__}:Length_count": 2})


def test_several_samples_have_the_mean_of_their_losses(monkeypatch):
    """For a document with given samples, the loss is the mean of the losses with each sample alone."""
    drawn = [torch.tensor([*row, EOS]) for row in ([5], [5, 6, 7], [50], [], [9, 9], [8])]
    advantages = torch.tensor([0.5, -1.0, 0.25, 1.0, 0.0, -0.5])
    model, ours = build(rl_samples=2, rl_baseline="others")
    sample = make_sample([[8, 50, 5], [5], [9, 9]], [[5], [7, 8], [9]])

    def loss(criterion, rows):
        monkeypatch.setattr(criterion, "sample_summaries", lambda *_: ([drawn[row] for row in rows], []))
        monkeypatch.setattr(criterion, "compute_advantages", lambda *_: (advantages[rows], {}))
        return criterion(model.train(), sample)[0].item()

    _, alone = build()
    of_each_alone = loss(alone, [0, 2, 4]), loss(alone, [1, 3, 5])
    assert loss(ours, [0, 1, 2, 3, 4, 5]) == pytest.approx(sum(of_each_alone) / 2, rel=1e-4)
