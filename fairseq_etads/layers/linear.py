"""Linear layers that train with oneDNN's products on processors where those are faster than torch's."""

from typing import Any, Optional, Tuple

import torch
from torch import Tensor, nn
from typing_extensions import TypeGuard  # torch needs it, too

from ..kernels import has_faster_linear, plain_linear


class _Linear(torch.autograd.Function):
    """x W^T + b of rows x (n, in), and its gradient, by :func:`plain_linear`; W (out, in)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        ctx.save_for_backward(x, weight)
        return plain_linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Optional[Tensor], Optional[Tensor], Optional[Tensor]]:
        x, weight = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        of_x = plain_linear(gradient, weight.t(), None) if ctx.needs_input_grad[0] else None
        of_weight = gradient.t().mm(x) if ctx.needs_input_grad[1] else None  # oneDNN is no faster here
        return of_x, of_weight, gradient.sum(dim=0) if ctx.needs_input_grad[2] else None


class TrainingLinear(nn.Linear):
    """A linear layer with the same result as torch's, up to the order in which products are added."""

    def forward(self, input: Tensor) -> Tensor:
        """(…, in) -> (…, out)."""
        training = torch.is_grad_enabled() and input.requires_grad and not torch.is_autocast_enabled("cpu")
        if not (training and input.device.type == "cpu" and input.dtype == self.weight.dtype == torch.float32):
            return super().forward(input)
        rows: Tensor = _Linear.apply(input.reshape(-1, self.in_features), self.weight, self.bias)
        return rows.view(*input.shape[:-1], self.out_features)


def use_training_linear(model: nn.Module) -> None:
    """Make each of torch's linear layers a :class:`TrainingLinear`, where its products are the faster ones."""
    if has_faster_linear():
        for module in model.modules():
            if type(module) is nn.Linear:
                module.__class__ = TrainingLinear


def is_plain_linear(module: Optional[nn.Module]) -> "TypeGuard[nn.Linear]":
    """Whether a module is torch's linear layer or a :class:`TrainingLinear`, and no subclass that computes more."""
    return type(module) in (nn.Linear, TrainingLinear)
