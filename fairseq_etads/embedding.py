"""Word embeddings that read ids beyond the model's vocabulary as the unknown word."""

from torch import Tensor, nn


class VocabularyEmbedding(nn.Embedding):
    """V word vectors; an id from V on (a word of the copy tail, or a slot of a BatchVocab) reads the unknown word's.

    Args:
        weights: an embedding whose table (V, D) and padding index are taken over.
        unk: id of the unknown word.
    """

    def __init__(self, weights: nn.Embedding, unk: int):
        # built on the meta device, as the table that it would initialise is replaced at once
        super().__init__(weights.num_embeddings, weights.embedding_dim, weights.padding_idx, device="meta")
        self.weight = weights.weight
        self.unk = unk

    def forward(self, input: Tensor) -> Tensor:
        """Ids of any shape (…) -> (…, D)."""
        return super().forward(input.masked_fill(input >= self.num_embeddings, self.unk))
