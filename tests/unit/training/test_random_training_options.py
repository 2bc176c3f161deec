"""Random combinations of training options: batch, padding and update-freq change neither the loss nor the gradient.

All in float64 and without dropout. ETADS_EXAMPLES is the number of valid combinations of each family (default: a few);
refused ones are drawn again.
"""

import copy
import functools
import itertools
import os
import random

import pytest
import torch
from drawn_options import (
    DOCUMENTS,
    FAMILIES,
    MARK,
    Order,
    batch,
    build,
    draw_model,
    draw_training,
    is_refused,
    model_options,
)
from fairseq.logging import metrics
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import PAD, make_batch
from steps import make_trainer

from fairseq_etads.systems.convs2s.model import ConvolutionalModel
from fairseq_etads.systems.entailment.auxiliary import EntailmentTask, classify_text_pairs
from fairseq_etads.systems.rewards.augmented import EditedReferences
from fairseq_etads.systems.rewriting import criterion as extractor_rl

EXAMPLES = {"transformers": 18, "recurrent": 32, "convolutions": 9, "language models": 8, "selectors": 12}
EXAMPLES.update(summarization_rl=4, summarization_raml=8, entailment=8, extractor_rl=4)
"""Valid combinations of each family: every architecture several times."""
MOST_REFUSED = 0.9
"""Largest share of refused combinations."""
ALL = tuple(range(len(DOCUMENTS)))
PADDINGS = [((False, False), (3, 2)), ((True, False), (2, 0)), ((True, True), (1, 2))]
"""Sides of documents and summaries (True: left), and columns of padding added to each."""


def loss_and_gradient(model, criterion, samples):
    """The sums over samples of the losses and of the sample sizes, and the loss's gradient by parameter."""
    model.zero_grad()
    if hasattr(criterion, "set_num_updates"):
        criterion.set_num_updates(3)
    total, size = 0.0, 0
    for sample in samples:
        loss, count, _ = criterion(model, sample)
        loss.backward()
        total, size = total + loss.item(), size + count
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return total, size, {name: gradient.clone() for name, gradient in found.items()}


def compare(found, expected, what):
    """Compare losses, sizes and gradients to 1e-9; a missing gradient is 0."""
    assert found[0] == pytest.approx(expected[0], rel=1e-9, abs=1e-9), f"{what}: loss"
    assert found[1] == expected[1], f"{what}: sample size"
    for name in {*found[2], *expected[2]}:
        one, other = (gradients.get(name, torch.zeros(())) for gradients in (found[2], expected[2]))
        one, other = torch.broadcast_tensors(one, other)
        close = torch.allclose(one, other, rtol=1e-9, atol=1e-9)
        assert close, f"{what}: gradient of {name} differs by {(one - other).abs().max():.1e}"


def check_batches(model, criterion, make):
    """The loss of a batch is the sum over its pairs; more padding on either side changes nothing.

    Args:
        make: numbers of pairs, sides of padding, columns of padding -> a batch.
    """
    shared = getattr(getattr(model, "decoder", None), "large_vocabulary_trick", 0)
    if shared:  # by the paper's definition, with the words of the whole batch in training
        model.eval()
    whole = loss_and_gradient(model, criterion, [make(ALL)])
    compare(loss_and_gradient(model, criterion, [make([n]) for n in ALL]), whole, "single pairs")
    if shared:
        model.train()
        whole = loss_and_gradient(model, criterion, [make(ALL)])
    for left, more in PADDINGS:
        if left[1] and isinstance(model, ConvolutionalModel):
            continue  # refused in training
        padded = loss_and_gradient(model, criterion, [make(ALL, left, more)])
        compare(padded, whole, f"padding on the left of documents, summaries: {left}, {more} more columns")


def check_update_freq(task, model, criterion, make):
    """An update from two batches equals the update from one with all pairs, in fairseq's trainer."""
    if getattr(getattr(model, "decoder", None), "large_vocabulary_trick", 0):
        return
    before = copy.deepcopy(model.state_dict())
    found = []
    for parts in ([ALL], [ALL[:2], ALL[2:]]):
        model.load_state_dict(before)
        with metrics.aggregate("train", new_root=True):
            trainer = make_trainer(task, model, criterion)
            trainer.clip_grad_norm = lambda limit: torch.ones(())  # fairseq's computes the norm in float32 alone
            trainer.train_step([make(part) for part in parts])
        found.append({name: p.detach().clone() for name, p in model.named_parameters()})
    model.load_state_dict(before)
    moved = max((found[0][name] - before[name]).abs().max() for name in found[0])
    assert moved > 1e-6, "the update changes the weights"
    compare((0.0, 0, found[1]), (0.0, 0, found[0]), "--update-freq 2")


def failure_of(arch, model, criterion, losses):
    """The message of the first failed check, or None; raises the error that refuses the combination."""
    task, built, loss = build(arch, model, criterion, losses)
    make = functools.partial(batch, task, built)
    if criterion == "summarization_rl":
        make = functools.partial(make, summaries=EQUALLY_LONG)
        draw_fixed_samples(loss, built, make)
    elif criterion == "summarization_raml":
        draw_fixed_edits(loss)
    try:
        check_batches(built, loss, make)
        check_update_freq(task, built, loss, make)
    except AssertionError as error:
        return f"{arch} {model} {criterion} {losses}: {error}".partition("\n")[0]
    return None


def check_combination(arch, training):
    return failure_of(arch, *training)


EQUALLY_LONG = [[5, 45, MARK], [8, 9, 11], [47, 5, 6], [10, MARK, 52], [7, 8, 20]]
"""Summaries with the same mean length in each batch; the loss of summarization_rl is divided by it."""


def draw_fixed_samples(criterion, model, make):
    """Let the criterion draw the same samples of a document in every batch, with non-zero advantages in float64."""
    advantages, of_document = criterion.compute_advantages, {}
    model.to(torch.float32)  # in which the search computes
    for number in ALL:
        torch.manual_seed(number)
        of_document[number] = criterion.sample_summaries(model, make([number]))
    model.to(torch.float64)

    def fixed(model, sample, encoder_out=None):
        found = [of_document[number] for number in sample["id"].tolist()]
        return tuple([text for drawn in found for text in drawn[part]] for part in (0, 1))

    criterion.sample_summaries = fixed
    criterion.compute_advantages = lambda *arguments: (advantages(*arguments)[0].double() + 0.1, {})


def draw_fixed_edits(criterion):
    """Let the criterion edit a summary in the same way in every batch."""
    draw = criterion.sample_edited_references

    def fixed(target):
        changed = torch.zeros(len(target), criterion.samples, target.shape[1], dtype=torch.bool)
        edited, distances = target[:, None].repeat(1, criterion.samples, 1), []
        for row, words in enumerate(target):
            real = words != PAD
            torch.manual_seed(int(words[real].sum()))
            edits = draw(words[real][None])
            distances.append(edits.distances[0])
            changed[row, :, real], edited[row, :, real] = edits.changed[0], edits.target[0]
        return EditedReferences(torch.stack(distances), changed, edited)

    criterion.sample_edited_references = fixed


def valid_combinations(name, architectures, draw, check):
    """Draw until the wanted number of combinations is valid; returns the results of the checks that are not None.

    Args:
        name: of EXAMPLES.
        draw: generator, architecture -> a combination.
        check: architecture, combination -> None, or a failure; raises what refuses the combination.
    """
    wanted = int(os.environ.get("ETADS_EXAMPLES", EXAMPLES[name]))
    generator = random.Random(int(os.environ.get("ETADS_SEED", "1")))
    refused, found = 0, []
    for valid, arch in enumerate(itertools.islice(itertools.cycle(architectures), wanted)):
        while True:
            drawn = draw(generator, arch)
            try:
                result = check(arch, drawn)
                break
            except Exception as error:
                if not is_refused(error):
                    raise AssertionError(f"{arch} {drawn}: {error!r}") from error
                refused += 1
                assert refused < MOST_REFUSED / (1 - MOST_REFUSED) * wanted, f"{valid} valid, {refused} refused"
        found += [] if result is None else [result]
    print(f"{name}: {wanted} valid, {refused} refused")
    return found


@pytest.fixture
def in_float64(monkeypatch):
    """fairseq computes log-probabilities, and scores of padded documents, in float32 even in a float64 model."""
    single = torch.Tensor.float
    monkeypatch.setattr("fairseq.utils.log_softmax", lambda x, dim, onnx_trace=False: x.log_softmax(dim))
    monkeypatch.setattr(torch.Tensor, "float", lambda x: x if x.dtype == torch.float64 else single(x))


@pytest.mark.parametrize("family", FAMILIES)
def test_batch_padding_and_update_freq_change_nothing(family, in_float64):
    failures = valid_combinations(family, FAMILIES[family], draw_training, check_combination)
    assert not failures, "\n".join(dict.fromkeys(failures))


@pytest.mark.parametrize("criterion", ["summarization_rl", "summarization_raml"])
def test_batch_padding_and_update_freq_change_nothing_in_learning_from_rewards(criterion, in_float64):
    """With the same samples of each document. All summaries are of one length, because the mean of the batch counts."""
    architectures = [
        arch
        for family, presets in FAMILIES.items()
        for arch, changes in presets.items()
        if family != "selectors" and "large_vocabulary_trick" not in changes
    ]
    random.Random(2).shuffle(architectures)
    draw = functools.partial(draw_training, criterion=criterion)
    failures = valid_combinations(criterion, architectures, draw, check_combination)
    assert not failures, "\n".join(dict.fromkeys(failures))


PREMISES = [[5, 6, 7, 8, 9], [10], [45, 12, 13], [14, 15, 16, 17]]
HYPOTHESES = [[5, 9], [11, 10, 12, 13], [47], [14, 17, 18]]


def close(found, expected):
    return torch.allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_batch_and_padding_change_nothing_in_entailment(in_float64):
    def check(arch, options):
        _, model, _ = build(arch, options, None, {})
        parts = EntailmentTask.parts(model_options(arch, options))
        model.pair_classifier = parts["pair_classifier"].double()
        pairs = make_batch(PREMISES), make_batch(HYPOTHESES)
        whole = classify_text_pairs(model, *pairs)
        singles = [classify_text_pairs(model, make_batch([a]), make_batch([b])) for a, b in zip(PREMISES, HYPOTHESES)]
        padded = classify_text_pairs(model, make_batch(PREMISES, width=9), make_batch(HYPOTHESES, width=7))
        if not (close(torch.cat(singles), whole) and close(padded, whole)):
            return f"{arch} {options}"
        return None

    able = [a for a, changes in FAMILIES["recurrent"].items() if not {"encoder", "source_factors"} & changes.keys()]
    assert not valid_combinations("entailment", able, draw_model, check)


def test_batch_and_padding_change_nothing_in_an_extractors_rewards(in_float64, monkeypatch):
    """With given returns, which the criterion normalises over the batch's steps by definition."""
    monkeypatch.setattr(extractor_rl, "standardise_returns", lambda episodes: episodes)

    def check(arch, options):
        task, model, _ = build(arch, {**options, "learn_to_stop": True}, None, {})
        criterion = extractor_rl.ExtractorRL.__new__(extractor_rl.ExtractorRL)
        torch.nn.Module.__init__(criterion)
        criterion.discount = 0.95

        def loss_of(_, sample):
            steps = [Order.steps[n] for n in sample["id"].tolist()]
            steps = [[s for s in episode if s < model.max_sentences] for episode in steps]
            stop = model.encode_sentences(sample["net_input"]["src_tokens"]).missing.shape[
                1
            ]  # the number after all sentences
            width = max(map(len, steps)) + 1
            chosen = torch.tensor([[*e, stop, *[-1] * (width - len(e) - 1)] for e in steps])
            rewards = [[0.1 * (step + 1) for step in range(len(episode) + 1)] for episode in steps]
            policy, critic = criterion.compute_losses(model, sample, chosen, rewards)
            return policy + critic, sum(map(len, rewards)), {}

        try:
            check_batches(model, loss_of, functools.partial(batch, task, model))
        except AssertionError as error:
            return f"{options}: {error}".partition("\n")[0]
        return None

    assert not valid_combinations("extractor_rl", ["pointer_extractor"], draw_model, check)


def test_the_families_hold_every_architecture_of_the_project():
    ours = {name for name, model in ARCH_MODEL_REGISTRY.items() if model.__module__.startswith("fairseq_etads")}
    registered = {arch for arch in ours if "." not in arch}
    assert registered == {arch for presets in FAMILIES.values() for arch in presets}
