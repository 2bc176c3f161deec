"""Look up word vectors in a table that is also the output layer, with half the memory in the backward pass.

Such a table gets two gradients: a dense one from the output layer, and one for the few rows that were looked up.
autograd adds them. A dense second gradient would take as much memory as the table, and time to fill and add it. The
rows of a sparse one are added to the first gradient. Without a dense gradient, however, a sparse one would reach the
optimiser, and most optimisers refuse it. Therefore :func:`expect_dense_gradient` notes on the table that the current
backward pass makes a dense gradient of it, and the lookup, which comes later in the same pass, reads the note.
"""

from typing import Any, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def backward_pass() -> int:
    """Return the number of the backward pass running in this thread, unique in this process; -1 if none is."""
    return int(torch._C._current_graph_task_id())


def expect_dense_gradient(result: Tensor, table: Tensor) -> None:
    """Note in the backward pass of ``result``, a product with the whole ``table``, that it makes a dense gradient."""
    if result.requires_grad:
        result.register_hook(lambda _: setattr(table, "dense_gradient_of", backward_pass()))


class _Lookup(torch.autograd.Function):
    """Looks up rows of a table (V, D) by ids (…); the gradient is sparse if the table already has a dense one."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor, padding_idx: int) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.table, ctx.padding_idx = table, padding_idx
        return F.embedding(ids, table)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Tensor, None, None]:
        (ids,), table = ctx.saved_tensors, ctx.table
        sparse = getattr(table, "dense_gradient_of", -1) == backward_pass()
        if sparse and ids.is_cuda:
            return _sparse_gradient(gradients[0], ids, table, ctx.padding_idx), None, None
        of_table = torch.ops.aten.embedding_backward(gradients[0], ids, len(table), ctx.padding_idx, False, sparse)
        return of_table, None, None


def _sparse_gradient(gradient: Tensor, ids: Tensor, table: Tensor, padding_idx: int) -> Tensor:
    """Return the sparse gradient of the looked-up rows. torch's own function waits for a GPU to count the ids that are
    not padding.
    """
    rows = gradient.flatten(0, -2).masked_fill(ids.flatten()[:, None] == padding_idx, 0)
    return torch.sparse_coo_tensor(ids.flatten()[None], rows, table.shape, check_invariants=False)


def look_up(ids: Tensor, table: Tensor, padding_idx: Optional[int]) -> Tensor:
    """``torch.nn.functional.embedding`` for a table shared with an output layer; see this module.

    A part of a flattened parameter (``--ddp-backend fully_sharded``) and a table in half precision get dense gradients,
    and so does every table inside ``torch.compile``.
    """
    if torch.compiler.is_compiling():
        return F.embedding(ids, table, padding_idx)
    full_precision = table.dtype in (torch.float32, torch.float64) and isinstance(table, nn.Parameter)
    if not (full_precision and table.requires_grad):
        return F.embedding(ids, table, padding_idx)
    found: Tensor = _Lookup.apply(table, ids, -1 if padding_idx is None else padding_idx)
    return found
