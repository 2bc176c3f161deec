"""A classifier of pairs of texts from their encoder's vectors."""

import torch
from torch import Tensor, nn


class PairClassifier(nn.Module):
    """Logits of a pair's classes from the vectors u and v: MLP([u; v; |u-v|; u*v]) with two hidden tanh layers.

    Dropout comes before each of its three layers (Li, Zhu, Zhang and Zong 2018).

    Args:
        width: width of u and v.
        hidden: width of the hidden layers.
        classes: number of classes.
    """

    def __init__(self, width: int, hidden: int, classes: int, dropout: float):
        super().__init__()
        sizes = (4 * width, hidden, hidden, classes)
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in zip(sizes, sizes[1:]))
        self.dropout = nn.Dropout(dropout)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Compute logits (N, C) from u and v of N pairs, each (N, W)."""
        x = torch.cat([first, second, (first - second).abs(), first * second], dim=1)  # (N, 4W)
        for layer in self.layers[:-1]:
            x = torch.tanh(layer(self.dropout(x)))
        logits: Tensor = self.layers[-1](self.dropout(x))
        return logits
