"""Muon: its steps follow the paper, for the matrices of linear layers; all else uses torch's AdamW."""

from argparse import Namespace

import pytest
import torch
from helpers import make_model, make_task
from reference import muon, nearest_orthogonal, polynomial_orthogonal
from torch import nn

from fairseq_etads.kernels.linear import is_matrix, mark_linear_weight_matrices
from fairseq_etads.training import optimisers as module
from fairseq_etads.training.optimisers import Muon, orthogonalise

OPTIONS = Namespace(lr=[0.01], adam_betas="(0.9, 0.98)", adam_eps=1e-8, weight_decay=0.1, muon_momentum=0.9)


@pytest.fixture(autouse=True)
def in_float32(monkeypatch):
    """Act like a processor without bfloat16 instructions."""
    monkeypatch.setattr(module, "has_fast_bfloat16", lambda: False)


def layers(**changes):
    """A model of three matrices, a vector in the form of a matrix, and biases; with its optimiser."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3), nn.Linear(3, 1)).double()
    mark_linear_weight_matrices(model)
    return model, Muon(Namespace(**{**vars(OPTIONS), **changes}), list(model.parameters()))


def step(model, optimizer, number):
    torch.manual_seed(number)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    return [parameter.grad.clone() for parameter in model.parameters()]


def test_an_orthogonal_matrix_is_near():
    """The coefficients bring singular values to between 0.7 and 1.2, not to 1."""
    torch.manual_seed(1)
    for shape in ((5, 5), (4, 7), (7, 4)):
        matrix = torch.randn(shape, dtype=torch.float64)
        found = orthogonalise(matrix[None])[0]
        torch.testing.assert_close(found, polynomial_orthogonal(matrix))
        assert float((found - nearest_orthogonal(matrix)).norm() / min(shape) ** 0.5) < 0.35
        assert 0.6 < torch.linalg.svdvals(found).min() <= torch.linalg.svdvals(found).max() < 1.3


def test_steps_are_those_of_the_equations():
    """All else than matrices has the steps of torch's AdamW."""
    (model, optimizer), (other, _) = layers(), layers()
    adam = torch.optim.AdamW(other.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-8, weight_decay=0.1)
    start = [parameter.detach().clone() for parameter in model.parameters()]
    gradients = [step(model, optimizer, number) for number in range(3)]
    for number in range(3):
        step(other, adam, number)
    for number, (mine, adams) in enumerate(zip(model.parameters(), other.parameters())):
        assert torch.equal(mine, adams) != is_matrix(mine)
        if is_matrix(mine):
            expected = muon(start[number], [found[number] for found in gradients], 0.01, 0.9, 0.1)
            torch.testing.assert_close(mine.detach(), expected)
    assert sum(map(is_matrix, model.parameters())) == 3


@pytest.mark.parametrize("arch", ["etads", "words_lvt2k", "transformer"])
def test_tables_of_words_and_output_layers_are_no_matrices(arch):
    task = make_task()
    model = make_model(arch, task, **({"pointer": "soft"} if arch == "etads" else {}))
    mark_linear_weight_matrices(model)
    marked = {name for name, parameter in model.named_parameters() if is_matrix(parameter)}
    assert marked and not [name for name in marked if "embed" in name or "output_projection" in name]
    if arch == "etads":
        assert {"encoder.layers.0.fc1.weight", "decoder.layers.1.encoder_attn.gate_q_proj.weight"} < marked


def test_impossible_options_are_refused():
    with pytest.raises(ValueError, match="--muon-momentum 1: choose a number, at least 0 and below 1"):
        layers(muon_momentum=1)
    with pytest.raises(ValueError, match=r"no linear layers .* choose adam"):
        Muon(OPTIONS, [nn.Parameter(torch.zeros(3, 3))])
