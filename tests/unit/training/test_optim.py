"""Lazy optimisers: equal to the plain ones where every row has a gradient, and without movement elsewhere."""

from argparse import Namespace

import pytest
import torch
import torch.nn.functional as F
from fairseq.optim import build_optimizer
from fairseq.optim.adadelta import Adadelta
from fairseq.optim.adagrad import Adagrad
from fairseq.optim.adam import FairseqAdam
from omegaconf import OmegaConf
from torch import nn

from fairseq_etads.layers.embedding import mark_lookup_table, set_sparse_gradient, wants_sparse_gradient
from fairseq_etads.training.optimisers import LazyAdadelta, LazyAdagrad, LazyAdam

OPTIONS = Namespace(
    **{"lr": [0.1], "weight_decay": 0.0, "tpu": False, "initial_accumulator": 0.0},
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


def run(kind, batches, clip=0.0, **changes):
    model = Toy()
    optimizer = kind(Namespace(**{**vars(OPTIONS), **changes}), list(model.parameters()))
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


@pytest.mark.parametrize("lazy,plain", PAIRS)
def test_rows_without_a_gradient_stay_where_they_are(lazy, plain):
    model, optimizer, _ = run(lazy, BATCHES, weight_decay=0.01)
    start = Toy().table
    unchanged = [row for row in range(ROWS) if torch.equal(model.table[row], start[row])]
    assert unchanged == [4, 6]
    states = [value for value in optimizer.optimizer.state[model.table].values() if getattr(value, "dim", int)()]
    assert states and all(not value[[4, 6]].any() and value[[0, 1, 2, 3, 5]].any(1).all() for value in states)


def test_adagrad_is_the_same_on_any_rows_and_may_begin_above_zero():
    torch.testing.assert_close(run(LazyAdagrad, BATCHES)[0].table, run(Adagrad, BATCHES)[0].table)
    model, optimizer, _ = run(LazyAdagrad, [[1]], initial_accumulator=0.5)
    assert optimizer.optimizer.state[model.table]["sum"][[0, 2]].eq(0.5).all()
    with pytest.raises(ValueError, match="--initial-accumulator -1"):
        run(LazyAdagrad, [[1]], initial_accumulator=-1)


@pytest.mark.parametrize("lazy,plain", PAIRS)
def test_dense_gradients_move_the_same_rows(lazy, plain):
    """Several processes have dense gradients, which used to move words that were in no batch, by their moments."""
    expected = run(lazy, [*BATCHES, [2]], weight_decay=0.01)[0]
    model = Toy()
    optimizer = lazy(Namespace(**{**vars(OPTIONS), "weight_decay": 0.01}), list(model.parameters()))
    set_sparse_gradient(model.table, False)
    for ids in [*BATCHES, [2]]:
        model.step(optimizer, torch.tensor(ids))
    assert not model.table.grad.is_sparse
    torch.testing.assert_close(model.table, expected.table)


@pytest.mark.parametrize("lazy,plain", PAIRS)
def test_parameters_may_be_flat_where_none_is_looked_up(lazy, plain):
    """--fp16 passes one flat float32 copy of all parameters."""
    flat = [nn.Parameter(torch.randn(5))]
    assert lazy(OPTIONS, flat).supports_flat_params == plain(OPTIONS, flat).supports_flat_params
    half = list(Toy().half().parameters())
    assert lazy(OPTIONS, half).supports_flat_params == plain(OPTIONS, flat).supports_flat_params
    assert not lazy(OPTIONS, list(Toy().parameters())).supports_flat_params


@pytest.mark.parametrize("name", ["lazy_adam", "lazy_adadelta", "lazy_adagrad"])
def test_hydra_gives_them_all_their_options(name):
    """fairseq-hydra-train takes options from the dataclass alone; the learning rate is one of the optimisation."""
    shared = {"optimization": {"lr": [0.25]}, "common": {"tpu": False}}
    config = OmegaConf.create({**shared, "optimizer": {"_name": name, "weight_decay": 0.5}})
    optimizer = build_optimizer(config.optimizer, list(Toy().parameters()))
    assert optimizer.optimizer_config["lr"] == 0.25 and optimizer.optimizer_config["weight_decay"] == 0.5
