"""Recurrent cells, element by element."""

from typing import List, Sequence, Tuple

import torch
from torch import Tensor


def gru_step(x: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor) -> Tensor:
    """A gated recurrent unit (Cho et al. 2014) with torch's order of gates: reset, update, new. x (D,), h (H,)."""
    size = len(h)
    result = torch.zeros_like(h)
    for i in range(size):
        gates = []
        for row in (i, size + i):
            gates.append(torch.sigmoid(w_ih[row] @ x + b_ih[row] + w_hh[row] @ h + b_hh[row]))
        reset, update = gates
        row = 2 * size + i
        new = torch.tanh(w_ih[row] @ x + b_ih[row] + reset * (w_hh[row] @ h + b_hh[row]))
        result[i] = (1 - update) * new + update * h[i]
    return result


def lstm_step(x: Tensor, h: Tensor, c: Tensor, w_x: Tensor, w_h: Tensor, bias: Tensor) -> Tuple[Tensor, Tensor]:
    """Long short-term memory (Hochreiter and Schmidhuber 1997) with forget gates; torch's order of gates.

    x (D,), h and c (H,) -> the new h and c. Rows of the weights: input gate, forget gate, new value, output gate.
    """
    size = len(h)
    hidden, cell = torch.zeros_like(h), torch.zeros_like(c)
    for i in range(size):
        sums = [w_x[row] @ x + w_h[row] @ h + bias[row] for row in (i, size + i, 2 * size + i, 3 * size + i)]
        take, keep, show = (torch.sigmoid(sums[gate]) for gate in (0, 1, 3))
        cell[i] = keep * c[i] + take * torch.tanh(sums[2])
        hidden[i] = show * torch.tanh(cell[i])
    return hidden, cell


def lstm_states(
    vectors: Sequence[Tensor], weights: Sequence[Tensor], first: Sequence[Tensor] = ()
) -> Tuple[List[Tensor], Tensor]:
    """One direction of an encoder: h of each word, and the last c; ``first``: h and c before, 0 without it."""
    zeros = torch.zeros(weights[1].shape[1], dtype=weights[1].dtype)
    h, c = first or (zeros, zeros)
    states = []
    for vector in vectors:
        h, c = lstm_step(vector, h, c, *weights)
        states.append(h)
    return states, c


def lstm_both_ways(vectors, directions):
    """An LSTM in both directions: [forward; backward] of each vector."""
    (forward, _), (backward, _) = (lstm_states(vectors[::order], w) for order, w in zip((1, -1), directions))
    return [torch.cat(pair) for pair in zip(forward, backward[::-1])]
