"""Decomposable attention, a model that recognises entailment by comparing aligned words (Parikh et al. 2016)."""

import math
from typing import Any

import torch
from torch import Tensor, nn


class DecomposableAttention(nn.Module):
    """A classifier for pairs of a premise a and a hypothesis b, based on aligned words (Parikh et al. 2016, section 3).

    F, G and H are networks with two linear layers. Each layer is preceded by dropout and followed by ReLU. a_i and b_j
    are projected word embeddings:

        e_ij = F(a_i) · F(b_j)
        β_i = Σ_j softmax_j(e_ij) b_j,  α_j = Σ_i softmax_i(e_ij) a_i
        v_1 = Σ_i G([a_i; β_i]),  v_2 = Σ_j G([b_j; α_j])
        logits = W H([v_1; v_2]) + b

    Args:
        table: the word embedding table, which must have a padding index.
        width: the width of the projected word embeddings and of the layers of F, G and H.
        classes: the number of classes.
        dropout: the dropout probability before each layer of F, G and H.
    """

    def __init__(self, table: nn.Embedding, width: int, classes: int, dropout: float):
        super().__init__()
        self.table = table
        self.pad: Any = table.padding_idx
        self.project = nn.Linear(table.embedding_dim, width, bias=False)
        self.attend = _make_two_layer_perceptron(width, width, dropout)  # F
        self.compare = _make_two_layer_perceptron(2 * width, width, dropout)  # G
        self.aggregate = _make_two_layer_perceptron(2 * width, width, dropout)  # H
        self.classify = nn.Linear(width, classes)

    def forward(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        """Compute the logits (N, classes) of pairs.

        Args:
            premises, hypotheses: the ids of the premises (N, P) and hypotheses (N, Q), padded on either side. Each text
                must contain at least one word.
        """
        a, b = (self.project(self.table(tokens)) for tokens in (premises, hypotheses))  # (N, P, D), (N, Q, D)
        no_a, no_b = (tokens == self.pad for tokens in (premises, hypotheses))
        scores = self.attend(a) @ self.attend(b).transpose(1, 2)  # (N, P, Q)
        to_b = scores.masked_fill(no_b[:, None, :], -math.inf).softmax(dim=2)
        to_a = scores.masked_fill(no_a[:, :, None], -math.inf).softmax(dim=1)
        first = self.compare(torch.cat([a, to_b @ b], dim=2))  # (N, P, D)
        second = self.compare(torch.cat([b, to_a.transpose(1, 2) @ a], dim=2))  # (N, Q, D)
        sums = [x.masked_fill(no[:, :, None], 0).sum(dim=1) for x, no in ((first, no_a), (second, no_b))]
        logits: Tensor = self.classify(self.aggregate(torch.cat(sums, dim=1)))
        return logits


def _make_two_layer_perceptron(inputs: int, width: int, dropout: float) -> nn.Sequential:
    layers = [nn.Dropout(dropout), nn.Linear(inputs, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Dropout(dropout), nn.Linear(width, width), nn.ReLU())
