"""Linear layers that compute in float32 inside half-precision models.

Half precision is not accurate enough for positions in documents and for important logits. For example, bfloat16 rounds
positions near 400 to multiples of 2.
"""

import torch
from torch import Tensor, nn


def keep_float32(layer: nn.Linear) -> nn.Linear:
    """Mark a layer for :func:`in_float32`, so that inference copies of the model also keep it in float32."""
    layer.keeps_float32 = True  # type: ignore[assignment]
    return layer


def keeps_float32(layer: nn.Module) -> bool:
    """Return whether :func:`keep_float32` was called for this layer."""
    return bool(getattr(layer, "keeps_float32", False))


def in_float32(layer: nn.Module, x: Tensor) -> Tensor:
    """Compute ``layer(x)`` in float32 or higher precision for any dtypes of ``layer`` and ``x``, even under autocast.

    Args:
        layer: a linear layer, including its hooks, such as fairseq's quantisation noise.
        x: inputs (…, in).

    Returns:
        The outputs (…, out), at least float32. Gradients have the dtype of the layer's parameters.
    """
    x = at_least_float32(x)
    with torch.autocast(x.device.type, enabled=False):
        if all(parameter.dtype == x.dtype for parameter in layer.parameters()):
            result: Tensor = layer(x)
        else:
            wide = {name: parameter.to(x.dtype) for name, parameter in layer.named_parameters()}
            result = torch.func.functional_call(layer, wide, (x,))
    return result


def at_least_float32(x: Tensor) -> Tensor:
    """Convert ``x`` to float32, unless it is float64, before sums and logarithms are computed."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
