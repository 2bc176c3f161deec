"""The encoder's word vectors with those of neighbouring words, the aggregation of its history, and its gate."""

from typing import List, Sequence

import torch
from torch import Tensor

from .attention import multi_head


def aggregate(kind, states, layers, attentions, heads, projection=None):
    """Compute Aggregation Transformer, equations 15 to 17, from h^1 ... h^N (m, d) of one document. Returns (m, d)."""
    last, count = states[-1], len(states)
    if kind == "add":
        total = last
        for number in range(count - layers, count):  # N-L ... N-1, counted from 1
            total = total + states[number - 1]
        return total
    if kind == "proj":
        assert projection is not None
        rows = []
        for j in range(len(last)):
            joined = torch.cat([states[number - 1][j] for number in range(count - layers, count)])
            rows.append(projection[0] @ joined + projection[1])
        return multi_head(torch.stack(rows), last, attentions[0], heads)
    history = states[count - layers - 1]
    for step, number in enumerate(range(count - layers + 1, count)):
        history = multi_head(history, states[number - 1], attentions[step], heads)
    return multi_head(history, last, attentions[-1], heads)


def encoder_gate(states: Tensor, w_g: Tensor, bias: Tensor) -> Tensor:
    """Compute Gated ES-Trans, equations 4 and 5, from states (m, d) of one document and W_g (d, 2 d)."""
    rows = []
    for state in states:
        gate = torch.sigmoid(w_g @ torch.cat([state, states[-1]]) + bias)
        rows.append(gate * state)
    return torch.stack(rows)


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
