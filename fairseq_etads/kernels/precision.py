"""Linear layers that compute in float32 inside models that compute in half precision.

Where a result is a position in a document or a logit that decides alone, half precision is too coarse: bfloat16 tells a
position of 400 only from those 2 tokens away.
"""

import torch
from torch import Tensor, nn


def keep_float32(layer: nn.Linear) -> nn.Linear:
    """Mark a layer that is called by :func:`in_float32`, so that copies for inference keep it in float32, too."""
    layer.keeps_float32 = True  # type: ignore[assignment]
    return layer


def keeps_float32(layer: nn.Module) -> bool:
    """Whether :func:`keep_float32` was called for this layer."""
    return bool(getattr(layer, "keeps_float32", False))


def in_float32(layer: nn.Module, x: Tensor) -> Tensor:
    """``layer(x)`` in float32 or better, whatever the layer and ``x`` are in, and under autocast.

    Args:
        layer: a linear layer, whose hooks are run (fairseq's quantisation noise is one). x: (…, in).

    Returns:
        (…, out), at least float32. Gradients arrive in the format of the layer's parameters.
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
    """``x`` in float32, or as it is if it is in float64: the type to compute sums and logarithms in."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
