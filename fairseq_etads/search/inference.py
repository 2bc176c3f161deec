"""Copies of models for inference: other number formats, faster products; the model itself is left as it is.

A copy has the model's structure and shares its parameters, except where a format needs other numbers. Training the
model on is safe: nothing in it is replaced, and :class:`InferenceModel` renews a copy whose originals have changed.
"""

import copy
import functools
import logging
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

from .. import compat, kernels
from ..layers.linear import is_plain_linear
from ..layers.precision import keeps_float32
from ..vocabulary.embedding import SharedTableOutput
from .choices import INFER_DTYPES
from .penalties import check_choice

logger = logging.getLogger(__name__)

_FLOATS = {"fp32": torch.float32, "bf16": torch.bfloat16}


class PackedLinear(nn.Linear):
    """A linear layer on a CPU whose weight is laid out for the processor's matrix kernels once, not at every call.

    The weight stays readable, because fairseq's encoder layers read it instead of calling the layer.

    Args:
        dtype: of the products.
        out_dtype: of the result; None: that of the input.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Optional[Tensor],
        dtype: torch.dtype,
        out_dtype: Optional[torch.dtype] = None,
    ):
        nn.Module.__init__(self)
        self.out_features, self.in_features = weight.shape
        self.weight = weight if isinstance(weight, nn.Parameter) else nn.Parameter(weight, requires_grad=False)
        self.register_parameter("bias", None if bias is None else nn.Parameter(bias, requires_grad=False))
        self.dtype, self.out_dtype = dtype, out_dtype
        self.packed = kernels.pack_weight(weight.detach().to(dtype))
        self.packed_bias = None if bias is None else bias.detach().to(dtype)

    def forward(self, x: Tensor) -> Tensor:
        """(…, in) -> (…, out)."""
        return kernels.packed_linear(x.to(self.dtype), self.packed, self.packed_bias).to(self.out_dtype or x.dtype)


class Int8Linear(nn.Module):
    """A linear layer in 8-bit integers: one scale for each row of the weight, and one for each input vector.

    The products are added in 32-bit integers, so the only error is the rounding of weights and inputs to 1/127 of the
    largest of their row; without VNNI instructions, inputs are rounded to 1/63.
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor]):
        super().__init__()
        weight = weight.detach().float()
        self.weight_scale = weight.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / 127
        rounded = (weight / self.weight_scale.unsqueeze(1)).round().to(torch.int8)
        self.columns = rounded.t()
        self.packed = kernels.pack_fbgemm(rounded, self.weight_scale) if kernels.int8_kernel() == "fbgemm" else None
        self.bias = None if bias is None else bias.detach().float()

    def forward(self, x: Tensor) -> Tensor:
        """(…, in) -> (…, out) in the dtype of ``x``."""
        rows = x.reshape(-1, x.size(-1)).float()
        largest = rows.abs().amax(1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
        if self.packed is not None:
            out = kernels.fbgemm_linear(rows / largest, self.packed).mul_(largest)
        else:
            scale = largest / 127
            total = torch._int_mm((rows / scale).round().to(torch.int8), self.columns)
            out = (total * self.weight_scale).mul_(scale)
        if self.bias is not None:
            out += self.bias
        return out.view(*x.shape[:-1], -1).to(x.dtype)


class _ThreadMemory(threading.local):
    """Memory that each thread has for itself; empty in a copy, and in another process."""

    result: Optional[Tensor] = None

    def __reduce__(self) -> Any:
        return type(self), ()


OUTPUT_BLOCK = 4096
"""Words in a block of :class:`WideLinear`."""


class WideLinear(nn.Module):
    """The output projection, a block of the vocabulary at a time, into memory that every call uses again.

    A fresh result for each step would be tens of megabytes that the system must first provide and clear, page by page;
    that can cost more than the product. **Each call overwrites the result of the one before in the same thread.**

    Args:
        make: makes the layer of one block from its weight and bias.
    """

    def __init__(self, linear: nn.Linear, make: Callable[[Tensor, Optional[Tensor]], nn.Module]):
        super().__init__()
        self.out_features = linear.out_features
        starts = range(0, linear.out_features, OUTPUT_BLOCK)
        ends = [min(start + OUTPUT_BLOCK, linear.out_features) for start in starts]
        self.ranges = list(zip(starts, ends))
        bias = linear.bias
        self.blocks = nn.ModuleList(
            make(linear.weight.detach()[a:b], None if bias is None else bias.detach()[a:b]) for a, b in self.ranges
        )
        self._memory = _ThreadMemory()

    def forward(self, x: Tensor) -> Tensor:
        """(…, in) -> (…, V) in float32."""
        rows = x.reshape(-1, x.size(-1))
        result = self._memory.result
        if result is None or len(result) < len(rows):
            self._memory.result = result = torch.empty(len(rows), self.out_features)
        result = result[: len(rows)]
        for (a, b), block in zip(self.ranges, self.blocks):
            result[:, a:b] = block(rows)
        return result.view(*x.shape[:-1], self.out_features)


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
    result = copy.deepcopy(model, shared)
    result.eval()  # returns nothing for a model that fairseq has prepared for inference
    return result


def _replace_linears(module: nn.Module, make: Callable[[str, nn.Linear], nn.Module]) -> None:
    """Put ``make(name, layer)`` in the place of each linear layer inside that has more than one output."""
    for name, child in module.named_children():
        if not is_plain_linear(child):  # nor a subclass, which may compute something else
            _replace_linears(child, make)
        elif child.out_features > 1:
            setattr(module, name, make(name, child))


@functools.lru_cache(maxsize=None)
def _say(level: int, infer_dtype: Optional[str], what: str) -> None:
    """Log once in this process how the products of a format are computed."""
    logger.log(level, f"--infer-dtype {infer_dtype}: {what}" if infer_dtype else f"generation: {what}")


_INT8_KERNELS = {"vnni": "torch's 8-bit integer products with VNNI", "fbgemm": "FBGEMM's 8-bit integer products"}


def _cpu_products(infer_dtype: Optional[str]) -> Tuple[torch.dtype, bool, bool]:
    """The format of products on this processor, whether weights are packed, and whether the decoder's are int8."""
    has_int8 = infer_dtype == "int8" and kernels.int8_kernel() is not None
    has_bfloat16 = infer_dtype == "bf16" and kernels.can_pack_weights(torch.bfloat16)
    for wanted, there, name in (("int8", has_int8, "8-bit integer"), ("bf16", has_bfloat16, "bfloat16")):
        if infer_dtype == wanted and not there:
            _say(logging.WARNING, wanted, f"this processor or torch has no fast {name} products; using float32")
    dtype = torch.bfloat16 if has_bfloat16 else torch.float32
    packed = kernels.can_pack_weights(dtype)
    kernel = f"{'packed ' if packed else ''}{str(dtype).split('.')[1]} products{' of oneDNN' if packed else ''}"
    if has_int8:
        kernel = f"{_INT8_KERNELS[str(kernels.int8_kernel())]} in the decoder, {kernel} in the encoder"
    _say(logging.INFO, infer_dtype, kernel)
    return dtype, packed, has_int8


def _copy_for_cpu(model: Any, infer_dtype: Optional[str]) -> nn.Module:
    """A copy in float32 except for its products, which alone gain from narrower numbers on a CPU."""
    parameter = next(model.parameters())
    if infer_dtype is None and parameter.dtype != torch.float32:
        return structural_copy(model)
    result: Any = structural_copy(model, None if parameter.dtype == torch.float32 else Tensor.float)
    products, packed, int8 = _cpu_products(infer_dtype)

    def pack(name: str, linear: nn.Linear) -> nn.Module:
        if keeps_float32(linear):
            return PackedLinear(linear.weight, linear.bias, torch.float32)
        # what the first feed-forward layer returns stays in the products' format for the second
        out = {"fc1": products, "fc2": torch.float32}.get(name)
        return PackedLinear(linear.weight, linear.bias, products, out)

    output = getattr(result.decoder, "output_projection", None)
    if isinstance(output, SharedTableOutput):
        output = result.decoder.output_projection = output.as_linear()
    if int8:
        if is_plain_linear(output):
            result.decoder.output_projection = WideLinear(output, Int8Linear)
        _replace_linears(result.decoder, lambda _, linear: Int8Linear(linear.weight, linear.bias))
    elif packed and is_plain_linear(output):
        result.decoder.output_projection = WideLinear(output, lambda w, b: PackedLinear(w, b, products, products))
    if packed:
        result.memory_dtype = products
        _replace_linears(result, pack)
    return result


def _inference_copy(model: nn.Module, infer_dtype: Optional[str]) -> nn.Module:
    """A copy in the format wanted, on the model's device."""
    parameter = next(model.parameters())
    if parameter.device.type == "cpu":
        return _copy_for_cpu(model, infer_dtype)
    if infer_dtype == "int8":
        raise ValueError(f"--infer-dtype int8: for CPUs only; choose fp32 or bf16 on {parameter.device}")
    dtype = parameter.dtype if infer_dtype is None else _FLOATS[infer_dtype]
    return structural_copy(model, None if dtype == parameter.dtype else lambda x: x.to(dtype))


class InferenceModel:
    """A model and its copy for inference, which is made when first needed and again after the model has changed.

    Several threads may use the one copy at once: a forward pass changes nothing in it, except for memory that each
    thread has for itself (:class:`WideLinear`). Pickled or deep-copied, this is the model alone, because packed
    weights cannot be read back; the copy is made anew where it is needed.

    Args:
        model: one of this project's models; it is only read.
        infer_dtype: "fp32", "bf16", "int8", or None for the format the model has.

    Raises:
        ValueError: an unknown format, or, when the copy is made, one that the model's device does not have.
    """

    def __init__(self, model: nn.Module, infer_dtype: Optional[str] = None):
        if infer_dtype is not None:
            check_choice("--infer-dtype", infer_dtype, INFER_DTYPES)
        self.model = model
        self.infer_dtype = infer_dtype
        self._forget_copy()

    def _forget_copy(self) -> None:
        self._lock = threading.Lock()  # so that threads that begin together make one copy, and not one each
        self._copy: Optional[nn.Module] = None
        self._made_of: Optional[Tuple[int, List[Tuple[int, int]]]] = None  # the state of the parameters at that time

    def __getstate__(self) -> Dict[str, Any]:
        return {"model": self.model, "infer_dtype": self.infer_dtype}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget_copy()

    def current(self) -> nn.Module:
        """The copy, made of the parameters as they are now."""
        # loading changes a tensor in place, which its version counts, or puts another in its place
        versions = [(tensor.data_ptr(), tensor._version) for tensor in self.model.parameters()]
        now = (compat.optimizer_steps(), versions)
        with self._lock:
            if self._copy is None or now != self._made_of:
                self._copy = _inference_copy(self.model, self.infer_dtype)
                self._made_of = now
            return self._copy
