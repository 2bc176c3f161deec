"""Modules that process the encoder states before the decoder attends to them: layer aggregation and a gate.

As elsewhere in fairseq's Transformer, states have the shape (S, B, d_m).
"""

from typing import Any, Optional, Sequence

import torch
from torch import Tensor, nn

from .encoder_attention import EncoderAttention

AGGREGATIONS = ("none", "add", "proj", "attn")


class LayerAggregation(nn.Module):
    """Combines the states of the last encoder layers (Aggregation Transformer, section 3.4).

    Let h^l be the states of layer l in an encoder with N layers. The history consists of the states of the L
    layers before the last one (L = ``layers``). The aggregated states are::

        add:   h^N + h^(N-L) + ... + h^(N-1)
        proj:  MultiHead(Q=H, K=V=h^N),  H = W [h^(N-L); ...; h^(N-1)] + b                            (eq. 15, 16)
        attn:  MultiHead(Q=H, K=V=h^N),  H = h^(N-L), then H = MultiHead(Q=H, K=V=h^l), l = N-L+1 ... N-1   (eq. 17)

    As in the paper, the attention has no residual connection and no layer norm. "add" has no parameters. "proj" has the
    matrix W, the bias b and one attention module. "attn" has L attention modules.

    Args:
        kind: the type of aggregation, "add", "proj" or "attn".
        layers: L, the number of layers in the history, from 1 to N - 1.
        attention: additional keyword arguments for fairseq's ``MultiheadAttention``.
    """

    def __init__(self, embed_dim: int, num_heads: int, kind: str, layers: int, **attention: Any):
        super().__init__()
        self.kind, self.history_layers = kind, layers
        self.projection: Optional[nn.Linear] = nn.Linear(layers * embed_dim, embed_dim) if kind == "proj" else None
        count = {"add": 0, "proj": 1, "attn": layers}[kind]
        self.attentions = nn.ModuleList(
            EncoderAttention(embed_dim, num_heads, kdim=embed_dim, vdim=embed_dim, **attention) for _ in range(count)
        )

    def forward(self, history: Sequence[Tensor], states: Tensor, padding_mask: Optional[Tensor] = None) -> Tensor:
        """Aggregate the states h^N (S, B, d_m) with the states of the L layers below, from the lowest upwards.

        The padding mask (B, S), if any, is True at padding.
        """
        if self.kind == "add":
            return torch.stack([states, *history]).sum(dim=0)
        if self.projection is not None:
            query, attended = self.projection(torch.cat([*history], dim=-1)), [states]
        else:
            query, attended = history[0], [*history[1:], states]
        for attention, memory in zip(self.attentions, attended):
            query, _ = attention(query, memory, memory, key_padding_mask=padding_mask, need_weights=False)
        return query  # (S, B, d_m)


class EncoderGate(nn.Module):
    """Applies a gate to each encoder state before the decoder reads the states (Gated ES-Trans, equations 4 and 5).

    The gated states are h'_i = g_i * h_i with g_i = sigmoid(W_g [h_i; s] + b). The state s of the last real token,
    which is the end symbol, represents the whole document. W_g is stored as two matrices, so that the product with s is
    computed only once per document.
    """

    def __init__(self, embed_dim: int):
        super().__init__()
        self.state_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.document_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, states: Tensor, padding_mask: Optional[Tensor] = None) -> Tensor:
        """Apply the gate to states (S, B, d_m). The padding mask (B, S), if any, is True at padding."""
        return self.apply_gate(states, select_last_real_state(states, padding_mask))

    def apply_gate(self, states: Tensor, document: Tensor) -> Tensor:
        """Compute g * h for states h (…, d_m). The document vectors s are broadcast to the shape of the states."""
        return states * torch.sigmoid(self.state_proj(states) + self.document_proj(document))


def select_last_real_state(states: Tensor, padding_mask: Optional[Tensor] = None) -> Tensor:
    """Return the state (B, d_m) of the last real token in each document. Padding may be on either side.

    If a document consists only of padding, its first state is returned. The states have the shape (S, B, d_m), and the
    padding mask (B, S), if any, is True at padding.
    """
    if padding_mask is None:
        return states[-1]
    positions = torch.arange(states.size(0), device=states.device)
    last = (positions * ~padding_mask).argmax(dim=1)
    return states[last, torch.arange(states.size(1), device=states.device)]
