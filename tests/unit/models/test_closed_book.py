"""The closed-book decoder, which exists only in training (Jiang and Bansal 2018)."""

import re
from unittest import mock

import pytest
import reference
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import EOS, make_task, model_config
from recurrent import inputs, log_probs, recurrent, recurrent_task
from test_criterions import make_sample

from fairseq_etads.training.losses import SummarizationNLL

TASK = recurrent_task()
DOCUMENTS = [[5, 6, 7, 45, 9, 10, 46, 5, 45], [30], [4, 47, 5, 8, 8], [21, 22, 50, 23]]
SUMMARIES = [[5, 45, 7], [8, 44], [9, 10, 11, 43], [50, 14]]
"""43 is the last word that can be generated."""
GAMMA = 0.25


def model_of(arch="pointer_generator_coverage", **options):
    torch.manual_seed(1)
    return recurrent(arch, TASK, closed_book_decoder=True, **options).train()


def loss_of(weight=GAMMA):
    return SummarizationNLL(TASK, closed_book_weight=weight)


def gradients(model, criterion, sample):
    model.zero_grad()
    criterion(model, sample)[0].backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def test_the_distribution_and_the_loss_equal_loops():
    """Unknown words count as the unknown word; the loss mixes the two decoders' likelihoods."""
    model, unk = model_of(), TASK.target_dictionary.unk()
    sample = make_sample(DOCUMENTS, SUMMARIES)
    encoded = model.encoder(**inputs(model, sample["net_input"]["src_tokens"]))
    decoder = model.decoder.closed_book
    lstm = (*(getattr(decoder.network, f"weight_{name}_l0") for name in ("ih", "hh")),)
    lstm += (decoder.network.bias_ih_l0 + decoder.network.bias_hh_l0,)
    vectors = model.decoder.embed_tokens(sample["net_input"]["prev_output_tokens"])
    known, expected = decoder.output_projection.out_features, 0.0
    for row, summary in enumerate(SUMMARIES):
        first = encoded["first_state"][0][row], encoded["first_cell"][0][row]
        layer = decoder.output_projection.weight, decoder.output_projection.bias
        found = reference.closed_book(lstm, *layer, first, vectors[row])
        for step, word in enumerate([*summary, EOS]):
            expected -= found[step][word if word < known else unk].item()
    loss, _, logs = loss_of()(model, sample)
    assert logs["closed_book_loss"].item() == pytest.approx(expected, rel=1e-5)
    assert loss.item() == pytest.approx((1 - GAMMA) * logs["nll_loss"].item() + GAMMA * expected, rel=1e-5)


@pytest.mark.parametrize("arch", ["pg_coverage", "pointer_generator_coverage"])
def test_the_encoder_gets_another_gradient_unless_it_is_cut_or_the_weight_is_0(arch):
    sample, model = make_sample(DOCUMENTS, SUMMARIES), model_of(arch)
    unweighted = gradients(model, loss_of(0.0), sample)
    model.decoder.closed_book = None
    plain = gradients(model, loss_of(0.0), sample)
    assert plain.keys() == unweighted.keys()
    assert all(torch.equal(unweighted[name], plain[name]) for name in plain)
    names = [name for name in plain if name.startswith(("encoder.gru", "encoder.lstm", "encoder.first"))]
    assert names
    for cut in (False, True):
        found = gradients(model_of(arch, closed_book_cut=cut), loss_of(), sample)
        for name in names:
            assert torch.allclose(found[name], (1 - GAMMA) * plain[name], rtol=1e-4, atol=1e-6) == cut, name


@pytest.mark.parametrize("arch", ["pg_coverage", "pointer_generator_coverage"])
def test_validation_and_generation_are_those_without_it(arch):
    """A model loaded for generation does not have it; checkpoints without it, including old ones, load, too."""
    trained = model_of(arch)
    sample = make_sample(DOCUMENTS, SUMMARIES)
    with mock.patch.object(type(TASK), "is_loading", True):
        loaded = recurrent(arch, TASK, closed_book_decoder=True)
    assert loaded.decoder.closed_book is None
    loaded.load_state_dict(trained.state_dict())
    tokens, previous = sample["net_input"]["src_tokens"], sample["net_input"]["prev_output_tokens"]
    expected = log_probs(trained.eval(), tokens, previous)[0]
    assert torch.equal(log_probs(loaded.eval(), tokens, previous)[0], expected)
    logs = loss_of()(trained, sample)[2]
    assert "closed_book_loss" not in logs and torch.equal(logs["loss"], loss_of(0.0)(loaded, sample)[2]["loss"])


DEVIATIONS = {
    r"embed_tokens.weight|output_projection..*|first_(state|cell)..*": 0.88e-4,
    r"(rnn|cell|network).weight_.*": 0.02 / 3**0.5,
    r"(rnn|cell|network).bias_.*": None,
    r"(from_hidden|readout|merge|gate).bias": 0.0,
    r"(keys|from_hidden|attention|readout).weight": (2 / 1024) ** 0.5,  # of the sum of widths
    r"coverage_weight": (2 / 513) ** 0.5,
    r"merge.weight": (2 / 768) ** 0.5,
    r"pointer.gate.weight": (2 / 1153) ** 0.5,
}
"""Standard deviations of first weights in See et al.'s code, by patterns of names. A normal distribution cut off at two
deviations has 0.88 of its deviation, a uniform one 1/sqrt(3) of its bound; None: 0, but forget gates 1.
"""


def test_every_parameter_begins_as_in_the_papers_code():
    """Jiang and Bansal train on See et al.'s code, so the second decoder is initialised like the first one."""
    torch.manual_seed(1)
    config = model_config("pointer_generator_coverage", closed_book_decoder=True)  # of the paper's sizes
    model = ARCH_MODEL_REGISTRY["pointer_generator_coverage"].build_model(config, make_task())
    for name, parameter in model.named_parameters():
        (expected,) = (value for end, value in DEVIATIONS.items() if re.search(rf"\b({end})$", name))
        values = parameter.detach().flatten()
        if expected is None:
            values = values.view(4, -1)
            assert values[1].eq(1).all() and not values[[0, 2, 3]].any(), name
        elif expected == 0:
            assert not values.any(), name
        else:
            assert values.std().item() == pytest.approx(expected, rel=0.02 + 3 / len(values) ** 0.5), name
            assert abs(values.mean()) < 4 * expected / len(values) ** 0.5, name


def test_a_checkpoint_with_two_biases_loads():
    weights, name = model_of().state_dict(), "decoder.closed_book.network.bias_ih_l0"
    second = torch.randn_like(weights[name])
    old = {**weights, name: weights[name] - second, name.replace("_ih_", "_hh_"): second}
    other = model_of(paper_init=False)
    other.load_state_dict(old)
    torch.testing.assert_close(other.state_dict(), weights)
