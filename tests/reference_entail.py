"""Entail-s2s (Li, Zhu, Zhang and Zong 2018) in loops: the model, and reward-augmented maximum likelihood."""

import itertools
import math
from typing import Dict, List, Sequence, Tuple

import reference
import reference_see
import torch
from torch import Tensor


def selective_gate(states: Sequence[Tensor], document: Tensor, w: Tensor, u: Tensor, b: Tensor) -> List[Tensor]:
    """h'_i = h_i * σ(W h_i + U s + b) of each state, a number at a time (Zhou et al. 2017)."""
    gated = []
    for h in states:
        shares = [torch.sigmoid(w[k] @ h + u[k] @ document + b[k]) for k in range(len(h))]
        gated.append(torch.stack([value * share for value, share in zip(h, shares)]))
    return gated


def entail_s2s(w: Dict[str, Tensor], document: List[int], previous: List[int]) -> Tuple[List[Tensor], List[Tensor]]:
    """log P of each known word, and the attention, at each step.

    Args:
        w: weights; "forward", "backward" and "decoder" are those of LSTMs. document: ids of its words and the end
            symbol. previous: ids of the words before each step.
    """
    vectors = [w["E_x"][word] for word in document]
    forward, c_forward = reference_see.read(vectors, w["forward"])  # type: ignore[arg-type]
    backward, c_backward = reference_see.read(vectors[::-1], w["backward"])  # type: ignore[arg-type]
    last = torch.cat([forward[-1], backward[-1]])
    states = [torch.cat(pair) for pair in zip(forward, backward[::-1])]
    states = selective_gate(states, last, w["W_g"], w["U_g"], w["b_g"])
    s = torch.tanh(w["B_s"] @ last + w["b_s"])
    c = torch.tanh(w["B_c"] @ torch.cat([c_forward, c_backward]) + w["b_c"])
    readout = torch.zeros(len(w["W_a"]), dtype=s.dtype)
    found, attentions = [], []
    for word in previous:
        s, c = reference_see.lstm_step(torch.cat([w["E_y"][word], readout]), s, c, *w["decoder"])
        attention = reference.softmax_row([s @ (w["W"] @ h) for h in states])
        context = sum(weight * h for weight, h in zip(attention, states))
        readout = torch.tanh(w["W_a"] @ torch.cat([s, context]))  # type: ignore[list-item]
        logits = torch.stack([row @ readout for row in w["W_o"]])
        found.append(logits - logits.exp().sum().log())
        attentions.append(torch.stack(list(attention)))
    return found, attentions


def edit_distances(length: int, words: int, temperature: float) -> List[float]:
    """q(e) for e = 0 ... L, by going through all texts of L of the V words, which is slow.

    A text at distance e from the reference weighs ((V-1) exp(1))^(-e/τ), and q(e) is the share of all of that distance.
    """
    shares = [0.0] * (length + 1)
    for text in itertools.product(range(words), repeat=length):
        e = sum(word != 0 for word in text)  # the reference is 0 0 ... 0
        shares[e] += ((words - 1) * math.e) ** (-e / temperature)
    return [share / sum(shares) for share in shares]


def raml_weights(rewards: Sequence[float], distances: Sequence[int], temperature: float) -> List[float]:
    """w = exp(r/τ) / exp(-e/τ) of each of a pair's samples, divided by their sum."""
    weights = [math.exp(r / temperature) / math.exp(-e / temperature) for r, e in zip(rewards, distances)]
    return [weight / sum(weights) for weight in weights]
