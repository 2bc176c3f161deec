"""Attention of the Transformers and of the recurrent models."""

import math
from typing import Any, List, Sequence, Tuple

import torch
from torch import Tensor

from .parts import softmax_row


def multi_head(queries: Tensor, memory: Tensor, weights: Sequence[Tuple[Tensor, Tensor]], heads: int) -> Tensor:
    """Compute MultiHead(Q, K=V) (T, d) from queries (T, d), memory (S, d), and the (W, b) of q, k, v and output."""
    (w_q, b_q), (w_k, b_k), (w_v, b_v), (w_o, b_o) = weights
    width = queries.shape[1] // heads
    rows = []
    for query in queries:
        parts = []
        for h in range(heads):
            part = slice(h * width, (h + 1) * width)
            q = (w_q @ query + b_q)[part]
            keys = [(w_k @ state + b_k)[part] for state in memory]
            values = [(w_v @ state + b_v)[part] for state in memory]
            attention = softmax_row([(q * key).sum() / math.sqrt(width) for key in keys])
            parts.append(sum(weight * value for weight, value in zip(attention, values)))
        rows.append(w_o @ torch.cat(parts) + b_o)
    return torch.stack(rows)


def _focal_logits(q: Tensor, w_p: Tensor, w_g: Tensor, u_c: Tensor, u_d: Tensor) -> Tensor:
    """Compute <u, U_c> and <u, U_d> (2, H, m) of ETADS, equations 5 and 6."""
    heads, width = u_c.shape
    mean = sum(q[i] for i in range(len(q))) / len(q)
    logits = torch.zeros(2, heads, len(q), dtype=q.dtype)
    for i in range(len(q)):
        u = torch.tanh(w_p @ q[i] + w_g @ mean)
        for h in range(heads):
            part = u[h * width : (h + 1) * width]
            logits[0, h, i], logits[1, h, i] = (part * u_c[h]).sum(), (part * u_d[h]).sum()
    return logits


def focal_network(q: Tensor, w_p: Tensor, w_g: Tensor, u_c: Tensor, u_d: Tensor) -> Tuple[Tensor, Tensor]:
    """Compute mu and sigma (H, m) of ETADS, equations 5 and 6.

    q is (m, d_m), W_p and W_g are (d_m, d_m), applied as W x, and U_c and U_d are (H, D).
    """
    center, scope = _focal_logits(q, w_p, w_g, u_c, u_d)
    return len(q) * torch.sigmoid(center), len(q) * torch.sigmoid(scope)


def focal_bias(center: Tensor, scope: Tensor, positions: Tensor) -> Tensor:
    """Compute the bias (T, S) of ETADS, equation 7, from ``center`` and ``scope`` (T,) and positions (S,)."""
    bias = torch.zeros(len(center), len(positions), dtype=torch.float64)
    for i in range(len(center)):
        for j in range(len(positions)):
            distance = positions[j].item() - center[i].item()
            bias[i, j] = -(distance**2) / (scope[i].item() ** 2 / 2)
    return bias


def focus_attention(q: Tensor, k: Tensor, v: Tensor, center: Tensor, scope: Tensor, strength: Any = 1.0) -> Tensor:
    """Compute ETADS, equation 8, with the bias times a number, differentiably.

    q, k and v are (m, D), ``center`` and ``scope`` (m,). Returns (m, D).
    """
    m, width = q.shape
    rows = []
    for i in range(m):
        scores = []
        for j in range(m):
            energy = (q[i] * k[j]).sum() / math.sqrt(width)
            bias = -((j - center[i]) ** 2) / (scope[i] ** 2 / 2)
            scores.append(energy + strength * bias)
        weights = softmax_row(scores)
        rows.append(sum(weight * v[j] for j, weight in enumerate(weights)))
    return torch.stack(rows)


def relative_focal_network(q, w_p, w_g, u_c, u_d, offsets, scopes):
    """focal_network with centres relative to the query's position: offsets o (H,), initial scopes (H,), 0: m / 2.

    mu_i = i + m tanh((o_h + <u, U_c>) / m). sigma is m sigmoid(<u, U_d> + b), where b gives N tokens (at most half of
    the document) for <u, U_d> = 0.
    """
    m = len(q)
    center, scope = torch.zeros(len(u_c), m, dtype=q.dtype), torch.zeros(len(u_c), m, dtype=q.dtype)
    to_center, to_scope = _focal_logits(q, w_p, w_g, u_c, u_d)
    for h in range(len(u_c)):
        share = min(scopes[h] / m, 0.5) if scopes[h] else 0.5
        for i in range(m):
            center[h, i] = i + m * torch.tanh((offsets[h] + to_center[h, i]) / m)
            scope[h, i] = m * torch.sigmoid(to_scope[h, i] + math.log(share / (1 - share)))
    return center, scope


def saliency_attention(q, k, v, gate_q, gate_k, form="sigmoid", level=0.0):
    """ETADS, equations 9 and 10, and other forms of the gate; level is added to its logits.

    q, gate_q (T, D), k, v, gate_k (S, D) -> (T, D), weights (T, S): the softmax, or "normalised": the gated ones.
    """
    rows, all_weights = [], []
    for i in range(len(q)):
        weights = softmax_row([(q[i] * k[j]).sum() / math.sqrt(q.shape[1]) for j in range(len(k))])
        gated = []
        for j in range(len(k)):
            gate = 1.0 if gate_q is None else torch.sigmoid((gate_q[i] * gate_k[j]).sum() + level)
            gated.append((2 * gate if form == "open" else gate) * weights[j])
        if form == "normalised":
            weights = gated = [weight / sum(gated) for weight in gated]
        rows.append(sum(weight * v[j] for j, weight in enumerate(gated)))
        all_weights.append(torch.stack(weights))
    return torch.stack(rows), torch.stack(all_weights)


def additive_scores(query, keys, weight, coverage=None, w_c=None):
    """Compute scores (T, S) of a query (T, A) and keys (S, A): Bahdanau et al. 2014; See et al. 2017, equation 11."""
    scores = torch.zeros(len(query), len(keys), dtype=query.dtype)
    for t in range(len(query)):
        for j in range(len(keys)):
            hidden = query[t] + keys[j]
            if coverage is not None and w_c is not None:
                hidden = hidden + coverage[t, j] * w_c
            scores[t, j] = (weight * torch.tanh(hidden)).sum()
    return scores


def temporal_attention(scores: Tensor) -> Tensor:
    """Compute Nallapati et al., equation 1, with plain exponentials of the scores (T, S). Returns (T, S)."""
    steps, length = scores.shape
    rows = []
    for t in range(steps):
        shares = []
        for j in range(length):
            beta = sum(math.exp(scores[k, j].item()) for k in range(t)) if t else 1.0
            shares.append(math.exp(scores[t, j].item()) / beta)
        rows.append([share / sum(shares) for share in shares])
    return torch.tensor(rows, dtype=torch.float64)


def hierarchical_attention(word: Tensor, sentence: Tensor, sentence_ids: List[int]) -> Tensor:
    """Combine attention to words (T, S) and sentences (T, N): Nallapati et al., section 2.4. Returns (T, S)."""
    rows = []
    for t in range(len(word)):
        products = [word[t, j].item() * sentence[t, number].item() for j, number in enumerate(sentence_ids)]
        rows.append([product / sum(products) for product in products])
    return torch.tensor(rows, dtype=torch.float64)


def sinusoidal_position(place: int, width: int) -> Tensor:
    """Aggregation Transformer, equations 5 and 6, in fairseq's order: all sines before all cosines.

    ``place`` counts from 0. fairseq's wavelengths grow to 10,000 in (width / 2 - 1) steps, the paper's in width / 2.
    """
    half = width // 2
    angles = [place / 10000 ** (i / (half - 1)) for i in range(half)]
    return torch.tensor([*map(math.sin, angles), *map(math.cos, angles)], dtype=torch.float64)
