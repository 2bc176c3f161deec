"""An embedding layer, and an output layer that can share its embedding table. Gradients may be sparse.

If the table is shared, its gradient is the sum of a dense gradient from the output layer, and a gradient for the
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

from ..vocabulary.output import hide_unknown_words


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


def mark_lookup_table(weight: nn.Parameter) -> None:
    """Mark a weight (V, D) as a lookup table. It is used only to look up rows, so its gradient may be sparse."""
    weight.is_lookup_table = True  # type: ignore[attr-defined]


def is_lookup_table(weight: Tensor) -> bool:
    """Return whether :func:`mark_lookup_table` was called for this weight."""
    return bool(getattr(weight, "is_lookup_table", False))


def set_sparse_gradient(weight: Tensor, sparse: bool) -> None:
    """Set whether the gradient of a weight is sparse, so that it contains only the looked-up rows.

    Lazy optimisers require sparse gradients.
    """
    weight.sparse_gradient = sparse  # type: ignore[attr-defined]


def wants_sparse_gradient(weight: Tensor) -> bool:
    """Return whether :func:`set_sparse_gradient` has requested a sparse gradient for this weight."""
    return bool(getattr(weight, "sparse_gradient", False))


class VocabularyEmbedding(nn.Embedding):
    """An embedding layer for V words.

    All ids from V upwards, which represent slots or words in the copy tail, have the embedding of the unknown word.

    Args:
        weights: the embedding layer that provides the embedding table (V or more rows, D) and the padding index.
        unk: the id of the unknown word.
        known_words: V, the number of known words, or None to use the number of rows in the table.
    """

    is_output_layer = False
    """True if the decoder's output layer uses the same embedding table. The model sets this attribute."""

    def __init__(self, weights: nn.Embedding, unk: int, known_words: Optional[int] = None):
        # Pass a weight, because otherwise the constructor would initialise one. The meta device would also avoid the
        # initialisation, but its first use imports modules, which takes a second.
        sizes = weights.num_embeddings, weights.embedding_dim, weights.padding_idx
        super().__init__(*sizes, _weight=weights.weight.detach())
        self.weight = weights.weight
        self.unk = unk
        self.known_words = weights.num_embeddings if known_words is None else known_words

    def forward(self, input: Tensor) -> Tensor:
        """Return the embeddings (…, D) of the ids in a tensor of any shape (…)."""
        known = hide_unknown_words(input, self.known_words, self.unk)
        sparse = wants_sparse_gradient(self.weight)
        if self.is_output_layer and not sparse and torch.is_grad_enabled():
            return look_up_embeddings(known, self.weight, self.padding_idx)
        return F.embedding(known, self.weight, self.padding_idx, sparse=sparse)


class SharedTableOutput(nn.Module):
    """An output layer that uses the first V = ``known_words`` rows of a larger word embedding table as its weight.

    The bias (V,) is initially None, for no bias.
    """

    bias: Optional[nn.Parameter]

    def __init__(self, weight: nn.Parameter, known_words: int):
        super().__init__()
        self.weight = weight
        self.register_parameter("bias", None)
        self.known_words = known_words

    def forward(self, x: Tensor) -> Tensor:
        """Compute logits (…, V) from states (…, D)."""
        return F.linear(x, self.weight[: self.known_words], self.bias)

    def as_linear(self) -> nn.Linear:
        """Return a linear layer that has the same output but no gradients."""
        linear = nn.Linear(self.weight.shape[1], self.known_words, bias=False, device="meta")
        linear.weight = nn.Parameter(self.weight.detach()[: self.known_words], requires_grad=False)
        if self.bias is not None:
            linear.bias = nn.Parameter(self.bias.detach(), requires_grad=False)
        return linear
