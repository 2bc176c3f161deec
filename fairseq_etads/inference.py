"""Copies of models for inference: other number formats, faster products, the model itself untouched.

A copy has the model's structure and shares its parameters, except where a format needs other numbers. Training the model
on is safe: nothing in it is replaced, and :class:`InferenceModel` renews a copy whose originals have changed.
"""

import copy
import logging
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import compat

logger = logging.getLogger(__name__)

INFER_DTYPES = ("fp32", "bf16", "int8")
_FLOATS = {"fp32": torch.float32, "bf16": torch.bfloat16}


class PackedLinear(nn.Linear):
    """A linear layer on a CPU whose weight is laid out for the processor's matrix kernels once and not at every call.

    The weight stays readable, because fairseq's encoder layers read it instead of calling the layer.
    """

    def __init__(self, linear: nn.Linear, dtype: torch.dtype, keep_dtype: bool = False):
        nn.Module.__init__(self)
        self.keep_dtype = keep_dtype
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self.dtype = dtype
        self.packed = compat.pack_weight(linear.weight.detach().to(dtype))
        self.packed_bias = None if linear.bias is None else linear.bias.detach().to(dtype)

    def forward(self, x: Tensor) -> Tensor:
        """(…, in) -> (…, out) in the dtype of ``x``, or of the weight with ``keep_dtype``."""
        out = compat.packed_linear(x.to(self.dtype), self.packed, self.packed_bias)
        return out if self.keep_dtype else out.to(x.dtype)


class Int8Linear(nn.Module):
    """A linear layer in 8-bit integers: one scale for each row of the weight, and one for each input vector.

    The products are added in 32-bit integers, so the only error is the rounding of weights and inputs to 1/127 of the
    largest of their row.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        weight = linear.weight.detach().float()
        scale = weight.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / 127
        self.weight_scale = scale
        self.columns = (weight / scale.unsqueeze(1)).round().to(torch.int8).t()
        self.bias = None if linear.bias is None else linear.bias.detach().float()

    def forward(self, x: Tensor) -> Tensor:
        """(…, in) -> (…, out) in the dtype of ``x``."""
        rows = x.reshape(-1, x.size(-1)).float()
        scale = rows.abs().amax(1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny) / 127
        total = torch._int_mm((rows / scale).round().to(torch.int8), self.columns)
        out = (total * self.weight_scale).mul_(scale)
        if self.bias is not None:
            out += self.bias
        return out.view(*x.shape[:-1], -1).to(x.dtype)


def structural_copy(model: nn.Module, cast: Optional[Callable[[Tensor], Tensor]] = None) -> nn.Module:
    """The model with modules of its own, in evaluation mode, and the same tensors.

    Args:
        cast: applied to each floating-point parameter and buffer, once each, so that tied weights stay tied.
    """
    shared: Dict[int, Any] = {}
    for parameter in model.parameters():
        value: Tensor = parameter
        if cast is not None and parameter.is_floating_point():
            value = nn.Parameter(cast(parameter.detach()), requires_grad=False)
        shared[id(parameter)] = value
    for buffer in model.buffers():
        shared[id(buffer)] = cast(buffer) if cast is not None and buffer.is_floating_point() else buffer
    for module in model.modules():
        dictionary = getattr(module, "dictionary", None)
        shared[id(dictionary)] = dictionary  # large, and nothing to copy
    return copy.deepcopy(model, shared).eval()


def _replace_linears(module: nn.Module, make: Callable[[nn.Linear], nn.Module]) -> None:
    for name, child in module.named_children():
        if type(child) is nn.Linear:  # not a subclass, which may compute something else
            setattr(module, name, make(child))
        else:
            _replace_linears(child, make)


def _copied(model: nn.Module, infer_dtype: Optional[str]) -> nn.Module:
    parameter = next(model.parameters())
    if parameter.device.type != "cpu":
        if infer_dtype == "int8":
            raise ValueError(
                f'--infer-dtype int8: 8-bit products are for CPUs; choose fp32 or bf16 on "{parameter.device}"'
            )
        dtype = None if infer_dtype is None else _FLOATS[infer_dtype]
        return structural_copy(model, None if dtype is None or dtype == parameter.dtype else lambda x: x.to(dtype))
    if infer_dtype is None and parameter.dtype != torch.float32:
        return structural_copy(model)
    result = structural_copy(model, None if parameter.dtype == torch.float32 else Tensor.float)
    if compat.can_pack_weights(torch.float32):
        # on a CPU only the products gain from bfloat16; what is between them stays in float32
        products = torch.bfloat16 if infer_dtype == "bf16" else torch.float32
        packed = compat.can_pack_weights(products)
    else:
        packed = False
    if infer_dtype == "int8":
        _replace_linears(result.decoder, Int8Linear)  # type: ignore[arg-type]
    if packed:
        result.memory_dtype = products  # type: ignore[assignment]  # see members.py: what a document's keys are kept in
        output = getattr(result.decoder, "output_projection", None)
        if type(output) is nn.Linear:
            # as wide as the vocabulary: the softmax, which computes in float32, reads the narrower numbers faster
            result.decoder.output_projection = PackedLinear(output, products, keep_dtype=True)
        _replace_linears(result, lambda linear: PackedLinear(linear, products))
    elif infer_dtype == "bf16":
        logger.warning("--infer-dtype bf16: this processor or torch has no fast bfloat16 products; using float32")
    return result


class InferenceModel:
    """A model's copy for inference, made when first wanted and again when the model has been trained on.

    Args:
        model: one of this project's models; it is only read.
        infer_dtype: "fp32", "bf16", "int8", or None for the format the model has.

    Raises:
        ValueError: an unknown format, or one that the model's device does not have.
    """

    def __init__(self, model: nn.Module, infer_dtype: Optional[str] = None):
        if infer_dtype is not None and infer_dtype not in INFER_DTYPES:
            raise ValueError(f'--infer-dtype "{infer_dtype}": choose {", ".join(INFER_DTYPES)}')
        self.model = model
        self.infer_dtype = infer_dtype
        self._copy: Optional[nn.Module] = None
        self._made_of: List[Tuple[int, int]] = []

    def current(self) -> nn.Module:
        """The copy, of the parameters as they are now."""
        # optimisers and loading change tensors in place, which their version counts, or put others in their place
        now = [(tensor.data_ptr(), tensor._version) for tensor in self.model.parameters()]
        if self._copy is None or now != self._made_of:
            self._copy = _copied(self.model, self.infer_dtype)
            self._made_of = now
        return self._copy
