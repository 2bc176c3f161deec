"""Look up word embeddings in a table that is also the output layer. The backward pass needs only half the memory.

The gradient of such a table is the sum of two gradients: a dense gradient from the output layer, and a gradient for the
few rows that were looked up. If the second gradient were also dense, it would need as much memory as the table, and
filling and adding it would take time. If the second gradient is sparse, only its rows are added to the first gradient.
However, without a dense gradient, the sparse gradient would reach the optimiser, and most optimisers do not support
sparse gradients. Therefore, :func:`expect_dense_gradient` marks the table when the backward pass computes a dense
gradient. The backward pass of the lookup, which runs later, reads this mark.
"""

from typing import Any, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def get_backward_pass_id() -> int:
    """Return a number that identifies the backward pass running in this thread, or -1 if none is running."""
    return int(torch._C._current_graph_task_id())


def expect_dense_gradient(result: Tensor, table: Tensor) -> None:
    """Add a hook that marks ``table`` as having a dense gradient when the backward pass reaches ``result``.

    ``result`` must be a matrix product with the whole table.
    """
    if result.requires_grad:
        result.register_hook(lambda _: setattr(table, "dense_gradient_of", get_backward_pass_id()))


class _LookupFunction(torch.autograd.Function):
    """Looks up rows of a table (V, D) by ids (…). The gradient is sparse if the table already has a dense one."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor, padding_idx: int) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.table, ctx.padding_idx = table, padding_idx
        return F.embedding(ids, table)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Tensor, None, None]:
        (ids,), table = ctx.saved_tensors, ctx.table
        sparse = getattr(table, "dense_gradient_of", -1) == get_backward_pass_id()
        if sparse and ids.is_cuda:
            return _make_sparse_gradient(gradients[0], ids, table, ctx.padding_idx), None, None
        of_table = torch.ops.aten.embedding_backward(gradients[0], ids, len(table), ctx.padding_idx, False, sparse)
        return of_table, None, None


def _make_sparse_gradient(gradient: Tensor, ids: Tensor, table: Tensor, padding_idx: int) -> Tensor:
    """Return the sparse gradient of looked-up rows without waiting for a GPU to count ids, as PyTorch does."""
    rows = gradient.flatten(0, -2).masked_fill(ids.flatten()[:, None] == padding_idx, 0)
    return torch.sparse_coo_tensor(ids.flatten()[None], rows, table.shape, check_invariants=False)


def look_up_embeddings(ids: Tensor, table: Tensor, padding_idx: Optional[int]) -> Tensor:
    """Compute ``torch.nn.functional.embedding`` for a table that is shared with an output layer.

    The gradient is always dense in three cases: if the table is part of a flattened parameter (``--ddp-backend
    fully_sharded``), if the table is in half precision, and inside ``torch.compile``.
    """
    if torch.compiler.is_compiling():
        return F.embedding(ids, table, padding_idx)
    full_precision = table.dtype in (torch.float32, torch.float64) and isinstance(table, nn.Parameter)
    if not (full_precision and table.requires_grad):
        return F.embedding(ids, table, padding_idx)
    found: Tensor = _LookupFunction.apply(table, ids, -1 if padding_idx is None else padding_idx)
    return found
