"""Lazy optimisers equal the plain ones where every row has a gradient, and move nothing elsewhere. Muon's steps follow
the paper for the matrices of linear layers; all else uses torch's AdamW.
"""

from argparse import Namespace

import pytest
import torch
import torch.nn.functional as F
from fairseq.optim import build_optimizer
from fairseq.optim.adadelta import Adadelta
from fairseq.optim.adagrad import Adagrad
from fairseq.optim.adam import FairseqAdam
from helpers import make_model, make_task
from omegaconf import OmegaConf
from reference import muon, nearest_orthogonal, polynomial_orthogonal
from torch import nn

from fairseq_etads.kernels.linear import is_matrix, mark_linear_weight_matrices
from fairseq_etads.layers.embedding import mark_lookup_table, set_sparse_gradient, wants_sparse_gradient
from fairseq_etads.training import optimisers
from fairseq_etads.training.optimisers import LazyAdadelta, LazyAdagrad, LazyAdam, Muon

OPTIONS = Namespace(
    **{"lr": [0.1], "weight_decay": 0.0, "tpu": False, "initial_accumulator": 0.0, "muon_momentum": 0.9},
    **{"adam_betas": "(0.9, 0.99)", "adam_eps": 1e-8, "use_old_adam": True, "fp16_adam_stats": False},
    **{"adadelta_rho": 0.9, "adadelta_eps": 1e-6, "anneal_eps": False},
)
PAIRS = [(LazyAdam, FairseqAdam), (LazyAdadelta, Adadelta), (LazyAdagrad, Adagrad)]
ROWS, BATCHES = 7, [[0, 1, 2], [1, 2, 3], [1, 1, 5]]


class Toy(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.other = nn.Parameter(torch.randn(ROWS, 3)), nn.Parameter(torch.randn(3))
        mark_lookup_table(self.table)

    def step(self, optimizer, ids, clip=0.0):
        looked_up = F.embedding(ids, self.table, sparse=wants_sparse_gradient(self.table))
        optimizer.zero_grad()
        (looked_up * self.other).pow(2).sum().backward()
        optimizer.multiply_grads(0.25)
        norm = optimizer.clip_grad_norm(clip)
        optimizer.step()
        return norm


def build(kind, model, **changes):
    return kind(Namespace(**{**vars(OPTIONS), **changes}), list(model.parameters()))


def run(kind, batches, clip=0.0, **changes):
    model = Toy()
    optimizer = build(kind, model, **changes)
    norms = [model.step(optimizer, torch.tensor(ids), clip) for ids in batches]
    return model, optimizer, norms


@pytest.mark.parametrize("lazy,plain", PAIRS)
@pytest.mark.parametrize("clip", [0.0, 0.5])
def test_they_are_the_plain_optimiser_where_every_row_has_a_gradient(lazy, plain, clip):
    batches = [[*range(ROWS), 2, 2], [*reversed(range(ROWS)), 0]] * 3
    (a, first, norms), (b, second, plain_norms) = run(lazy, batches, clip), run(plain, batches, clip)
    assert a.table.grad.is_sparse and not b.table.grad.is_sparse
    torch.testing.assert_close(a.table, b.table)
    torch.testing.assert_close(a.other, b.other)
    torch.testing.assert_close(torch.stack(norms), torch.stack(plain_norms))
    for name, value in second.optimizer.state[b.table].items():
        torch.testing.assert_close(first.optimizer.state[a.table][name], value)


@pytest.mark.parametrize("lazy", [lazy for lazy, _ in PAIRS])
def test_rows_without_a_gradient_stay_where_they_are(lazy):
    """Several processes have dense gradients, which used to move words that were in no batch, by their moments."""
    (model, optimizer, _), plain, dense = run(lazy, BATCHES, weight_decay=0.01), Toy(), Toy()
    assert [row for row in range(ROWS) if torch.equal(model.table[row], plain.table[row])] == [4, 6]
    states = [value for value in optimizer.optimizer.state[model.table].values() if getattr(value, "dim", int)()]
    assert states and all(not value[[4, 6]].any() and value[[0, 1, 2, 3, 5]].any(1).all() for value in states)
    optimizer = build(lazy, dense, weight_decay=0.01)
    set_sparse_gradient(dense.table, False)
    for ids in BATCHES:
        dense.step(optimizer, torch.tensor(ids))
    assert not dense.table.grad.is_sparse
    torch.testing.assert_close(dense.table, model.table)


def test_adagrad_is_the_same_on_any_rows_and_may_begin_above_zero():
    torch.testing.assert_close(run(LazyAdagrad, BATCHES)[0].table, run(Adagrad, BATCHES)[0].table)
    model, optimizer, _ = run(LazyAdagrad, [[1]], initial_accumulator=0.5)
    assert optimizer.optimizer.state[model.table]["sum"][[0, 2]].eq(0.5).all()
    with pytest.raises(ValueError, match="--initial-accumulator -1"):
        run(LazyAdagrad, [[1]], initial_accumulator=-1)


def test_parameters_may_be_flat_where_none_is_looked_up():
    """--fp16 passes one flat float32 copy of all parameters."""
    assert LazyAdam(OPTIONS, [nn.Parameter(torch.randn(5))]).supports_flat_params
    assert LazyAdam(OPTIONS, Toy().half().parameters()).supports_flat_params
    assert not LazyAdam(OPTIONS, Toy().parameters()).supports_flat_params


@pytest.mark.parametrize("name", ["lazy_adam", "lazy_adadelta", "lazy_adagrad"])
def test_hydra_gives_them_all_their_options(name):
    """fairseq-hydra-train takes options from the dataclass alone; the learning rate is one of the optimisation."""
    shared = {"optimization": {"lr": [0.25]}, "common": {"tpu": False}}
    config = OmegaConf.create({**shared, "optimizer": {"_name": name, "weight_decay": 0.5}})
    optimizer = build_optimizer(config.optimizer, list(Toy().parameters()))
    assert optimizer.optimizer_config["lr"] == 0.25 and optimizer.optimizer_config["weight_decay"] == 0.5


@pytest.fixture(autouse=True)
def in_float32(monkeypatch):
    """Act like a processor without bfloat16 instructions."""
    monkeypatch.setattr(optimisers, "has_fast_bfloat16", lambda: False)


def layers():
    """A model of three matrices, a vector in the form of a matrix, and biases."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3), nn.Linear(3, 1)).double()
    mark_linear_weight_matrices(model)
    return model


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
        found = optimisers.orthogonalise(matrix[None])[0]
        torch.testing.assert_close(found, polynomial_orthogonal(matrix))
        assert float((found - nearest_orthogonal(matrix)).norm() / min(shape) ** 0.5) < 0.35
        assert 0.6 < torch.linalg.svdvals(found).min() <= torch.linalg.svdvals(found).max() < 1.3


def test_steps_are_those_of_the_equations():
    """All else than matrices has the steps of torch's AdamW."""
    model, other = layers(), layers()
    optimizer = build(Muon, model, weight_decay=0.2)
    adam = torch.optim.AdamW(other.parameters(), lr=0.1, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.2)
    start = [parameter.detach().clone() for parameter in model.parameters()]
    gradients = [step(model, optimizer, number) for number in range(3)]
    for number in range(3):
        step(other, adam, number)
    for mine, adams, first, *of_steps in zip(model.parameters(), other.parameters(), start, *gradients):
        assert torch.equal(mine, adams) != is_matrix(mine)
        if is_matrix(mine):
            torch.testing.assert_close(mine.detach(), muon(first, of_steps, 0.1, 0.9, 0.2))
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
        build(Muon, layers(), muon_momentum=1)
    with pytest.raises(ValueError, match=r"no linear layers .* choose adam"):
        build(Muon, Toy())
