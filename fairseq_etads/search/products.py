"""Layers of models for inference on a CPU: linear layers with packed weights, and modules that call them."""

import threading
from typing import Any, Callable, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from ..kernels import cpu as kernels
from ..layers.encoder_attention import attention_dropout, merge_heads, self_attention_inputs, split_heads


class PackedLinear(nn.Linear):
    """A linear layer on a CPU with its weight in the layout of the processor's matrix kernels, packed once.

    The weight stays readable, because some of fairseq's attentions read it instead of calling the layer.

    Args:
        dtype: data type of the products.
        out_dtype: data type of the result; None: the input's.
        relu: whether negative results become 0.
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
        self.packed = kernels.pack_weight(weight.detach().to(dtype))
        self.packed_bias = None if bias is None else bias.detach().to(dtype).contiguous()

    def forward(self, x: Tensor) -> Tensor:
        """Compute outputs (…, out) from inputs (…, in)."""
        return self.product(self.inputs(x)).to(self.out_dtype or x.dtype)

    def inputs(self, x: Tensor) -> Tensor:
        """Prepare the inputs of :meth:`product`, in the same way for all layers of this kind."""
        return x.to(self.dtype)

    def product(self, inputs: Tensor) -> Tensor:
        return kernels.packed_linear(inputs, self.packed, self.packed_bias, self.relu)

    def product_into(self, result: Tensor, inputs: Tensor) -> None:
        """Write the product into ``result`` (n, out), a part of a wider tensor."""
        result.copy_(self.product(inputs))


class Int8Linear(nn.Module):
    """A linear layer in 8-bit integers: one scale for each row of the weight, and one for each input vector.

    The products are added in 32-bit integers, so the only error is the rounding of weights to 1/127 of their row's
    largest, and of inputs to 1/127 or 1/63 of their largest (:func:`kernels.int8_levels`).

    Args:
        relu: whether negative results become 0.
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor], relu: bool = False):
        super().__init__()
        weight = weight.detach().float()
        scale = weight.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / 127
        levels = kernels.int8_levels()
        if levels is None:
            raise ValueError("this processor has no 8-bit integer products")
        self.levels = levels
        self.packed = kernels.pack_int8((weight / scale.unsqueeze(1)).round().to(torch.int8), scale)
        self.bias = None if bias is None else bias.detach().float().contiguous()
        self.relu = relu

    def forward(self, x: Tensor) -> Tensor:
        """Compute outputs (…, out) in the dtype of ``x`` (…, in)."""
        rows, largest = self.inputs(x.reshape(-1, x.size(-1)))
        out = kernels.int8_linear(rows, self.packed, self.levels)
        self._rescale(out, largest, out)
        return out.view(*x.shape[:-1], -1).to(x.dtype)

    def inputs(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        """Divide rows (n, in) by their largest absolute numbers (n, 1). Returns both.

        They are the same for all layers of this kind.
        """
        x = x.float()
        # from the minimum and maximum, because torch's norms are several times slower
        largest = torch.maximum(x.amax(1, keepdim=True), -x.amin(1, keepdim=True))
        largest.clamp_(min=torch.finfo(torch.float32).tiny)
        return x / largest, largest

    def product_into(self, result: Tensor, inputs: Tuple[Tensor, Tensor]) -> None:
        """Write the product into ``result`` (n, out), a part of a wider tensor."""
        rows, largest = inputs
        self._rescale(kernels.int8_linear(rows, self.packed, self.levels), largest, result)

    def _rescale(self, product: Tensor, largest: Tensor, result: Tensor) -> None:
        """Compute result (n, out) = product (n, out) times each row's largest number (n, 1), plus the bias."""
        if self.bias is None:
            torch.mul(product, largest, out=result)
        else:
            torch.addcmul(self.bias, product, largest, out=result)
        if self.relu:
            result.clamp_(min=0)


class _ThreadMemory(threading.local):
    """Separate memory for each thread; empty in a copy, and in another process."""

    result: Optional[Tensor] = None

    def __reduce__(self) -> Any:
        return type(self), ()


OUTPUT_BLOCK = 4096
"""Words in a block of :class:`WideLinear`."""


class WideLinear(nn.Module):
    """The output projection, one block of the vocabulary at a time, into memory that every call reuses.

    A new result for each step would be tens of megabytes that the system must first provide and clear, page by page,
    which can cost more than the product. **Each call overwrites the previous call's result in the same thread.**

    Args:
        weight: weight (V, in) of the projection.
        bias: bias (V,), or None.
        make: function that makes a block's layer from its weight and bias: a :class:`PackedLinear` or
            :class:`Int8Linear`.
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor], make: Callable[[Tensor, Optional[Tensor]], nn.Module]):
        super().__init__()
        self.out_features = len(weight)
        self._weight, self._bias, self._make = weight.detach(), None if bias is None else bias.detach(), make
        starts = range(0, len(weight), OUTPUT_BLOCK)
        ends = [min(start + OUTPUT_BLOCK, len(weight)) for start in starts]
        self.ranges = list(zip(starts, ends))
        self.blocks = nn.ModuleList(
            make(weight.detach()[a:b], None if bias is None else bias.detach()[a:b]) for a, b in self.ranges
        )
        self._memory = _ThreadMemory()

    def of_words(self, words: Tensor) -> "WideLinear":
        """Make a layer with outputs (…, C) for the words with ids (C,) only; its weights are packed again."""
        return WideLinear(self._weight[words], None if self._bias is None else self._bias[words], self._make)

    def forward(self, x: Tensor, rows: None = None) -> Tensor:
        """Compute logits (…, V) in float32 from ``x`` (…, in).

        A recurrent decoder passes ``rows``, which is None here: all words.
        """
        x_rows = x.reshape(-1, x.size(-1))
        result = self._memory.result
        if result is None or len(result) < len(x_rows):
            self._memory.result = result = torch.empty(len(x_rows), self.out_features)
        result = result[: len(x_rows)]
        first: Any = self.blocks[0]
        inputs = first.inputs(x_rows)
        for (a, b), block in zip(self.ranges, self.blocks):
            block.product_into(result[:, a:b], inputs)  # type: ignore[operator]
        return result.view(*x.shape[:-1], self.out_features)


class DocumentAttention(nn.Module):
    """fairseq's self-attention over all words at once by calls of its layers; fairseq's own reads their weights.

    Args:
        attention: attention of an encoder layer; its layers are used.
    """

    def __init__(self, attention: MultiheadAttention):
        super().__init__()
        self.num_heads = attention.num_heads
        self.q_proj, self.k_proj, self.v_proj = attention.q_proj, attention.k_proj, attention.v_proj
        self.out_proj = attention.out_proj
        self.dropout_p = attention_dropout(attention)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Optional[Tensor] = None,
        need_weights: bool = False,
        attn_mask: Optional[Tensor] = None,
    ) -> Tuple[Tensor, None]:
        """Attend with ``query`` (S, B, d_m), which is also key and value, and a mask (B, S), True at padding.

        Returns (S, B, d_m) and None.
        """
        if attn_mask is not None or need_weights:
            raise NotImplementedError(f"attn_mask={attn_mask!r}, need_weights={need_weights!r}")
        q, k, v = (split_heads(projected, self.num_heads) for projected in self_attention_inputs(self, query))
        attend = None if key_padding_mask is None else ~key_padding_mask[:, None, None, :]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=attend, dropout_p=self.dropout_p)
        return self.out_proj(merge_heads(out).to(query.dtype)), None
