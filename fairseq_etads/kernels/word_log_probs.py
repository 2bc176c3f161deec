"""Compute the log-probabilities of the words that a loss function needs, without a distribution over all words.

A loss function needs log P of each target word. With label smoothing, it also needs the sum of log P over all words.
With a pointer, it also needs log P of the words in the document. For M summary words and a vocabulary of V words, the
logits are the product of states (M, d) and the transposed output weight (V, d). This module computes the logits in
chunks of columns and stores them once for the backward pass. The softmax, its logarithm and the gradients exist for
only one chunk at a time. A direct computation would store three to five tensors of size M x V.
"""

import math
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .cpu import linear_without_gradient
from .precision import widen_to_float32

CHUNK_ELEMENTS = 2**22
"""Maximum number of logits in a chunk on a CPU. Such a chunk needs 16 MiB in float32 and fits in the CPU's caches."""
GPU_CHUNK_ELEMENTS = 2**26
"""Maximum number of logits in a chunk on a GPU.

Such a chunk needs 256 MiB in float32. Smaller chunks would be slower, because each operation on a chunk launches a
kernel.
"""
NARROWEST_CHUNK = 1024
"""Minimum number of columns in a chunk. Products with fewer columns are slower."""


def _divide_columns(states: Tensor, columns: int) -> Iterator[slice]:
    """Yield slices that divide the columns into chunks, to limit the number of logits (M, chunk) for states (M, d)."""
    most = GPU_CHUNK_ELEMENTS if states.is_cuda else CHUNK_ELEMENTS
    width = max(NARROWEST_CHUNK, most // max(1, len(states)))
    for start in range(0, columns, width):
        yield slice(start, min(start + width, columns))


def _find_columns_in_chunk(columns: Tensor, chunk: slice) -> Tuple[Tensor, Tensor]:
    """Return a mask of the columns inside a chunk, and their positions in the chunk (0 for other columns)."""
    inside = (columns >= chunk.start) & (columns < chunk.stop)
    return inside, (columns - chunk.start).masked_fill(~inside, 0)


def _find_excluded_columns(columns: Sequence[int], chunk: slice) -> List[int]:
    """Return excluded columns relative to a chunk, one by one, because a list would be copied to the GPU."""
    return [column - chunk.start for column in columns if chunk.start <= column < chunk.stop]


class _WordLogProbsFunction(torch.autograd.Function):
    """Computes selected columns of log softmax(states table^T + bias), and the sum over all columns.

    Takes the arguments of :func:`compute_word_log_probs`, for M = N T words. Only one backward pass is possible,
    because it overwrites the logits with their gradient.
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, table: Tensor, bias: Optional[Tensor], columns: Tensor, size: int, without: Any
    ) -> Tuple[Tensor, Tensor]:
        kept: List[Optional[Tensor]] = []
        picked = widen_to_float32(states).new_zeros(columns.shape)
        total = picked.new_zeros(len(states))
        normaliser = picked.new_full((len(states),), -math.inf)
        needs_gradient = any(ctx.needs_input_grad[:3])
        for chunk in _divide_columns(states, size):
            logits = linear_without_gradient(states, table[chunk], None if bias is None else bias[chunk])  # (M, chunk)
            wide = widen_to_float32(logits)
            normaliser = torch.logaddexp(normaliser, wide.logsumexp(dim=1))
            inside, place = _find_columns_in_chunk(columns, chunk)
            picked = torch.where(inside, wide.gather(1, place), picked)
            if without is not None:
                total += wide.sum(dim=1)
                left_out = _find_excluded_columns(without, chunk)
                if left_out:
                    total -= sum(wide[:, column] for column in left_out)
            if needs_gradient:
                kept.append(logits)
        if without is not None:
            total -= (size - len(without)) * normaliser
        ctx.save_for_backward(states, table, columns, normaliser)
        ctx.kept, ctx.size, ctx.without, ctx.has_bias = kept, size, without, bias is not None
        return picked - normaliser[:, None], total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Optional[Tensor], ...]:
        states, table, columns, normaliser = ctx.saved_tensors
        kept, ctx.kept = ctx.kept, None
        if kept is None:
            raise RuntimeError(
                "only one backward pass through the log-probabilities of words is possible, because it "
                "overwrites their logits"
            )
        of_picked, of_total = gradients
        share = of_picked.sum(dim=1)  # factor of the softmax in the gradient
        if ctx.without is not None:
            share = share + (ctx.size - len(ctx.without)) * of_total
        # Keep this sum in float32. Rounding it to half precision after each chunk would lose most contributions from
        # later chunks.
        of_states = torch.zeros_like(widen_to_float32(states))
        of_table = table.new_empty(table.shape)
        of_table[ctx.size :] = 0
        of_bias = states.new_empty(ctx.size) if ctx.has_bias else None
        for number, chunk in enumerate(_divide_columns(states, ctx.size)):
            gradient = widen_to_float32(kept[number])
            kept[number] = None
            gradient.sub_(normaliser[:, None]).exp_().mul_(-share[:, None])  # (M, chunk)
            if ctx.without is not None:
                gradient.add_(of_total[:, None])
                for column in _find_excluded_columns(ctx.without, chunk):
                    gradient[:, column] -= of_total
            inside, place = _find_columns_in_chunk(columns, chunk)
            gradient.scatter_add_(1, place, of_picked.masked_fill(~inside, 0))
            gradient = gradient.to(states.dtype)
            if of_states.dtype == states.dtype:
                of_states.addmm_(gradient, table[chunk])
            else:
                of_states.add_(gradient.mm(table[chunk]))
            torch.mm(gradient.t(), states, out=of_table[chunk])
            if of_bias is not None:
                torch.sum(gradient, dim=0, out=of_bias[chunk])
        return of_states.to(states.dtype), of_table, of_bias, None, None, None


def compute_word_log_probs(
    states: Tensor,
    table: Tensor,
    bias: Optional[Tensor],
    columns: Tensor,
    size: int,
    without: Optional[Sequence[int]] = None,
) -> Tuple[Tensor, Tensor]:
    """Compute selected entries (N, T, K) of log softmax(states table^T + bias), and the sum (N, T) of all entries.

    Both have float32 or higher precision. Only one backward pass through them is possible.

    Args:
        states: the decoder states (N, T, d).
        table: the weight of the output layer, with at least V rows and d columns. Only the first V rows are used.
        bias: the bias of the output layer (V,), or None.
        columns: the indices of the selected columns (N, T, K), int64, below V.
        size: V, the number of words.
        without: the columns to exclude from the sum, or None to return 0 instead of the sum.
    """
    rows = columns.flatten(0, 1)
    dtype, device = states.dtype, states.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    with torch.autocast(device, enabled=False):
        values = (None if x is None else x.to(dtype) for x in (states.flatten(0, 1), table, bias))
        picked, total = _WordLogProbsFunction.apply(*values, rows, size, without)
    return picked.view(columns.shape), total.view(columns.shape[:2])
