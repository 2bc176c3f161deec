"""Entail-s2s (Li, Zhu, Zhang and Zong 2018), reward-augmented maximum likelihood, and decomposable attention."""

import itertools
import math
from typing import Dict, List, Sequence, Tuple

import torch
from torch import Tensor

from .parts import lstm_encoder, lstm_step, softmax_row


def selective_gate(states: Sequence[Tensor], document: Tensor, w: Tensor, u: Tensor, b: Tensor) -> List[Tensor]:
    """Compute h'_i = h_i * σ(W h_i + U s + b) of each state, element by element (Zhou et al. 2017)."""
    gated = []
    for h in states:
        shares = [torch.sigmoid(w[k] @ h + u[k] @ document + b[k]) for k in range(len(h))]
        gated.append(torch.stack([value * share for value, share in zip(h, shares)]))
    return gated


def entail_s2s(w: Dict[str, Tensor], document: List[int], previous: List[int]) -> Tuple[List[Tensor], List[Tensor]]:
    """Compute log P of each known word, and the attention, at each step, given the ids of the previous words.

    ``w``: "forward", "backward" and "decoder" belong to LSTMs. ``document``: ids of its words and the end symbol.
    """
    vectors = [w["E_x"][word] for word in document]
    states, last, c = lstm_encoder(vectors, w["forward"], w["backward"])
    states = selective_gate(states, last, w["W_g"], w["U_g"], w["b_g"])
    s = torch.tanh(w["B_s"] @ last + w["b_s"])
    c = torch.tanh(w["B_c"] @ c + w["b_c"])
    readout = torch.zeros(len(w["W_a"]), dtype=s.dtype)
    found, attentions = [], []
    for word in previous:
        s, c = lstm_step(torch.cat([w["E_y"][word], readout]), s, c, *w["decoder"])
        attention = softmax_row([s @ (w["W"] @ h) for h in states])
        context = sum(weight * h for weight, h in zip(attention, states))
        readout = torch.tanh(w["W_a"] @ torch.cat([s, context]))
        logits = torch.stack([row @ readout for row in w["W_o"]])
        found.append(logits - logits.exp().sum().log())
        attentions.append(torch.stack(list(attention)))
    return found, attentions


def edit_distances(length: int, words: int, temperature: float) -> List[float]:
    """Compute q(e) for e = 0 ... L slowly, by enumerating all texts of L of the V words.

    A text at distance e from the reference has the weight ((V-1) exp(1))^(-e/τ).
    """
    shares = [0.0] * (length + 1)
    for text in itertools.product(range(words), repeat=length):
        e = sum(word != 0 for word in text)  # the reference is 0 0 ... 0
        shares[e] += ((words - 1) * math.e) ** (-e / temperature)
    return [share / sum(shares) for share in shares]


def raml_weights(rewards: Sequence[float], distances: Sequence[int], temperature: float) -> List[float]:
    """Compute w = exp(r/τ) / exp(-e/τ) of each of a pair's samples, divided by their sum."""
    weights = [math.exp(r / temperature) / math.exp(-e / temperature) for r, e in zip(rewards, distances)]
    return [weight / sum(weights) for weight in weights]


def decomposable_attention(p, premise, hypothesis):
    """Class probabilities of one pair of ids without padding (Parikh et al. 2016, equations 1 to 5).

    ``p``: "E" word vectors by id, "P" the projection, "F", "G", "H" pairs of W and b, "W" and "b" of the last layer.
    """
    table, project, last, bias = (torch.tensor(p[name]).double() for name in ("E", "P", "W", "b"))
    a, b = ([project @ table[word] for word in words] for words in (premise, hypothesis))
    e = [[_two_layers(p["F"], x) @ _two_layers(p["F"], y) for y in b] for x in a]
    beta = [sum(weight * y for weight, y in zip(softmax_row(row), b)) for row in e]
    alpha = [sum(weight * x for weight, x in zip(softmax_row(column), a)) for column in zip(*e)]
    v_1 = sum(_two_layers(p["G"], torch.cat([x, aligned])) for x, aligned in zip(a, beta))
    v_2 = sum(_two_layers(p["G"], torch.cat([y, aligned])) for y, aligned in zip(b, alpha))
    return [float(share) for share in softmax_row(last @ _two_layers(p["H"], torch.cat([v_1, v_2])) + bias)]


def _two_layers(layers, x):
    """Compute relu(W_2 relu(W_1 x + b_1) + b_2); layers: pairs of W and b."""
    for weight, bias in layers:
        x = torch.relu(torch.tensor(weight).double() @ x + torch.tensor(bias).double())
    return x
