"""Linear layers that compute in float32 inside half-precision models.

Half precision is not accurate enough for positions in documents and for some logits. For example, bfloat16 rounds
positions near 400 to multiples of 2.
"""

import torch
from torch import Tensor, nn


def mark_as_float32_layer(layer: nn.Linear) -> nn.Linear:
    """Mark a layer that is used with :func:`apply_in_float32`, so that inference copies keep it in float32."""
    layer.keeps_float32 = True  # type: ignore[assignment]
    return layer


def keeps_float32(layer: nn.Module) -> bool:
    """Return whether :func:`mark_as_float32_layer` was called for this layer."""
    return bool(getattr(layer, "keeps_float32", False))


def apply_in_float32(layer: nn.Module, x: Tensor) -> Tensor:
    """Compute ``layer(x)`` (…, out) for inputs (…, in) in float32 or higher precision, even under autocast.

    The layer and the input may have any floating-point dtypes. The hooks of the layer, such as fairseq's quantisation
    noise, are also run. Gradients have the dtype of the layer's parameters.
    """
    x = widen_to_float32(x)
    with torch.autocast(x.device.type, enabled=False):
        if all(parameter.dtype == x.dtype for parameter in layer.parameters()):
            result: Tensor = layer(x)
        else:
            wide = {name: parameter.to(x.dtype) for name, parameter in layer.named_parameters()}
            result = torch.func.functional_call(layer, wide, (x,))
    return result


def widen_to_float32(x: Tensor) -> Tensor:
    """Convert a tensor to float32, or leave it unchanged if it is float64."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
