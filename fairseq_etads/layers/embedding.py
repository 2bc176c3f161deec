"""Layers for word vectors: an embedding layer, and an output layer that shares its table. Gradients may be sparse."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..kernels.lookup import look_up
from ..vocabulary.dictionary import hide_unknown_words


def mark_lookup_table(weight: nn.Parameter) -> None:
    """Declare that a weight (V, D) is only used for looking up rows, so that its gradient may be sparse."""
    weight.is_lookup_table = True  # type: ignore[attr-defined]


def is_lookup_table(weight: Tensor) -> bool:
    """Return whether :func:`mark_lookup_table` was called for this weight."""
    return bool(getattr(weight, "is_lookup_table", False))


def set_sparse_gradient(weight: Tensor, sparse: bool) -> None:
    """Request a sparse gradient, which contains only the looked-up rows, or a dense gradient.

    Lazy optimisers need sparse gradients.
    """
    weight.sparse_gradient = sparse  # type: ignore[attr-defined]


def wants_sparse_gradient(weight: Tensor) -> bool:
    """Return whether an optimiser has requested a gradient of the looked-up rows only."""
    return bool(getattr(weight, "sparse_gradient", False))


class VocabularyEmbedding(nn.Embedding):
    """Embedding of V words.

    All ids from V on, which are words of the copy tail and slots, use the unknown word's vector.

    Attributes:
        is_output_layer: whether the decoder's output layer uses the same table, which the model sets.

    Args:
        weights: embedding from which the table (at least V, D) and the padding index are taken.
        unk: id of the unknown word.
        known_words: V, the number of words, or None to use the number of rows in the table.
    """

    is_output_layer = False

    def __init__(self, weights: nn.Embedding, unk: int, known_words: Optional[int] = None):
        # Pass a weight, because otherwise the constructor would initialise one. The meta device would also avoid the
        # initialisation, but when it is first used, importing modules takes a second.
        sizes = weights.num_embeddings, weights.embedding_dim, weights.padding_idx
        super().__init__(*sizes, _weight=weights.weight.detach())
        self.weight = weights.weight
        self.unk = unk
        self.known_words = weights.num_embeddings if known_words is None else known_words

    def forward(self, input: Tensor) -> Tensor:
        """Look up ids in a tensor of any shape (…). Returns vectors (…, D)."""
        known = hide_unknown_words(input, self.known_words, self.unk)
        sparse = wants_sparse_gradient(self.weight)
        if self.is_output_layer and not sparse and torch.is_grad_enabled():
            return look_up(known, self.weight, self.padding_idx)
        return F.embedding(known, self.weight, self.padding_idx, sparse=sparse)


class SharedTableOutput(nn.Module):
    """An output layer over the first V words of a larger table of word vectors.

    Args:
        weight: the table (at least V, D).
        known_words: V, the number of words.

    Attributes:
        bias: bias (V,), or None (the initial value) for no bias.
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
        """Return a linear layer with the same output, but without gradients."""
        linear = nn.Linear(self.weight.shape[1], self.known_words, bias=False, device="meta")
        linear.weight = nn.Parameter(self.weight.detach()[: self.known_words], requires_grad=False)
        if self.bias is not None:
            linear.bias = nn.Parameter(self.bias.detach(), requires_grad=False)
        return linear
