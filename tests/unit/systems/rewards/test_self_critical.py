"""summarization_rl: the gradient against an exact one, what is drawn, what is logged, and that it learns."""

import itertools

import pytest
import torch
from helpers import EOS, PAD, RECURRENT, make_model, make_task
from test_criterions import criterion, make_sample

from fairseq_etads.systems.rewards.self_critical import SampledSummaries, SummarizationRL

UNK = 3
RL = {"rewards": "rougeL", "rl_weight": 1.0, "rl_max_len": 6, "rl_samples": 1, "rl_baseline": "greedy"}
RL |= {"rougesal_saliency": "idf", "entail_model": None, "entail_length_cap": "1"}


def build(pointer="soft", task=None, model="etads", sizes=(), **options):
    task = task or make_task(tail=30)
    return make_model(model, task, pointer=pointer, **dict(sizes)), SummarizationRL(task, **{**RL, **options})


def gradients(model, loss):
    return torch.autograd.grad(loss, [p for p in model.parameters() if p.requires_grad], materialize_grads=True)


def drawable(p, pointer):
    """Probabilities (T, columns) of what can be drawn: never padding and, with a pointer, never the unknown word."""
    p = p.clone()
    p[:, [PAD, UNK] if pointer == "soft" else [PAD]] = 0
    return p / p.sum(dim=1, keepdim=True)


@pytest.mark.parametrize("pointer", ["none", "soft"])
def test_the_mean_gradient_is_the_exact_one(pointer):
    """Over all summaries of at most two tokens, weighted by their probability, it is the gradient of -E[r]."""
    model, ours = build(pointer, rl_max_len=2, rl_baseline="none")
    words = [EOS, 5, 6, 50 if pointer == "soft" else 7]  # with a pointer, the last word is copied
    # A summary of three tokens is cut at two. There the end symbol comes from the limit, not from the model.
    pairs = itertools.product(words[1:], words)
    drawn = [torch.tensor(row) for row in ([EOS], *([a, EOS] if b == EOS else [a, b, EOS] for a, b in pairs))]
    advantages = torch.linspace(-1, 2, len(drawn))
    sample = make_sample([[8, 50, 5]] * len(drawn), [[5]] * len(drawn))
    samples = SampledSummaries(drawn, 2, ours.dictionary)
    assert samples.unfinished == 9 and samples.words.tolist() == [1] + [2] * 12

    one = {key: value[:1] for key, value in sample["net_input"].items()}
    log_p = []
    for row in drawn:
        previous = torch.cat([torch.tensor([EOS]), row[:-1]])[None]
        output = model(**{**one, "prev_output_tokens": previous})
        columns = model.get_targets({"target": row[None]}, output)[0]
        p = drawable(model.get_normalized_probs(output, log_probs=False)[0], pointer)
        log_p.append(sum(p[t, column].log() for t, column in enumerate(columns[:2].tolist())))
    log_p = torch.stack(log_p)
    expected = gradients(model, -(log_p.exp() * advantages).sum())
    weighted, encoded = advantages * log_p.exp().detach(), ours.encode(model, sample)
    loss = ours.compute_policy_loss(model, encoded, samples, weighted, torch.arange(len(drawn)))
    torch.testing.assert_close(gradients(model, loss), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("weight, training", [(0.0, True), (1.0, False)])
def test_without_weight_and_in_validation_it_is_the_likelihood_normalised_by_length(weight, training):
    model, ours = build(rl_weight=weight, label_smoothing=0.1)
    plain, sample = criterion(ours.task, label_smoothing=0.1, length_normalised=True), make_sample()
    loss, size, logs = ours(model.train(training), sample)
    torch.testing.assert_close(loss, plain(model, sample)[0], rtol=0, atol=0)
    assert size == len(sample["target"]) and "sampled_words" not in logs


class Recorder:
    """A reward that records its inputs, and increases with every call."""

    def __init__(self):
        self.calls = []

    def __call__(self, *given):
        self.calls.append(given)
        return [float(len(self.calls))] * len(given[0])


def test_rewards_see_copied_words_and_sentences():
    """Words that the model does not know, but the document has, have their spelling; ``<q>`` ends a sentence."""
    _, ours = build(task=make_task(tail=30, mark=True), rewards=f"{__name__}:Recorder", rl_max_len=4)
    mark = ours.dictionary.index("<q>")
    sample = make_sample([[50, 5, 61]], [[61, mark, 7]])
    sampled, greedy = torch.tensor([5, mark, 50, EOS]), torch.tensor([EOS])
    advantages, figures = ours.compute_advantages(sample, [sampled], [greedy], 0)
    (hypotheses, references, documents), (of_greedy, _, _) = ours.rewards._rewards[0].calls
    assert hypotheses == [[["w1"], ["rare6"]]] and references == [[["rare17"], ["w3"]]] and of_greedy == [[]]
    assert documents == [[["rare6", "w1", "rare17"]]]
    assert advantages.tolist() == [-1.0]  # the first call had the reward 1, the second 2
    assert figures[f"reward_{__name__}:Recorder"] == 1


@pytest.mark.parametrize("arch", ["etads", "pg_coverage"])
def test_drawing_is_without_dropout_and_leaves_the_model_in_training(arch):
    """Greedy searches agree although dropout is on, and so do two passes over the samples."""
    model, ours = build(model=arch, sizes={**RECURRENT, "dropout": 0.5, "attention_dropout": 0.3})
    model.train()
    model.encoder.eval()  # a frozen encoder stays in evaluation mode
    sample = make_sample()
    modes = [module.training for module in model.modules()]
    encoded_before = ours.encode(model, sample)
    first, *others = (ours.sample_summaries(model, sample, given)[1] for given in (None, None, encoded_before))
    assert all(torch.equal(a, b) for other in others for a, b in zip(first, other))
    ours(model, sample)
    assert [module.training for module in model.modules()] == modes


def test_a_summary_as_long_as_the_model_allows_is_unfinished():
    """Its end symbol is forced by the model's limit, which may be below --rl-max-len, and must not be scored."""
    task = make_task(truncate_target=3, tail=30)
    logs = []
    for longest in (3, 50):
        model, ours = build(task=task, rl_max_len=longest, rl_samples=4)
        assert model.max_decoder_positions() == 4
        torch.manual_seed(1)
        logs.append(ours(model.train(), make_sample())[2])
    assert logs[0]["unfinished"] == logs[1]["unfinished"] > 0
    assert logs[0]["sampled_words"] == logs[1]["sampled_words"]
    torch.testing.assert_close(logs[0]["loss"], logs[1]["loss"])


class Broken:
    def __call__(self, hypotheses, references, documents):
        return [float("nan")] * len(hypotheses)


def test_a_reward_that_is_no_number_is_refused():
    model, ours = build(rewards=f"{__name__}:Broken")
    with pytest.raises(ValueError, match="a finite number for each summary"):
        ours(model.train(), make_sample())
