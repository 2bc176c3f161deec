"""fairseq's Transformer layers with the papers' attention instead of the plain one.

The attention modules extend fairseq's ``MultiheadAttention`` and keep its parameter names, so a plain Transformer's
weights load into them. With a mechanism switched off, they compute the same results as fairseq. Tensors are T x B x
d_m, as everywhere in fairseq's Transformer.
"""

import math
from typing import Any, Dict, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from torch import Tensor, nn

from ..attention import attention_weights, saliency_attention
from ..kernels.fused import note_kernel
from ..kernels.precision import at_least_float32
from .attention_probe import GateInputs, Observed
from .beam_state import BeamState, IncrementalState
from .encoder_attention import (
    EncoderAttention,
    FocusAttention,
    attention_dropout,
    focal_options,
    laid_out,
    merge_heads,
    queries_to_beams,
    refuse,
    self_attention_inputs,
    split_heads,
)


class BridgeAttention(Observed, MultiheadAttention):
    """Encoder-decoder attention ("bridge" in ETADS), with or without the saliency gate (section 3.3).

    Args:
        saliency: gate the attention; adds W_h (``gate_q_proj``) and W_s (``gate_k_proj``), without bias.
        gate: the gate's form, one of ``GATES``. The logits of all but the paper's are

            sqrt(D) t_h cos((Q W_h)_h,i, (K W_s)_h,j) + b_h

            with learned t_h (``gate_slope``) and b_h (``gate_level``), which start at 0 (plain attention). The paper's
            plain product of projections grows to hundreds in training, where a sigmoid has no gradient.
    """

    def __init__(self, embed_dim: int, num_heads: int, saliency: bool, gate: str = "sigmoid", **kwargs: Any):
        super().__init__(embed_dim, num_heads, encoder_decoder_attention=True, **kwargs)
        self.gate = gate
        self.gate_q_proj: Optional[nn.Linear] = None
        self.gate_k_proj: Optional[nn.Linear] = None
        if saliency:
            self.gate_q_proj = nn.Linear(embed_dim, embed_dim, bias=False)
            self.gate_k_proj = nn.Linear(embed_dim, embed_dim, bias=False)
            # The gate's logits are not scaled by sqrt(D). Since queries and keys have unit size, small weights keep the
            # gate near one half at first; otherwise it would be saturated.
            nn.init.xavier_uniform_(self.gate_q_proj.weight, gain=1 / math.sqrt(2))
            nn.init.xavier_uniform_(self.gate_k_proj.weight, gain=1 / math.sqrt(2))
        has_slope = saliency and gate != "sigmoid"
        self.gate_slope = nn.Parameter(torch.zeros(num_heads)) if has_slope else None
        self.gate_level = nn.Parameter(torch.zeros(num_heads)) if has_slope else None

    def forward(
        self,
        query: Tensor,
        key: Optional[Tensor],
        value: Optional[Tensor] = None,
        key_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[IncrementalState] = None,
        need_weights: bool = True,
        static_kv: bool = True,
        attn_mask: Optional[Tensor] = None,
        before_softmax: bool = False,
        need_head_weights: bool = False,
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Attend from the summary to the document.

        Args:
            query: queries (T, B, d_m), or (T, B * beam, d_m) with adjacent beams of a document, which share its keys.
            key: encoder states (S, B, d_enc), also used as value; they are not read after the first cached step.
            key_padding_mask: (B, S), True at padding.
            incremental_state: caches the document's projected keys, values and gate keys.
            need_weights: also return the weights that sum to 1, averaged over heads: (B * beam, T, S); see
                :func:`saliency_attention`.
            need_head_weights: return them for each head: (H, B * beam, T, S).
        """
        refuse(self, attn_mask=attn_mask, before_softmax=before_softmax)
        memory = self._project_memory(key, key_padding_mask, incremental_state)
        rows, documents = query.size(1), memory["prev_key"].size(0)
        projected = self.q_proj(query)
        q = split_heads(projected, self.num_heads, documents).to(memory["prev_key"].dtype)
        gate_q = self._gate_queries(projected, documents)
        if gate_q is not None:
            gate_q = gate_q.to(q.dtype)
        if isinstance(incremental_state, BeamState):
            out, weights = self._attend_in_search(q, gate_q, memory, need_head_weights)
        else:
            out, weights = self._attend(q, gate_q, memory, need_weights or need_head_weights)
        out = self.out_proj(merge_heads(out, rows).to(query.dtype))
        if weights is None:
            return out, None
        weights = queries_to_beams(weights, rows)
        return out, weights.transpose(0, 1) if need_head_weights else weights.mean(dim=1)

    def _attend(
        self, q: Tensor, gate_q: Optional[Tensor], memory: Dict[str, Any], need_weights: bool
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Compute attention in training, or step by step as in fairseq.

        Args:
            q: the queries (B, H, T, D).
            gate_q: the gate's queries, or None.
            memory: keys, values and gate keys from :meth:`_project_memory`.

        Returns:
            (B, H, T, D), and the weights (B, H, T, S) if they are needed.
        """
        k, v, mask = memory["prev_key"], memory["prev_value"], memory.get("prev_key_padding_mask")
        if gate_q is not None:
            return self._gated(q, gate_q, memory, need_weights, own_format=False)
        dropout_p = attention_dropout(self)
        if need_weights:
            weights = attention_weights(q, k, mask)
            return torch.matmul(F.dropout(weights, p=dropout_p).to(v.dtype), v), weights
        note_kernel(q, q.shape[3], dropout_p, masked=mask is not None)
        attend = None if mask is None else ~mask[:, None, None, :]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=attend, dropout_p=dropout_p), None

    def _attend_in_search(
        self, q: Tensor, gate_q: Optional[Tensor], memory: Dict[str, Any], need_weights: bool
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Compute attention in a step of this project's search; for arguments and results see :meth:`_attend`.

        Products are in the dtype of the cached keys, for speed. fairseq's layers always request the mean of the weights
        over heads, but the search uses only the last layer's weights, which are requested per head.
        """
        k, v, mask = memory["prev_key"], memory["prev_value"], memory.get("prev_key_padding_mask")
        if gate_q is not None:
            return self._gated(q, gate_q, memory, need_weights, own_format=True)
        # For a few queries the plain product is faster than the fused kernel.
        weights = attention_weights(q, k, mask, own_format=True)
        out = torch.matmul(F.dropout(weights, p=attention_dropout(self)).to(v.dtype), v)
        return out, weights if need_weights else None

    def _gated(
        self, q: Tensor, gate_q: Tensor, memory: Dict[str, Any], need_weights: bool, own_format: bool
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Compute :func:`saliency_attention`, and the weights if they are needed."""
        k, v, gate_k = memory["prev_key"], memory["prev_value"], memory["prev_gate_key"]
        mask, level = memory.get("prev_key_padding_mask"), None
        if self.gate_level is not None:
            level = at_least_float32(self.gate_level)
        if self.observer is not None:
            self.observer.add_gate(GateInputs(q, k, gate_q, gate_k, mask, self.gate, level))
        dropout_p = attention_dropout(self)
        result = saliency_attention(
            q, k, v, gate_q, gate_k, mask, dropout_p, need_weights, own_format, self.gate, level
        )
        return result if isinstance(result, tuple) else (result, None)

    def _gate_queries(self, projected: Tensor, documents: int) -> Optional[Tensor]:
        """Compute the gate's queries (B, H, beam * T, D) from projected queries (T, B * beam, d_m); None without a
        gate.
        """
        if self.gate_q_proj is None:
            return None
        gate_q = self._gate_vectors(self.gate_q_proj(projected), documents)
        if self.gate_slope is not None:
            gate_q = gate_q * (self.gate_slope * self.head_dim**0.5)[:, None, None]
        return gate_q

    def _gate_vectors(self, projected: Tensor, documents: int) -> Tensor:
        """Split vectors (T, B * beam, d_m) into heads (B, H, beam * T, D) of length 1 if the gate uses cosines."""
        vectors = split_heads(projected, self.num_heads, documents)
        return vectors if self.gate_slope is None else F.normalize(at_least_float32(vectors), dim=-1).to(vectors.dtype)

    def _project_memory(
        self, key: Optional[Tensor], key_padding_mask: Optional[Tensor], incremental_state: Optional[IncrementalState]
    ) -> Dict[str, Any]:
        """Return the document's keys, values and gate keys (B, H, S, D), which are projected once and then cached."""
        shared = incremental_state.memory if isinstance(incremental_state, BeamState) else None
        if incremental_state is not None:
            saved = self._get_input_buffer(incremental_state) if shared is None else shared.get(self)
            if saved:
                return saved
        assert key is not None, "the first step needs the encoder's output"
        projected = self.k_proj(key)
        memory: Dict[str, Any] = {
            "prev_key": split_heads(projected, self.num_heads),
            "prev_value": split_heads(self.v_proj(key), self.num_heads),
        }
        if self.gate_k_proj is not None:
            memory["prev_gate_key"] = self._gate_vectors(self.gate_k_proj(projected), projected.size(1))
        # In search, a mask without padding costs time in every step; on a GPU, checking for padding costs even more.
        if key_padding_mask is not None and (shared is None or key_padding_mask.is_cuda or key_padding_mask.any()):
            memory["prev_key_padding_mask"] = key_padding_mask
        if shared is not None:
            # Convert them once to the dtype and layout that the products of every step read.
            dtype = incremental_state.dtype or key.dtype  # type: ignore[union-attr]
            memory = {
                name: x if x.dtype == torch.bool else laid_out(x.to(dtype), name != "prev_value")
                for name, x in memory.items()
            }
            shared[self] = memory
        elif incremental_state is not None:
            self._set_input_buffer(incremental_state, memory)
        return memory

    def reorder_incremental_state(
        self, incremental_state: Optional[IncrementalState], new_order: Tensor
    ) -> Optional[IncrementalState]:
        """Reorder the cached memory; fairseq's version keeps the order when the number of rows stays the same.

        A :class:`BeamState` reorders itself.
        """
        if incremental_state is not None and not isinstance(incremental_state, BeamState):
            saved = self._get_input_buffer(incremental_state)
            for name, value in saved.items():
                saved[name] = value.index_select(0, new_order)
            self._set_input_buffer(incremental_state, saved)
        return incremental_state

    def set_beam_size(self, beam_size: int) -> None:
        """Do nothing: after fairseq's version, calls would read only every beam_size-th document, even in training."""


class SummaryAttention(MultiheadAttention):
    """fairseq's self-attention of the decoder, which reads a :class:`BeamState`'s cached steps without copying them."""

    def forward(
        self,
        query: Tensor,
        key: Optional[Tensor],
        value: Optional[Tensor],
        key_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[IncrementalState] = None,
        need_weights: bool = True,
        static_kv: bool = False,
        attn_mask: Optional[Tensor] = None,
        before_softmax: bool = False,
        need_head_weights: bool = False,
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Run fairseq's forward pass, or with a BeamState attend with a query (1, B * beam, d_m).

        With a BeamState it returns (1, B * beam, d_m) and None.
        """
        if not isinstance(incremental_state, BeamState):
            if incremental_state is None and not need_weights:
                note_kernel(query, self.head_dim, attention_dropout(self), masked=attn_mask is not None)
            if attn_mask is not None and key_padding_mask is not None:
                # torch would combine the masks, too, but it warns of two types of mask and imports sympy to check them.
                hidden = key_padding_mask.repeat_interleave(self.num_heads, 0).unsqueeze(1)  # (B * H, 1, T)
                attn_mask, key_padding_mask = attn_mask.masked_fill(hidden, -math.inf), None  # (B * H, T, T)
            return super().forward(
                query,
                key,
                value,
                key_padding_mask=key_padding_mask,
                incremental_state=incremental_state,
                need_weights=need_weights,
                static_kv=static_kv,
                attn_mask=attn_mask,
                before_softmax=before_softmax,
                need_head_weights=need_head_weights,
            )
        refuse(self, attn_mask=attn_mask, before_softmax=before_softmax, need_head_weights=need_head_weights)
        rows, documents = query.size(1), incremental_state.documents
        q, k, v = (
            split_heads(projected, self.num_heads, documents) for projected in self_attention_inputs(self, query)
        )
        keys, values = incremental_state.remember(self, k, v)
        scores = torch.matmul((q * self.scaling).to(keys.dtype), keys.transpose(-1, -2))  # (B, H, beam, columns)
        weights = at_least_float32(scores).masked_fill_(incremental_state.hidden, -math.inf).softmax(-1)
        out = torch.matmul(F.dropout(weights, p=attention_dropout(self)).to(values.dtype), values)
        return self.out_proj(merge_heads(out, rows).to(query.dtype)), None

    def reorder_incremental_state(
        self, incremental_state: Optional[IncrementalState], new_order: Tensor
    ) -> Optional[IncrementalState]:
        """Reorder the cached state like fairseq; a :class:`BeamState` reorders itself."""
        if isinstance(incremental_state, BeamState):
            return incremental_state
        return super().reorder_incremental_state(incremental_state, new_order)


def _relu_in_place(layer: Any, cfg: Any) -> None:
    """Let ReLU overwrite the output of the layer before it, which no gradient needs."""
    if str(cfg.activation_fn) == "relu" and not cfg.quant_noise.pq:
        layer.activation_fn = torch.relu_


class PlainEncoderLayer(TransformerEncoderLayerBase):
    """fairseq's encoder layer with :class:`EncoderAttention`."""

    def build_self_attention(self, embed_dim: int, cfg: Any) -> EncoderAttention:
        return EncoderAttention(
            embed_dim,
            cfg.encoder.attention_heads,
            dropout=cfg.attention_dropout,
            self_attention=True,
            q_noise=self.quant_noise,
            qn_block_size=self.quant_noise_block_size,
        )


class FocusEncoderLayer(TransformerEncoderLayerBase):
    """fairseq's encoder layer with focus-attention."""

    def __init__(self, cfg: Any):
        super().__init__(cfg)
        _relu_in_place(self, cfg)

    def build_self_attention(self, embed_dim: int, cfg: Any) -> FocusAttention:
        return FocusAttention(
            embed_dim,
            cfg.encoder.attention_heads,
            focal=focal_options(cfg),
            kernel=str(cfg.attention_kernel),
            dropout=cfg.attention_dropout,
            q_noise=self.quant_noise,
            qn_block_size=self.quant_noise_block_size,
        )


class BridgeDecoderLayer(TransformerDecoderLayerBase):
    """fairseq's decoder layer with :class:`BridgeAttention` and :class:`SummaryAttention`."""

    def __init__(self, cfg: Any, saliency: bool):
        self._saliency = saliency  # read by build_encoder_attention, which the base constructor calls
        super().__init__(cfg)
        _relu_in_place(self, cfg)

    def build_self_attention(
        self, embed_dim: int, cfg: Any, add_bias_kv: bool = False, add_zero_attn: bool = False
    ) -> SummaryAttention:
        return SummaryAttention(
            embed_dim,
            cfg.decoder.attention_heads,
            dropout=cfg.attention_dropout,
            add_bias_kv=add_bias_kv,
            add_zero_attn=add_zero_attn,
            self_attention=True,
            q_noise=self.quant_noise,
            qn_block_size=self.quant_noise_block_size,
        )

    def build_encoder_attention(self, embed_dim: int, cfg: Any) -> BridgeAttention:
        return BridgeAttention(
            embed_dim,
            cfg.decoder.attention_heads,
            saliency=self._saliency,
            gate=str(cfg.saliency_gate),
            kdim=cfg.encoder.embed_dim,
            vdim=cfg.encoder.embed_dim,
            dropout=cfg.attention_dropout,
            q_noise=self.quant_noise,
            qn_block_size=self.quant_noise_block_size,
        )
