"""Lazy optimisers, which update only the embeddings of words in the batch; Muon; and a learning-rate scheduler.

Only the rows of a word embedding table that belong to words in the batch have a nonzero gradient. In every step,
however, fairseq's Adam, Adadelta and Adagrad process the whole table, its whole gradient and all moments.
``lazy_adam``, ``lazy_adadelta`` and ``lazy_adagrad`` apply the same update rules only to rows with a nonzero gradient.
The duration of a step therefore depends on the number of words in the batch rather than on the size of the dictionary.
The weights and moments of all other rows do not change, and weight decay is not applied to them.

``--optimizer muon`` orthogonalises the updates of linear layers and uses Adam for all other parameters.

Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon) updates each weight matrix in the direction of the
orthogonal matrix that is closest to its momentum. As a result, all directions are learned at the same rate, even those
that rarely occur in gradients. Let W (m, n) be the weight matrix, G its gradient, M its momentum, and U S V^T the
singular value decomposition of G + mu M:

    M <- mu M + G,   W <- (1 - lr lambda) W - 0.2 lr sqrt(max(m, n)) U V^T

U V^T is approximated with five Newton-Schulz iterations. The factor 0.2 sqrt(max(m, n)) scales the updates to the
typical size of Adam's updates, so that both optimisers can use the same learning rate lr and weight decay lambda (Liu
et al. 2025, "Muon is Scalable for LLM Training", section 2.2). Adam updates all parameters that are not weight matrices
of linear layers, such as word embeddings, output layers and biases.

torch has included Muon since version 2.9, but torch's optimiser accepts only matrices and processes them one at a time.
Here, Muon processes matrices of the same shape together, with batched matrix products.

``--lr-scheduler reduce_lr_on_validation`` reduces the learning rate if validation results stagnate.
"""

import contextlib
import logging
import math
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
from fairseq.optim.lr_scheduler import register_lr_scheduler
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import (
    ReduceLROnPlateauLRSchedule,
    ReduceLROnPlateauLRScheduleConfig,
)
from omegaconf import II
from torch import Tensor, nn

from ..fairseq_fixes.distributed import has_several_workers
from ..kernels.linear import is_matrix
from ..kernels.operators import has_fast_bfloat16
from ..layers.embedding import is_lookup_table, set_sparse_gradient
from ..platform.command_options import NOT_NEGATIVE, Bounds, check_option_values, option

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


COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Coefficients of Jordan et al.'s polynomial. A few iterations move singular values between 0 and 1 close to 1."""
ITERATIONS = 5
ADAM_LIKE = 0.2
"""Typical absolute value of an element of Adam's update, divided by the learning rate."""


def orthogonalise(matrices: Tensor) -> Tensor:
    """Approximate the orthogonal factors U V^T of K matrices U S V^T. Input and output have shape (K, m, n).

    Most singular values of the result are between 0.7 and 1.2.
    """
    first, second, third = COEFFICIENTS
    wide = matrices if matrices.shape[1] <= matrices.shape[2] else matrices.transpose(1, 2)
    x = wide / wide.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    if not x.is_cpu or has_fast_bfloat16():
        x = x.bfloat16()
    for _ in range(ITERATIONS):
        squares = torch.bmm(x, x.transpose(1, 2))
        x = torch.baddbmm(x, torch.baddbmm(squares, squares, squares, beta=second, alpha=third), x, beta=first)
    return x.to(matrices.dtype) if wide is matrices else x.transpose(1, 2).to(matrices.dtype)


class MuonWithAdam(torch.optim.AdamW):
    """torch's AdamW with the keyword arguments ``options``, except that ``matrices`` are updated with Muon.

    Muon has the coefficient ``momentum``, and the same ``lr`` and ``weight_decay``.
    """

    def __init__(self, matrices: Iterable[Tensor], others: Iterable[Tensor], momentum: float, **options: Any):
        groups: List[Dict[str, Any]] = [
            {"params": list(others), "momentum": None},
            {"params": list(matrices), "momentum": momentum},
        ]
        super().__init__([group for group in groups if group["params"]], **options)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update all parameters that have a gradient."""
        groups = self.param_groups
        self.param_groups = [group for group in groups if group["momentum"] is None]
        try:
            loss = super().step(closure)
        finally:
            self.param_groups = groups
        for group in groups:
            if group["momentum"] is not None:
                self._step_matrices(group)
        return loss

    def _step_matrices(self, group: Dict[str, Any]) -> None:
        by_shape: Dict[Tuple[int, ...], List[Tuple[Tensor, Tensor]]] = {}
        for weight in group["params"]:
            if weight.grad is None:
                continue
            state = self.state[weight]
            if not state:  # when AdamW loads states, it expects "step" in each state
                state.update(step=torch.zeros(()), momentum=torch.zeros_like(weight))
            state["step"] += 1
            state["momentum"].mul_(group["momentum"]).add_(weight.grad)
            direction = weight.grad + group["momentum"] * state["momentum"]
            by_shape.setdefault(tuple(weight.shape), []).append((weight, direction))
        for shape, found in by_shape.items():
            steps = orthogonalise(torch.stack([direction for _, direction in found]))
            size = ADAM_LIKE * group["lr"] * math.sqrt(max(shape))
            for (weight, _), step in zip(found, steps):
                weight.mul_(1 - group["lr"] * group["weight_decay"]).sub_(step, alpha=size)


@dataclass
class MuonConfig(FairseqDataclass):
    """Options of ``--optimizer muon``."""

    muon_momentum: float = option(
        0.95, "momentum (mu) of Muon, which updates the weight matrices of linear layers", bounds=Bounds(0, 1)
    )
    adam_betas: Any = option("(0.9, 0.98)", "betas of Adam, which updates all parameters that Muon does not update")
    adam_eps: float = option(1e-8, "epsilon of Adam, which updates all parameters that Muon does not update")
    weight_decay: float = option(0.0, "weight decay", argparse_alias="--wd")
    lr: List[float] = II("optimization.lr")


@register_optimizer("muon", dataclass=MuonConfig)
class Muon(FairseqAdam):
    """Muon for the weight matrices of linear layers, and Adam for all other parameters.

    For the equations, see the module docstring.

    Raises:
        ValueError: no parameter is the weight matrix of a linear layer, or the momentum is not in [0, 1).
    """

    def __init__(self, cfg: Any, params: Iterable[Tensor]):
        FairseqOptimizer.__init__(self, cfg)  # the constructor of FairseqAdam would create an Adam optimiser
        check_option_values(cfg, MuonConfig)
        params = list(params)
        matrices = [parameter for parameter in params if is_matrix(parameter)]
        if not matrices:
            raise ValueError(
                "--optimizer muon: this model has no linear layers with separate matrices (--fp16 needs "
                "--fp16-no-flatten-grads to keep them separate); choose adam"
            )
        others = [parameter for parameter in params if not is_matrix(parameter)]
        self._optimizer = MuonWithAdam(matrices, others, cfg.muon_momentum, **self.optimizer_config)

    @property
    def supports_flat_params(self) -> bool:
        """Return False, because weight matrices must not be merged with other parameters."""
        return False


@dataclass
class ReduceLROnValidationConfig(ReduceLROnPlateauLRScheduleConfig):
    """Options of ``--lr-scheduler reduce_lr_on_validation``."""

    lr_patience: int = option(0, "number of validations without improvement before the learning rate is reduced")


@register_lr_scheduler("reduce_lr_on_validation", dataclass=ReduceLROnValidationConfig)
class ReduceLROnValidation(ReduceLROnPlateauLRSchedule):
    """fairseq's ``reduce_lr_on_plateau``, modified to count validations instead of epochs (Chen and Bansal 2018)."""

    def step(self, epoch: int, val_loss: Optional[float] = None) -> float:
        """Do not change the learning rate, because the validation at the end of the epoch has already been counted."""
        return super().step(epoch, None)

    def step_validation(self, val_loss: float) -> None:
        """Count a validation with the result ``val_loss``.

        The training loop calls this method after each validation.
        """
        if self.warmup_end:
            self.lr_scheduler.step(val_loss)
