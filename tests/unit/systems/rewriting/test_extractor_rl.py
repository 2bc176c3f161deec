"""extractor_rl: rewards and returns computed by hand, the effect of each loss, rewriting, and learning to stop."""

import random

import pytest
import torch
from folders import make_run
from helpers import make_task
from test_pointer_extractor import MARK, build, make_sample

from fairseq_etads.platform.errors import InputError
from fairseq_etads.systems.rewriting import training as criterion_module
from fairseq_etads.systems.rewriting.training import (
    Abstractor,
    ExtractorRL,
    compute_discounted_returns,
    compute_step_rewards,
    standardise_returns,
)


def test_rewards_and_returns_by_hand():
    rewritten, reference = [["a", "b"], ["c", "x", "d"], ["e"]], [["a", "c"], ["c", "d"]]
    rewards = compute_step_rewards(rewritten, reference)
    # one of two and two words; two of three and two; no third sentence; a, c and d of six and four words
    assert rewards == pytest.approx([2 * 1 / 4, 2 * 2 / 5, 0.0, 2 * 3 / 10])
    assert compute_step_rewards([], reference) == [0.0]
    assert compute_discounted_returns([1.0, 0.0, 2.0], 0.5) == [1.5, 1.0, 2.0]
    found = standardise_returns([[1.0, 2.0], [6.0]])
    deviation = ((4 + 1 + 9) / 2) ** 0.5
    assert [value for row in found for value in row] == pytest.approx([-2 / deviation, -1 / deviation, 3 / deviation])
    assert standardise_returns([[0.5]]) == [[0.0]]


class Copying:
    """An abstractor that changes nothing."""

    def __init__(self, *_, device=None, **__):
        self.device = device

    def rewrite(self, sentences):
        return [[{"tokens": sentence}] for sentence in sentences]

    def get_word_ids(self, hypothesis):
        return tuple(hypothesis["tokens"].tolist())


def make_criterion(task, **options):
    task.cfg.data = "data"
    return ExtractorRL(task, **{"abstractor": "model.pt", "rl_discount": 0.5, "rl_max_len": 30, **options})


@pytest.fixture
def case(monkeypatch):
    """A model, its criterion with an abstractor that changes nothing, and a batch."""
    monkeypatch.setattr(criterion_module, "Abstractor", Copying)
    task, model = build(3, learn_to_stop=True)
    return model, make_criterion(task), make_sample(random.Random(6))


def test_the_loss_is_that_of_the_paper(case):
    model, ours, sample = case
    chosen = torch.tensor([[2, 4, -1], [0, 1, 4]] * 8)  # candidate 4 is the stop
    rewards = [[0.5, 0.25], [1.0, 0.0, 0.75]] * 8
    policy, critic = ours.compute_losses(model, sample, chosen, rewards)
    returns = standardise_returns([compute_discounted_returns(row, 0.5) for row in rewards])
    logits, values = model(**sample["net_input"], chosen=chosen)
    expected_policy = expected_critic = 0.0
    for row, episode in enumerate(returns):
        for t, value in enumerate(episode):
            free = [j for j in range(5) if j not in chosen[row, :t].tolist()]
            log_p = logits[row, t, chosen[row, t]] - logits[row, t, free].logsumexp(0)
            expected_policy -= log_p * (value - values[row, t].detach())
            expected_critic += (values[row, t] - value) ** 2
    torch.testing.assert_close(policy, expected_policy)
    torch.testing.assert_close(critic, expected_critic)


def test_the_loss_is_divided_by_steps_and_in_validation_sentences_are_taken_greedily(case, monkeypatch):
    model, ours, sample = case
    extract, asked = model.extract, []
    monkeypatch.setattr(model, "extract", lambda *args, sample: asked.append(sample) or extract(*args, sample=sample))
    loss, size, logs = ours(model.train(), sample)
    assert size == logs["sample_size"] == logs["steps"] > 16 == ours(model.eval(), sample)[1]
    torch.testing.assert_close(loss.detach(), logs["policy_loss"] + logs["critic_loss"])
    assert asked == [True, False]


@pytest.fixture(scope="module")
def abstractor_files(tmp_path_factory):
    """Checkpoint and data of an untrained model that writes summaries."""
    folder = tmp_path_factory.mktemp("abstractor") / "run"
    make_run(folder, "pg_coverage", mark=True, tail=9)
    return str(folder / "checkpoints" / "checkpoint_best.pt"), str(folder / "prepared" / "bin")


def test_each_sentence_is_rewritten_once(abstractor_files, monkeypatch):
    """A sentence is truncated as in training. In a beam, hypotheses differ. (etads-rewrite rewrites them alone.)"""
    cpu = torch.device("cpu")
    greedy = Abstractor(*abstractor_files, "--abstractor", cpu, longest=6)
    sentences = [torch.tensor(words) for words in ([5, 6, 45, 7], [8], [5, 6, 45, 7], [9] * 70, [9] * 60)]
    calls = []
    search = greedy._rewrite_batch
    monkeypatch.setattr(greedy, "_rewrite_batch", lambda texts: calls.append(len(texts)) or search(texts))
    found = greedy.rewrite(sentences)
    assert sum(calls) == 3 and found[0] is found[2] and found[3] is found[4]
    for (best,) in found:
        assert len(greedy.get_word_ids(best)) <= 6 and MARK not in greedy.get_word_ids(best)
    beams = [
        Abstractor(*abstractor_files, "--abstractor", cpu, 4, diversity, 6).rewrite(sentences[:1])[0]
        for diversity in (0.0, 50.0)
    ]
    assert [float(h["score"]) for h in beams[1]] == sorted((float(h["score"]) for h in beams[1]), reverse=True)
    plain, diverse = ([greedy.get_word_ids(hypothesis) for hypothesis in beam] for beam in beams)
    assert len(plain) == len(diverse) == 4 and plain != diverse


def test_a_rewritten_sentence_is_one_sentence_and_repeats_no_trigram(abstractor_files):
    """The model would write the sentence mark or, where it cannot, the same two words repeatedly."""
    found = {}
    for beam in (1, 3):
        abstractor = Abstractor(*abstractor_files, "--abstractor", torch.device("cpu"), beam, longest=9)
        with torch.no_grad():
            abstractor.model.decoder.pointer.gate.bias.fill_(50)  # with this bias, nothing is copied
            bias = abstractor.model.decoder.output_projection.bias
            bias[MARK], bias[5], bias[6] = 90.0, 60.0, 60.0
        (hypotheses,) = abstractor.rewrite([torch.tensor([7, 8])])
        found[beam] = [abstractor.get_word_ids(hypothesis) for hypothesis in hypotheses]
    assert all(MARK not in words for beam in found.values() for words in beam)
    assert len({*found[1][0]}) <= 2 and len(found[1][0]) == 9, "greedily it repeats"
    for words in found[3]:
        trigrams = [*zip(words, words[1:], words[2:])]
        assert len(trigrams) > 1 and len({*trigrams}) == len(trigrams), words


@pytest.mark.parametrize(
    "options, message",
    [
        ({"abstractor": None}, "--abstractor is missing"),
        ({"rl_discount": 1.5}, "--rl-discount 1.5"),
        ({"abstractor": "nowhere.pt"}, "--abstractor nowhere.pt: "),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises((ValueError, InputError), match=message):
        make_criterion(make_task(tail=9, mark=True), **options)
