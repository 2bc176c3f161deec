"""Entail-s2s (Li, Zhu, Zhang and Zong 2018), reward-augmented maximum likelihood, and decomposable attention."""

import itertools
import math
from typing import Dict, List, Sequence, Tuple

import torch
from torch import Tensor

from .parts import softmax_row
from .recurrent import lstm_states, lstm_step


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
    forward, c_forward = lstm_states(vectors, w["forward"])  # type: ignore[arg-type]
    backward, c_backward = lstm_states(vectors[::-1], w["backward"])  # type: ignore[arg-type]
    last = torch.cat([forward[-1], backward[-1]])
    states = [torch.cat(pair) for pair in zip(forward, backward[::-1])]
    states = selective_gate(states, last, w["W_g"], w["U_g"], w["b_g"])
    s = torch.tanh(w["B_s"] @ last + w["b_s"])
    c = torch.tanh(w["B_c"] @ torch.cat([c_forward, c_backward]) + w["b_c"])
    readout = torch.zeros(len(w["W_a"]), dtype=s.dtype)
    found, attentions = [], []
    for word in previous:
        s, c = lstm_step(torch.cat([w["E_y"][word], readout]), s, c, *w["decoder"])
        attention = softmax_row([s @ (w["W"] @ h) for h in states])
        context = sum(weight * h for weight, h in zip(attention, states))
        readout = torch.tanh(w["W_a"] @ torch.cat([s, context]))  # type: ignore[list-item]
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
    a = [_matvec(p["P"], p["E"][word]) for word in premise]
    b = [_matvec(p["P"], p["E"][word]) for word in hypothesis]
    f_a, f_b = ([_two_layers(p["F"], x) for x in words] for words in (a, b))
    e = [[sum(x * y for x, y in zip(f_a[i], f_b[j])) for j in range(len(b))] for i in range(len(a))]
    beta = [_mean_of(_softmax(e[i]), b) for i in range(len(a))]
    alpha = [_mean_of(_softmax([e[i][j] for i in range(len(a))]), a) for j in range(len(b))]
    v_1, v_2 = [0.0] * len(a[0]), [0.0] * len(a[0])
    for x, aligned in zip(a, beta):
        v_1 = [total + value for total, value in zip(v_1, _two_layers(p["G"], x + aligned))]
    for x, aligned in zip(b, alpha):
        v_2 = [total + value for total, value in zip(v_2, _two_layers(p["G"], x + aligned))]
    return _softmax(_matvec(p["W"], _two_layers(p["H"], v_1 + v_2), p["b"]))


def _two_layers(layers, x):
    """Compute relu(W_2 relu(W_1 x + b_1) + b_2); layers: pairs of W and b."""
    for weight, bias in layers:
        x = [max(value, 0.0) for value in _matvec(weight, x, bias)]
    return x


def _matvec(weight, x, bias=None):
    """Compute W x + b of lists."""
    return [sum(w * v for w, v in zip(row, x)) + (bias[r] if bias else 0.0) for r, row in enumerate(weight)]


def _softmax(values):
    exponents = [math.exp(value - max(values)) for value in values]
    return [value / sum(exponents) for value in exponents]


def _mean_of(weights, vectors):
    return [sum(w * vector[k] for w, vector in zip(weights, vectors)) for k in range(len(vectors[0]))]
