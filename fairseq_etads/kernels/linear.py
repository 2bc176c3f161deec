"""Functions for linear layers: faster training with oneDNN, weight normalisation, and marks for optimisers."""

from typing import Any, Iterator, List, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn.utils.weight_norm import WeightNorm, remove_weight_norm
from typing_extensions import TypeGuard  # PyTorch also depends on this package

from .cpu import has_faster_onednn_linear, onednn_linear


class _LinearFunction(torch.autograd.Function):
    """Computes x W^T + b for x (…, in) and W (out, in), and the gradient for x, with :func:`onednn_linear`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        rows = x.reshape(-1, x.size(-1))
        ctx.save_for_backward(rows, weight)
        # As in PyTorch, the result is not a view, because in-place operations on a view copy the gradient three times.
        out: Tensor = torch.ops.aten._unsafe_view(onednn_linear(rows, weight, bias), (*x.shape[:-1], len(weight)))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Optional[Tensor], Optional[Tensor], Optional[Tensor]]:
        rows, weight = ctx.saved_tensors
        shape = gradients[0].shape
        gradient = gradients[0].reshape(-1, shape[-1]).contiguous()
        of_x = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            of_x = onednn_linear(gradient, weight.t(), None).view(*shape[:-1], weight.size(1))
        if ctx.needs_input_grad[1]:
            of_weight = gradient.t().mm(rows)  # oneDNN is not faster for this product
        if ctx.needs_input_grad[2]:
            of_bias = gradient.sum(dim=0)
        return of_x, of_weight, of_bias


class OneDNNTrainingLinear(nn.Linear):
    """A linear layer that uses oneDNN for training in float32 on a CPU.

    Its output is the same as for PyTorch's layer, except that the order of summation may differ.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Compute outputs (…, out) from inputs (…, in)."""
        training = torch.is_grad_enabled() and input.requires_grad and not torch.is_autocast_enabled("cpu")
        if not (training and input.device.type == "cpu" and input.dtype == self.weight.dtype == torch.float32):
            return super().forward(input)
        result: Tensor = _LinearFunction.apply(input, self.weight, self.bias)
        return result


def replace_linears_with_onednn(model: nn.Module) -> None:
    """Replace the linear layers of a model with :class:`OneDNNTrainingLinear` if this is faster on this processor."""
    if has_faster_onednn_linear():
        for module in model.modules():
            if type(module) is nn.Linear:
                module.__class__ = OneDNNTrainingLinear


def is_plain_linear(module: Optional[nn.Module]) -> "TypeGuard[nn.Linear]":
    """Return whether a module is exactly PyTorch's linear layer or a :class:`OneDNNTrainingLinear`."""
    return type(module) in (nn.Linear, OneDNNTrainingLinear)


def mark_linear_weight_matrices(model: nn.Module) -> None:
    """Mark the weight matrices of all linear layers in a model, for optimisers that treat matrices differently.

    Embedding tables, output layers, and matrices with a single row or column are not marked.
    """
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and isinstance(module.weight, nn.Parameter):
            is_output = name.rpartition(".")[2] == "output_projection" or id(module.weight) in tables
            module.weight.is_matrix = not is_output and min(module.weight.shape) > 1  # type: ignore[attr-defined]


def is_matrix(weight: Tensor) -> bool:
    """Return whether :func:`mark_linear_weight_matrices` has marked this weight."""
    return bool(getattr(weight, "is_matrix", False))


def _find_weight_norms(module: nn.Module) -> List[WeightNorm]:
    """Return a module's ``weight_norm`` hooks, which compute its weights g v / |v| each time the module is called."""
    return [hook for hook in module._forward_pre_hooks.values() if isinstance(hook, WeightNorm)]


def recompute_weight(layer: nn.Module) -> None:
    """Recompute the normalised weight of a layer, for code that reads the weight without calling the layer."""
    for hook in _find_weight_norms(layer):
        setattr(layer, hook.name, hook.compute_weight(layer))


def iterate_normalised_weights(model: nn.Module) -> Iterator[Tensor]:
    """Iterate over the normalised weights of a model.

    Normalised weights are computed from parameters. They are not parameters themselves and cannot be deep-copied.
    """
    for module in model.modules():
        yield from (getattr(module, hook.name) for hook in _find_weight_norms(module))


def remove_weight_normalisation(model: nn.Module) -> None:
    """Replace the parameters of each normalised weight with the weight itself."""
    for module in model.modules():
        for hook in _find_weight_norms(module):
            remove_weight_norm(module, hook.name)
