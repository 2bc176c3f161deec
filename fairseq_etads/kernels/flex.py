"""Focus-attention with PyTorch's FlexAttention, a compiled kernel that adds the focal bias internally in float32.

Shapes: B is the batch size, H the number of heads, T the number of queries, S the number of keys, and D the head width.
No T x S tensor is created. Matrix products are computed in the dtype of the keys, so tensor cores can be used in half
precision. FlexAttention does not support dropout of attention weights and has no backward pass on CPUs. This module has
not been run on a GPU yet (docs/gpu.md).

Saliency-selection cannot be computed with FlexAttention. The gate needs a second dot product for each pair of words,
but the modifier functions of FlexAttention can read only a single score and the tensor elements that they index.
"""

import functools
from typing import Any, Dict, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .focus_columns import SCOPE_FLOOR, FocusParameters

FIRST_TORCH = (2, 6)
"""First PyTorch version in which FlexAttention computes gradients of the tensors that determine the bias."""
BLOCK = 128
"""Number of queries and number of keys in a block. Blocks that contain only padding are skipped."""
LEAST_WIDTH = 16
"""Minimum head width that the compiled kernel supports."""

_failures: Dict[str, str] = {}
"""A dictionary that maps device types to the reasons why compilation has failed on them."""


def get_unsupported_version_reason() -> Optional[str]:
    """Return the reason why FlexAttention cannot be used with this version of PyTorch, or None if it can."""
    if tuple(int(number) for number in torch.__version__.split(".")[:2]) >= FIRST_TORCH:
        return None
    return f"it needs torch {'.'.join(map(str, FIRST_TORCH))} or newer, and this is torch {torch.__version__}"


def get_unsupported_input_reason(q: Tensor, dropout_p: float) -> Optional[str]:
    """Return the reason why FlexAttention cannot be used for queries (B, H, T, D) in training, or None if it can."""
    if q.device.type != "cuda":
        return f"it has no backward pass on {q.device.type}"
    if q.shape[3] < LEAST_WIDTH:
        return f"its heads need a width of {LEAST_WIDTH} or more, and these have {q.shape[3]}"
    if dropout_p:
        return f"it has no dropout of attention weights, here {dropout_p}"
    return get_unsupported_version_reason() or _failures.get(q.device.type)


@functools.cache
def _compile_flex_attention() -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention)


def _get_kernel(device_type: str) -> Any:
    """Return the compiled FlexAttention function, or the uncompiled function on CPUs.

    On CPUs, PyTorch 2.13 cannot compile FlexAttention for varying lengths. Inside ``torch.compile``, the uncompiled
    function is also returned, because it is compiled together with the surrounding code.
    """
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention if device_type == "cpu" or torch.compiler.is_compiling() else _compile_flex_attention()


def make_padding_block_mask(padding: Tensor) -> Any:
    """Create the block mask for a padding mask (B, S), True at padding. Blocks without real tokens are skipped."""
    from torch.nn.attention.flex_attention import BlockMask

    length = padding.shape[1]
    count = -(-length // BLOCK)
    real = F.pad(~padding, (0, count * BLOCK - length)).view(len(padding), count, BLOCK)
    is_full = real.all(dim=2)

    def index_chosen_blocks(chosen: Tensor) -> Tuple[Tensor, Tensor]:
        """Return the number of chosen blocks for each block of queries, and all block indices, chosen blocks first."""
        indices = chosen.to(torch.int8).argsort(dim=1, descending=True, stable=True).to(torch.int32)
        counts = chosen.sum(dim=1, dtype=torch.int32)
        return (
            counts[:, None, None].expand(-1, 1, count).contiguous(),
            indices[:, None, None].expand(-1, 1, count, -1).contiguous(),
        )

    def is_real(b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return ~padding[b, key]

    return BlockMask.from_kv_blocks(
        *index_chosen_blocks(real.any(dim=2) & ~is_full),
        *index_chosen_blocks(is_full),
        BLOCK_SIZE=BLOCK,
        mask_mod=is_real,
        seq_lengths=(length, length),
    )


def flex_attention(
    q: Tensor, k: Tensor, v: Tensor, focus: FocusParameters, positions: Tensor, padding: Optional[Tensor]
) -> Optional[Tensor]:
    """Compute softmax(q k^T / sqrt(D) + f) v with the focal bias f.

    The result is differentiable with respect to q, k, v and the tensors in ``focus``.

    Args:
        q, k, v: the queries, keys and values (B, H, S, D), which have the same dtype.
        focus: the centres mu, the scopes sigma and the factors by which the bias is multiplied, in float32 or higher
            precision.
        positions: the positions P (B, S) of the keys, in tokens.
        padding: the padding mask (B, S), True at padding, or None. The output is 0 for a document that consists only of
            padding.

    Returns:
        The attention output (B, H, S, D), or None if the kernel cannot be compiled. If compilation fails, later calls
        of :func:`get_unsupported_input_reason` return the reason.
    """
    steepness = 2.0 / focus.scope.clamp(min=SCOPE_FLOOR) ** 2
    if focus.strength is not None:
        steepness = steepness * focus.strength
    places, center = positions.to(focus.center), focus.center

    # The kernel can read each tensor that requires a gradient only once.
    def add_bias(score: Tensor, b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        distance = places[b, key] - center[b, h, query]
        return score - steepness[b, h, query] * (distance * distance)

    from torch._dynamo.exc import TorchDynamoException

    blocks = None if padding is None else make_padding_block_mask(padding)
    try:
        result: Tensor = _get_kernel(q.device.type)(q, k, v, score_mod=add_bias, block_mask=blocks)
    except TorchDynamoException as error:
        _failures[q.device.type] = f"torch cannot compile it here ({str(error).strip().splitlines()[0]})"
        return None
    return result
