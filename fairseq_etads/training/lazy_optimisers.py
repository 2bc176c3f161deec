"""Lazy optimisers, which update only the embeddings of words in the batch.

Only the rows of a word embedding table that belong to words in the batch have a nonzero gradient. In every step,
however, fairseq's Adam, Adadelta and Adagrad process the whole table, its whole gradient and all moments.
``lazy_adam``, ``lazy_adadelta`` and ``lazy_adagrad`` apply the same update rules only to rows with a nonzero gradient.
The duration of a step therefore depends on the number of words in the batch rather than on the size of the dictionary.
The weights and moments of all other rows do not change, and weight decay is not applied to them.
"""

import contextlib
import logging
from argparse import ArgumentParser
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

import torch
from fairseq import utils
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.adadelta import Adadelta
from fairseq.optim.adagrad import Adagrad
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from omegaconf import II
from torch import Tensor, nn

from ..fairseq_fixes.distributed import has_several_workers
from ..layers.embedding import is_lookup_table, set_sparse_gradient
from ..platform.option_checks import NOT_NEGATIVE, check_option_values, option

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def restrict_to_updated_rows(optimizer: torch.optim.Optimizer, tables: Iterable[Tensor] = ()) -> Iterator[None]:
    """Context manager that temporarily reduces embedding tables in an optimiser to the rows with a nonzero gradient.

    These are the tables with a sparse gradient, and ``tables`` even if their gradients are dense. Each tensor in the
    optimiser state with as many rows as the table is reduced too. On exit, the rows are written back. This works for
    every optimiser that processes rows independently.
    """
    dense = {id(table) for table in tables}
    swapped: List[Tuple[List[Any], int, Any, Any, Tensor]] = []
    for group in optimizer.param_groups:
        for place, table in enumerate(group["params"]):
            if table.grad is None or not (table.grad.is_sparse or id(table) in dense):
                continue
            rows, gradient = _find_rows_with_gradient(table.grad)
            part = nn.Parameter(table.detach().index_select(0, rows))
            part.grad = gradient
            if table in optimizer.state:
                optimizer.state[part] = {
                    name: value[rows] if _has_rows(value, len(table)) else value
                    for name, value in optimizer.state[table].items()
                }
            group["params"][place] = part
            swapped.append((group["params"], place, table, part, rows))
    try:
        yield
    finally:
        for params, place, table, part, rows in swapped:
            params[place] = table
            table.detach().index_copy_(0, rows, part.detach())
            _store_row_state(optimizer, table, optimizer.state.pop(part, {}), rows)


def _find_rows_with_gradient(gradient: Tensor) -> Tuple[Tensor, Tensor]:
    """Return the indices and the gradients of the rows with a nonzero gradient.

    Rows that were looked up but have a zero gradient are omitted, because they cannot be distinguished from other rows
    in the dense gradients of multi-process training.
    """
    if not gradient.is_sparse:
        rows = gradient.flatten(1).any(dim=1).nonzero().flatten()
        return rows, gradient.index_select(0, rows)
    gradient = gradient.coalesce()
    rows, values = gradient.indices()[0], gradient.values()
    found = values.flatten(1).any(dim=1)
    return (rows, values) if bool(found.all()) else (rows[found], values[found])


def _has_rows(value: Any, length: int) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0 and len(value) == length


def _store_row_state(optimizer: torch.optim.Optimizer, table: Any, state: Dict[str, Any], rows: Tensor) -> None:
    """Copy the optimiser state of some rows to the state of the whole table. Missing tensors are initialised to 0."""
    own = optimizer.state[table]
    for name, value in state.items():
        if _has_rows(value, len(rows)):
            if name not in own:
                own[name] = value.new_zeros((len(table), *value.shape[1:]))
            own[name].index_copy_(0, rows, value)
        else:
            own[name] = value


class LazyEmbeddingUpdateMixin(FairseqOptimizer):
    """Mixin that makes a fairseq optimiser lazy. List the mixin before fairseq's class in the base classes.

    With several processes, gradients are dense, because fairseq can sum only dense gradients across processes. In this
    case, the same rows are updated, but updates are not faster. In half precision, the optimiser behaves like
    fairseq's, because torch cannot add sparse half-precision gradients on every device.
    """

    def __init__(self, cfg: Any, params: Any):
        params = list(params)
        super().__init__(cfg, params)
        alone = not has_several_workers()
        tables = [parameter for parameter in params if is_lookup_table(parameter)]
        self._tables = [table for table in tables if table.dtype in (torch.float32, torch.float64)]
        for table in tables:
            set_sparse_gradient(table, alone and table.dtype in (torch.float32, torch.float64))
        plain = type(self).__name__[len("Lazy") :].lower()
        if not self._tables:
            logger.warning(
                f"--optimizer lazy_{plain} is the same as {plain} here, because only the word vectors of recurrent "
                "models in full precision are updated lazily"
            )
        elif not alone:
            logger.warning(
                f"--optimizer lazy_{plain} saves no time with several processes, because their gradients are dense"
            )

    @property
    def supports_flat_params(self) -> bool:
        """Return False if embedding tables are updated lazily, because they cannot be merged with other parameters."""
        return not self._tables and bool(super().supports_flat_params)

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Add all options of the dataclass to the parser. fairseq's Adadelta and Adagrad omit some of these options."""
        gen_parser_from_dataclass(parser, getattr(cls, "__dataclass")())

    def multiply_grads(self, c: Any) -> None:
        """Multiply all gradients by ``c``, including sparse gradients, which fairseq's method does not support."""
        for parameter in self.params:
            if parameter.grad is not None and parameter.grad.is_sparse:
                # Coalescing adds up the gradients of words that occur more than once.
                parameter.grad = parameter.grad.coalesce() * c
            elif parameter.grad is not None:
                parameter.grad.mul_(c)

    def clip_grad_norm(self, max_norm: float, aggregate_norm_fn: Optional[Any] = None) -> Tensor:
        """Clip the gradients and return their norm. Of a sparse gradient, only the stored rows are read."""
        gradients: List[Any] = []
        for parameter in self.params:
            if parameter.grad is None:
                continue
            if parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()
                gradients.append(SimpleNamespace(grad=parameter.grad.values()))
            else:
                gradients.append(parameter)
        if not gradients:
            return next(iter(self.params)).new_zeros(())
        norm: Tensor = utils.clip_grad_norm_(gradients, max_norm, aggregate_norm_fn)
        return norm

    def step(self, closure: Optional[Any] = None, scale: float = 1.0, groups: Optional[Any] = None) -> None:
        """Update the embedding rows with a nonzero gradient, and all other parameters."""
        with restrict_to_updated_rows(self.optimizer, self._tables):
            super().step(closure, scale, groups)


@register_optimizer("lazy_adam", dataclass=FairseqAdamConfig)
class LazyAdam(LazyEmbeddingUpdateMixin, FairseqAdam):
    """fairseq's Adam with lazy embedding updates. Bias correction uses the step count of the whole table."""


@dataclass
class _LazyOptimiserConfig(FairseqDataclass):
    """Options that fairseq declares only in its argument parser. ``fairseq-hydra-train`` requires a dataclass."""

    weight_decay: float = option(0.0, "weight decay", argparse_alias="--wd")
    lr: List[float] = II("optimization.lr")


@dataclass
class LazyAdadeltaConfig(_LazyOptimiserConfig):
    """Options of ``--optimizer lazy_adadelta``, which are the same as for fairseq's Adadelta."""

    adadelta_rho: float = option(0.9, "decay rate of the running averages")
    adadelta_eps: float = option(1e-6, "term added to the denominator to improve numerical stability")
    anneal_eps: bool = option(False, "no effect, as in fairseq")


@dataclass
class LazyAdagradConfig(_LazyOptimiserConfig):
    """Options of ``--optimizer lazy_adagrad``."""

    initial_accumulator: float = option(
        0.0, "initial value of the accumulated squared gradients (See et al. 2017: 0.1)", bounds=NOT_NEGATIVE
    )


@register_optimizer("lazy_adadelta", dataclass=LazyAdadeltaConfig)
class LazyAdadelta(LazyEmbeddingUpdateMixin, Adadelta):
    """fairseq's Adadelta with lazy embedding updates."""


@register_optimizer("lazy_adagrad", dataclass=LazyAdagradConfig)
class LazyAdagrad(LazyEmbeddingUpdateMixin, Adagrad):
    """fairseq's Adagrad with lazy embedding updates.

    Without weight decay, the results are the same as with fairseq's Adagrad, which does not change rows with a zero
    gradient either.
    """

    @property
    def optimizer_config(self) -> Dict[str, Any]:
        config: Dict[str, Any] = super().optimizer_config
        check_option_values(self.args, LazyAdagradConfig)
        return {**config, "initial_accumulator_value": self.args.initial_accumulator}
