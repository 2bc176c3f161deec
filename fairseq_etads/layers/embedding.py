"""An embedding layer, and an output layer that can share its embedding table. Gradients may be sparse."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..kernels.embedding_lookup import look_up_embeddings
from ..vocabulary.output import hide_unknown_words


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
