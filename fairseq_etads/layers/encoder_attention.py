"""Self-attention of a document: focus-attention, and fairseq's with less memory for long documents."""

from typing import Any, Dict, Optional, Tuple

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..attention import attention_weights
from ..kernels.dropout import dropout
from ..kernels.focus import focus_attention
from ..kernels.precision import at_least_float32, in_float32, keep_float32
from .attention_probe import Observed
from .beam_state import IncrementalState
from .focal_network import FocalNetwork
from .heads import merge_heads, split_heads


def attention_dropout(module: MultiheadAttention) -> float:
    """Current dropout probability of the attention weights: 0 in evaluation, except with --retain-dropout."""
    active = module.training or module.dropout_module.apply_during_inference
    return module.dropout_module.p if active else 0.0


def refuse(module: nn.Module, **unsupported: Any) -> None:
    """Raise NotImplementedError if one of the arguments is set."""
    for name, value in unsupported.items():
        if value is not None and value is not False:
            raise NotImplementedError(f"{type(module).__name__} does not support {name}={value!r}")


QUERIES_AT_A_TIME = 128
"""Number of queries of a document in a block of :func:`blockwise_attention`."""


def blockwise_attention(
    q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Optional[Tensor], dropout_p: float
) -> Tensor:
    """Compute softmax(q k^T / sqrt(D)) v with dropout on the weights; memory grows with T + S, not T × S.

    Weights are computed for a block of queries at a time, and recomputed in the backward pass with the same dropout.

    Args:
        q: (B, H, T, D).
        k, v: (B, H, S, D).
        key_padding_mask: (B, S), True at padding.

    Returns:
        (B, H, T, D) in the dtype of ``v``.
    """
    pieces = [
        checkpoint(_attend, part, k, v, key_padding_mask, dropout_p, use_reentrant=False, preserve_rng_state=True)
        for part in q.split(QUERIES_AT_A_TIME, dim=2)
    ]
    return torch.cat(pieces, dim=2)


def _attend(q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Optional[Tensor], dropout_p: float) -> Tensor:
    weights = attention_weights(q, k, key_padding_mask)
    return torch.matmul(dropout(weights, dropout_p).to(v.dtype), v)


MANY_WEIGHTS = 2**22
"""Number of weights (B * H * T * S), 16 MiB in float32, from which :class:`EncoderAttention` computes them in blocks.
This takes 0.85 of the time of fairseq's attention for one document of 1,024 tokens, 0.71 for four, and 0.98 for one of
400.

For one document of 1,024 tokens that takes 0.85 of the time of fairseq's attention, for four 0.71, for one of 400 0.98.
"""


class EncoderAttention(MultiheadAttention):
    """fairseq's attention to a document; in training, the memory for a long document grows only with its states.

    torch's fused attention does not have dropout on a CPU, where fairseq's would keep several copies of all weights.
    """

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Optional[Tensor] = None, **options: Any
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Run fairseq's forward pass, which gets its other options by keyword."""
        if not self._is_for_blocks(query, key, **options):
            return super().forward(query, key, value, key_padding_mask, **options)
        q, k, v = (
            split_heads(projected, self.num_heads)
            for projected in (self.q_proj(query), self.k_proj(key), self.v_proj(value))
        )
        out = blockwise_attention(q, k, v, key_padding_mask, attention_dropout(self))
        return self.out_proj(merge_heads(out)), None

    def _is_for_blocks(self, query: Tensor, key: Tensor, need_weights: bool = True, **options: Any) -> bool:
        """Tell whether there are many weights, with dropout and a gradient on a CPU, and no option needs them as a
        whole.
        """
        if need_weights or any(value is not None for value in options.values()):
            return False
        drops = attention_dropout(self) > 0 and torch.is_grad_enabled() and query.device.type == "cpu"
        return drops and query.size(0) * query.size(1) * key.size(0) * self.num_heads >= MANY_WEIGHTS


def is_fairseqs_attention(module: Optional[nn.Module]) -> bool:
    """Tell whether a module computes fairseq's attention by reading its layers' weights, without our mechanisms."""
    return type(module) in (MultiheadAttention, EncoderAttention)


class FocusAttention(Observed, MultiheadAttention):
    """Encoder self-attention with the focal bias (ETADS, section 3.2).

    Args:
        focal: options of :class:`FocalNetwork`; None: the paper's form.
    """

    def __init__(self, embed_dim: int, num_heads: int, focal: Optional[Dict[str, str]] = None, **kwargs: Any):
        super().__init__(embed_dim, num_heads, self_attention=True, **kwargs)
        keep_float32(self.q_proj)  # mu and sigma are computed from the queries
        self.focal = FocalNetwork(embed_dim, num_heads, **(focal or {}))

    def forward(
        self,
        query: Tensor,
        key: Optional[Tensor] = None,
        value: Optional[Tensor] = None,
        key_padding_mask: Optional[Tensor] = None,
        need_weights: bool = False,
        attn_mask: Optional[Tensor] = None,
        incremental_state: Optional[IncrementalState] = None,
    ) -> Tuple[Tensor, None]:
        """Attend with ``query`` (S, B, d_m), which is also key and value.

        Returns (S, B, d_m) and None, because the fused kernel returns no weights.
        """
        refuse(self, attn_mask=attn_mask, need_weights=need_weights, incremental_state=incremental_state)
        q, k, v = in_float32(self.q_proj, query), self.k_proj(query), self.v_proj(query)
        center, scope = self.focal(q.transpose(0, 1), key_padding_mask)
        strength = self.focal.strength
        if self.observer is not None:
            self.observer.add_focus(center, scope, strength, key_padding_mask)
        out = focus_attention(
            split_heads(q, self.num_heads),
            split_heads(k, self.num_heads),
            split_heads(v, self.num_heads),
            center,
            scope,
            key_padding_mask,
            dropout_p=attention_dropout(self),
            strength=None if strength is None else at_least_float32(strength),
        )
        return self.out_proj(merge_heads(out).to(v.dtype)), None
