"""Focus-attention by torch's FlexAttention, a compiled kernel that adds the focal bias inside, in float32.

Shapes: B batch, H heads, T query length, S key length, D head width. No tensor of T x S exists, and the products have
the dtype of the keys, so that half precision uses tensor cores. FlexAttention has no dropout of weights, and on CPUs no
backward pass. It has not been run on a GPU yet (docs/gpu-evidence.md).

Saliency-selection has no such form: its gate is a second product of vectors for each pair of words, and FlexAttention's
modifiers only see one score and the elements that they index.
"""

import functools
from typing import Any, Dict, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .focus_columns import SCOPE_FLOOR, Focus

FIRST_TORCH = (2, 6)
"""First version of torch with gradients for tensors that the kernel's bias reads."""
BLOCK = 128
"""Number of queries and of keys in a block; blocks of padding are left out."""
LEAST_WIDTH = 16
"""Smallest width of a head for the compiled kernel."""

_failures: Dict[str, str] = {}
"""Device types where compiling has failed -> reason."""


def version_problem() -> Optional[str]:
    """Tell why this torch has no usable FlexAttention; None if it has."""
    if tuple(int(number) for number in torch.__version__.split(".")[:2]) >= FIRST_TORCH:
        return None
    return f"it needs torch {'.'.join(map(str, FIRST_TORCH))} or newer, and this is torch {torch.__version__}"


def problem(q: Tensor, dropout_p: float) -> Optional[str]:
    """Tell why FlexAttention cannot be used for queries (B, H, T, D) in training; None if it can."""
    if q.device.type != "cuda":
        return f"it has no backward pass on {q.device.type}"
    if q.shape[3] < LEAST_WIDTH:
        return f"its heads need a width of {LEAST_WIDTH} or more, and these have {q.shape[3]}"
    if dropout_p:
        return f"it has no dropout of attention weights, here {dropout_p}"
    return version_problem() or _failures.get(q.device.type)


@functools.cache
def _compiled() -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention)


def _kernel(device_type: str) -> Any:
    """FlexAttention, compiled. On CPUs, where torch 2.13 fails to compile it for changing lengths, it is the plain one,
    and inside ``torch.compile`` that one is compiled with the rest.
    """
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention if device_type == "cpu" or torch.compiler.is_compiling() else _compiled()


def padding_blocks(padding: Tensor) -> Any:
    """Make the block mask of padding (B, S), True at padding: blocks without real tokens are never computed."""
    from torch.nn.attention.flex_attention import BlockMask

    length = padding.shape[1]
    count = -(-length // BLOCK)
    real = F.pad(~padding, (0, count * BLOCK - length)).view(len(padding), count, BLOCK)
    is_full = real.all(dim=2)

    def numbered(chosen: Tensor) -> Tuple[Tensor, Tensor]:
        """Number of the chosen blocks (B, N) for each block of queries, and their indices, the chosen first."""
        indices = chosen.to(torch.int8).argsort(dim=1, descending=True, stable=True).to(torch.int32)
        counts = chosen.sum(dim=1, dtype=torch.int32)
        return (
            counts[:, None, None].expand(-1, 1, count).contiguous(),
            indices[:, None, None].expand(-1, 1, count, -1).contiguous(),
        )

    def is_real(b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return ~padding[b, key]

    return BlockMask.from_kv_blocks(
        *numbered(real.any(dim=2) & ~is_full),
        *numbered(is_full),
        BLOCK_SIZE=BLOCK,
        mask_mod=is_real,
        seq_lengths=(length, length),
    )


def flex_attention(
    q: Tensor, k: Tensor, v: Tensor, focus: Focus, positions: Tensor, padding: Optional[Tensor]
) -> Optional[Tensor]:
    """Compute softmax(q k^T / sqrt(D) + f) v with the focal bias f; gradients reach q, k, v and the focus.

    Args:
        q, k, v: (B, H, S, D), all of one dtype.
        focus: mu, sigma and the factors of the bias, at least float32.
        positions: P (B, S), in tokens.
        padding: (B, S), True at padding. A document of padding only gets zeros.

    Returns:
        (B, H, S, D); None if the kernel cannot be compiled here, which is logged, and :func:`problem` then says so.
    """
    steepness = 2.0 / focus.scope.clamp(min=SCOPE_FLOOR) ** 2
    if focus.strength is not None:
        steepness = steepness * focus.strength
    places, center = positions.to(focus.center), focus.center

    # The kernel may read a tensor with a gradient only once.
    def with_bias(score: Tensor, b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        distance = places[b, key] - center[b, h, query]
        return score - steepness[b, h, query] * (distance * distance)

    from torch._dynamo.exc import TorchDynamoException

    blocks = None if padding is None else padding_blocks(padding)
    try:
        result: Tensor = _kernel(q.device.type)(q, k, v, score_mod=with_bias, block_mask=blocks)
    except TorchDynamoException as error:
        _failures[q.device.type] = f"torch cannot compile it here ({str(error).strip().splitlines()[0]})"
        return None
    return result
