"""Linear maps of neighbouring words' vectors, added to each word's vector at the input of an encoder or decoder.

The input of word t is e_t + sum over k of W_k e_(t+k), with one matrix W_k for each offset k. All W_k start at zero, so
that at first the model equals one without them. A self-attention layer must first learn where a word's neighbours are,
and a small model spends much of a short training on that; here they are available from the first step.
"""

from typing import Sequence

import torch
from torch import Tensor, nn


def encoder_offsets(count: int) -> Sequence[int]:
    """Return the offsets of ``count`` words on either side, nearest first: -1, 1, -2, 2, …"""
    return [sign * distance for distance in range(1, count + 1) for sign in (-1, 1)]


def decoder_offsets(count: int) -> Sequence[int]:
    """Return the offsets of the ``count`` words before a word, nearest first: -1, -2, …"""
    return [-distance for distance in range(1, count + 1)]


class NeighbourInputs(nn.Module):
    """The sum over offsets k of W_k e_(t+k), for each word t.

    Args:
        width: D, the width of word vectors.
        offsets: distances k to the neighbours; negative ones are before the word.
    """

    def __init__(self, width: int, offsets: Sequence[int]):
        super().__init__()
        self.offsets = tuple(offsets)
        self.maps = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in offsets)
        for weight in self.parameters():
            nn.init.zeros_(weight)

    @property
    def reach(self) -> int:
        """Number of preceding words that are needed."""
        return max((-offset for offset in self.offsets), default=0)

    def forward(self, vectors: Tensor, is_padding: Tensor) -> Tensor:
        """Compute the sum (N, T, D) from word vectors (N, T, D) and a padding mask (N, T).

        Padding and positions outside the text, on either side, count as zero vectors.
        """
        vectors = vectors.masked_fill(is_padding.unsqueeze(2), 0)
        length = vectors.size(1)
        total = torch.zeros_like(vectors)
        for offset, linear in zip(self.offsets, self.maps):
            if abs(offset) >= length:
                continue
            first, last = max(-offset, 0), min(length - offset, length)
            total[:, first:last] += linear(vectors[:, first + offset : last + offset])
        return total
