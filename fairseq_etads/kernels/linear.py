"""Functions for linear layers: training with oneDNN, packed weights for decoding, float32 inside half precision, marks.

For decoding on a CPU, a weight is packed once into the format of the processor's matrix kernels, either as
floating-point numbers or as 8-bit integers. Half precision is not accurate enough for positions in documents and for
some logits, which are computed in float32. For example, bfloat16 rounds positions near 400 to multiples of 2.
"""

import threading
from typing import Any, Callable, Iterator, List, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn.utils.weight_norm import WeightNorm, remove_weight_norm
from torch.optim.optimizer import register_optimizer_step_post_hook
from typing_extensions import TypeGuard  # PyTorch also depends on this package

from . import operators
from .operators import has_faster_onednn_linear, onednn_linear


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


_optimizer_steps = 0


def _count_optimizer_step(*_: Any) -> None:
    global _optimizer_steps
    _optimizer_steps += 1


register_optimizer_step_post_hook(_count_optimizer_step)


def count_optimizer_steps() -> int:
    """Return how many steps torch's optimisers have taken in this process since this module was imported.

    Packed weights must be created again after a step. The version counters of parameters do not record these steps,
    because fairseq's optimisers modify ``parameter.data``.
    """
    return _optimizer_steps


class PackedLinear(nn.Linear):
    """A linear layer for CPUs, with a weight that is packed once for the processor's matrix kernels.

    The unpacked weight (out, in) is kept, because some of fairseq's attention modules read it instead of calling the
    layer. Products are computed in ``dtype``. The output, after a ReLU with ``relu``, has the dtype ``out_dtype`` or,
    if it is None, the input's.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Optional[Tensor],
        dtype: torch.dtype,
        out_dtype: Optional[torch.dtype] = None,
        relu: bool = False,
    ):
        nn.Module.__init__(self)
        self.out_features, self.in_features = weight.shape
        self.weight = weight if isinstance(weight, nn.Parameter) else nn.Parameter(weight, requires_grad=False)
        self.register_parameter("bias", None if bias is None else nn.Parameter(bias, requires_grad=False))
        self.dtype, self.out_dtype, self.relu = dtype, out_dtype, relu
        self.packed = operators.pack_weight(weight.detach().to(dtype))
        self.packed_bias = None if bias is None else bias.detach().to(dtype).contiguous()

    def forward(self, x: Tensor) -> Tensor:
        """Compute outputs (…, out) from inputs (…, in)."""
        return self.compute_product(self.prepare_inputs(x)).to(self.out_dtype or x.dtype)

    def prepare_inputs(self, x: Tensor) -> Tensor:
        """Convert ``x`` to the format that :meth:`compute_product` expects.

        The result can be passed to all layers of this class with the same dtype.
        """
        return x.to(self.dtype)

    def compute_product(self, inputs: Tensor) -> Tensor:
        return operators.packed_linear(inputs, self.packed, self.packed_bias, self.relu)

    def write_product(self, result: Tensor, inputs: Tensor) -> None:
        """Compute the product and write it to ``result`` (n, out), which is a slice of a wider tensor."""
        result.copy_(self.compute_product(inputs))


class Int8Linear(nn.Module):
    """A linear layer that uses 8-bit integers, with a separate scale for each row of the weight and each input vector.

    Products are summed as 32-bit integers, so only quantisation causes errors. Weights are quantised to multiples of
    1/127 of the largest absolute weight in their row. Inputs are quantised to multiples of 1/127 or 1/63 of the largest
    absolute value in the input vector (:func:`operators.find_exact_int8_levels`).
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor], relu: bool = False):
        super().__init__()
        weight = weight.detach().float()
        scale = weight.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / 127
        levels = operators.find_exact_int8_levels()
        if levels is None:
            raise ValueError("this processor does not support 8-bit integer products")
        self.levels = levels
        self.packed = operators.pack_int8((weight / scale.unsqueeze(1)).round().to(torch.int8), scale)
        self.bias = None if bias is None else bias.detach().float().contiguous()
        self.relu = relu

    def forward(self, x: Tensor) -> Tensor:
        """Compute outputs (…, out) from inputs (…, in). The outputs have the dtype of ``x``."""
        rows, largest = self.prepare_inputs(x.reshape(-1, x.size(-1)))
        out = operators.int8_linear(rows, self.packed, self.levels)
        self._rescale_product(out, largest, out)
        return out.view(*x.shape[:-1], -1).to(x.dtype)

    def prepare_inputs(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        """Divide each row of ``x`` (n, in) by its largest absolute value.

        Returns the scaled rows (n, in) and the largest absolute values (n, 1), which all layers of this class can use.
        """
        x = x.float()
        # use the minimum and maximum, because PyTorch's norms are several times slower
        largest = torch.maximum(x.amax(1, keepdim=True), -x.amin(1, keepdim=True))
        largest.clamp_(min=torch.finfo(torch.float32).tiny)
        return x / largest, largest

    def write_product(self, result: Tensor, inputs: Tuple[Tensor, Tensor]) -> None:
        """Compute the product and write it to ``result`` (n, out), which is a slice of a wider tensor."""
        rows, largest = inputs
        self._rescale_product(operators.int8_linear(rows, self.packed, self.levels), largest, result)

    def _rescale_product(self, product: Tensor, largest: Tensor, result: Tensor) -> None:
        """Write ``product`` (n, out) * ``largest`` (n, 1) + bias to ``result``, after a ReLU if it is enabled."""
        if self.bias is None:
            torch.mul(product, largest, out=result)
        else:
            torch.addcmul(self.bias, product, largest, out=result)
        if self.relu:
            result.clamp_(min=0)


class _ThreadBuffers(threading.local):
    """A separate result buffer for each thread. Copies and unpickled objects initially have no buffer."""

    result: Optional[Tensor] = None

    def __reduce__(self) -> Any:
        return type(self), ()


OUTPUT_BLOCK = 4096
"""Number of words in each block of :class:`BlockedOutputProjection`."""


def divide_into_blocks(words: int) -> List[Tuple[int, int]]:
    """Return the start and the end of each block of a vocabulary with the given number of words."""
    return [(start, min(start + OUTPUT_BLOCK, words)) for start in range(0, words, OUTPUT_BLOCK)]


class BlockedOutputProjection(nn.Module):
    """An output projection that processes the vocabulary in blocks and reuses the result tensor.

    If each step created a new tensor, the operating system would have to allocate and clear tens of megabytes, which
    can take longer than the matrix product. **Each call overwrites the result of the previous call in the same
    thread.** The function ``make`` creates a :class:`PackedLinear` or :class:`Int8Linear` from the weight and bias of a
    block.
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor], make: Callable[[Tensor, Optional[Tensor]], nn.Module]):
        super().__init__()
        self.out_features = len(weight)
        self._weight, self._bias, self._make = weight.detach(), None if bias is None else bias.detach(), make
        self.ranges = divide_into_blocks(len(weight))
        self.blocks = nn.ModuleList(
            make(weight.detach()[a:b], None if bias is None else bias.detach()[a:b]) for a, b in self.ranges
        )
        self._memory = _ThreadBuffers()

    def restrict_to_words(self, words: Tensor) -> "BlockedOutputProjection":
        """Create a layer, with newly packed weights, that computes the logits (…, C) of only the given words (C,)."""
        return BlockedOutputProjection(
            self._weight[words], None if self._bias is None else self._bias[words], self._make
        )

    def forward(self, x: Tensor) -> Tensor:
        """Compute the logits (…, V) in float32 from ``x`` (…, in)."""
        x_rows = x.reshape(-1, x.size(-1))
        result = self._memory.result
        if result is None or len(result) < len(x_rows):
            # an ordinary tensor instead of an inference tensor, so that it can also be written outside inference mode
            with torch.inference_mode(False):
                self._memory.result = result = torch.empty(len(x_rows), self.out_features)
        result = result[: len(x_rows)]
        first: Any = self.blocks[0]
        inputs = first.prepare_inputs(x_rows)
        for (a, b), block in zip(self.ranges, self.blocks):
            block.write_product(result[:, a:b], inputs)  # type: ignore[operator]
        return result.view(*x.shape[:-1], self.out_features)
