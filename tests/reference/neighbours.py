"""Inputs of an encoder or decoder: word vectors, and linear maps of the vectors of neighbouring words."""

from typing import List, Sequence

import torch
from torch import Tensor


def neighbour_inputs(vectors: Tensor, maps: Sequence[Tensor], offsets: Sequence[int]) -> Tensor:
    """Compute e_t + sum over k of W_k e_(t+k) (m, d) from the vectors (m, d) of one text and W_k (d, d)."""
    rows: List[Tensor] = []
    for t in range(len(vectors)):
        total = vectors[t]
        for w_k, k in zip(maps, offsets):
            if 0 <= t + k < len(vectors):
                total = total + w_k @ vectors[t + k]
        rows.append(total)
    return torch.stack(rows)
