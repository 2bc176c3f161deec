"""``--optimizer muon``: orthogonalised updates for linear layers, and Adam for all other parameters.

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
This module processes matrices of the same shape together, with batched matrix products.
"""

import math
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Tuple

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.adam import FairseqAdam
from omegaconf import II
from torch import Tensor

from ..kernels.cpu import has_fast_bfloat16
from ..kernels.linear import is_matrix
from ..platform.option_checks import Bounds, check_option_values, option

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
