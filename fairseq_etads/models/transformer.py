"""The Transformer family: attention modules, layers, encoder, decoder, and one model class for all presets.

The attention modules extend fairseq's ``MultiheadAttention`` and keep the names of its parameters, so they can load the
weights of a plain Transformer. If all mechanisms are switched off, the results are the same as in fairseq. Unless
stated otherwise, tensors have the shape (T, B, d_m), as in fairseq's Transformer.
"""

import itertools
import math
from typing import Any, Dict, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import (
    TransformerConfig,
    TransformerDecoderBase,
    TransformerEncoderBase,
    TransformerModelBase,
)
from fairseq.modules import MultiheadAttention
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from torch import Tensor, nn

from ..attention import attention_weights, saliency_attention
from ..data.initial_values import compute_word_probabilities, initialise_embeddings_from_text, load_word_vectors
from ..kernels.beam_state import BeamState, IncrementalState
from ..kernels.linear import replace_linears_with_onednn, widen_to_float32
from ..kernels.operators import warn_without_fused_kernel
from ..layers.attention_probe import GateInputs, ObservableAttention
from ..layers.decoder_output import DecoderOutput, NetOutput, PointingDecoder, WordRequest
from ..layers.embedding import SharedTableOutput, VocabularyEmbedding
from ..layers.encoder import (
    EncoderAttention,
    EncoderGate,
    FocusAttention,
    LayerAggregation,
    check_unsupported_arguments,
    get_attention_dropout,
    make_contiguous,
    merge_heads,
    move_beams_to_rows,
    project_self_attention_inputs,
    remove_shared_entries,
    replace_with_compact_dropout,
    restore_shared_entries,
    share_sublayers,
    split_heads,
)
from ..layers.pointer import Pointer
from ..vocabulary.dictionary import count_known_words, remove_copy_tail
from .common import (
    SummarizationModel,
    check_factor_count,
    compute_position_limit,
    convert_options_to_namespace,
    make_factor_tables,
    parse_factors,
    register_presets,
)
from .transformer_options import (
    PRESETS,
    FlatTransformerConfig,
    SummarizationTransformerConfig,
    check_transformer_options,
    parse_layer_numbers,
)


class BridgeAttention(ObservableAttention, MultiheadAttention):
    """Cross-attention from the decoder to the encoder (called "bridge" in ETADS) with an optional saliency gate.

    Section 3.3 of the paper describes the gate.

    Args:
        saliency: whether to gate the attention. The gate has the weights W_h (``gate_q_proj``) and W_s
            (``gate_k_proj``), both without a bias.
        gate: the variant of the gate, one of ``GATES``. In the paper's variant, the gate's logits are plain products of
            projections. During training, these products grow to several hundred, so the gradient of the sigmoid
            vanishes. In all other variants, the logits are

            sqrt(D) t_h cos((Q W_h)_h,i, (K W_s)_h,j) + b_h

            with the learned parameters t_h (``gate_slope``) and b_h (``gate_level``). Both are initialised to 0, which
            is equivalent to plain attention.
    """

    def __init__(self, embed_dim: int, num_heads: int, saliency: bool, gate: str = "sigmoid", **kwargs: Any):
        super().__init__(embed_dim, num_heads, encoder_decoder_attention=True, **kwargs)
        self.gate = gate
        self.gate_q_proj: Optional[nn.Linear] = None
        self.gate_k_proj: Optional[nn.Linear] = None
        if saliency:
            self.gate_q_proj = nn.Linear(embed_dim, embed_dim, bias=False)
            self.gate_k_proj = nn.Linear(embed_dim, embed_dim, bias=False)
            # The gate's logits are not divided by sqrt(D). The components of queries and keys have a size of about 1,
            # so with small weights the gate is initially close to one half. With larger weights, it would be saturated.
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
        """Compute attention from the states of the summary, (T, B, d_m) or (T, B * beam, d_m), to the source document.

        Args:
            key: the encoder states (S, B, d_enc), which are also used as values. With a cache, they are read only in
                the first step. The beams of a document are adjacent in ``query`` and share its keys.
            key_padding_mask: the padding mask (B, S), True at padding.
            incremental_state: a cache of the document's projected keys, values and gate keys.
            need_weights: whether to return the attention weights averaged over heads, (B * beam, T, S). The weights sum
                to 1 over the document; see :func:`saliency_attention`.
            need_head_weights: whether to return the weights of each head instead, (H, B * beam, T, S).
        """
        check_unsupported_arguments(self, attn_mask=attn_mask, before_softmax=before_softmax)
        memory = self._project_memory(key, key_padding_mask, incremental_state)
        rows, documents = query.size(1), memory["prev_key"].size(0)
        projected = self.q_proj(query)
        q = split_heads(projected, self.num_heads, documents).to(memory["prev_key"].dtype)
        gate_q = self._compute_gate_queries(projected, documents)
        if gate_q is not None:
            gate_q = gate_q.to(q.dtype)
        if isinstance(incremental_state, BeamState):
            out, weights = self._attend_in_search(q, gate_q, memory, need_head_weights)
        else:
            out, weights = self._attend(q, gate_q, memory, need_weights or need_head_weights)
        out = self.out_proj(merge_heads(out, rows).to(query.dtype))
        if weights is None:
            return out, None
        weights = move_beams_to_rows(weights, rows)
        return out, weights.transpose(0, 1) if need_head_weights else weights.mean(dim=1)

    def _attend(
        self, q: Tensor, gate_q: Optional[Tensor], memory: Dict[str, Any], need_weights: bool
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Compute the heads' outputs (B, H, T, D) and, if needed, the attention weights (B, H, T, S)."""
        k, v, mask = memory["prev_key"], memory["prev_value"], memory.get("prev_key_padding_mask")
        if gate_q is not None:
            return self._attend_with_gate(q, gate_q, memory, need_weights, own_format=False)
        dropout_p = get_attention_dropout(self)
        if need_weights:
            weights = attention_weights(q, k, mask)
            return torch.matmul(F.dropout(weights, p=dropout_p).to(v.dtype), v), weights
        warn_without_fused_kernel(q, q.shape[3], dropout_p, masked=mask is not None)
        attend = None if mask is None else ~mask[:, None, None, :]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=attend, dropout_p=dropout_p), None

    def _attend_in_search(
        self, q: Tensor, gate_q: Optional[Tensor], memory: Dict[str, Any], need_weights: bool
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Compute attention for one step of this project's search. The arguments and results are as in :meth:`_attend`.

        For speed, matrix products are computed in the dtype of the cached keys. fairseq's layers always request
        attention weights averaged over heads. The search ignores this request, because it uses only the weights of the
        individual heads in the last layer.
        """
        k, v, mask = memory["prev_key"], memory["prev_value"], memory.get("prev_key_padding_mask")
        if gate_q is not None:
            return self._attend_with_gate(q, gate_q, memory, need_weights, own_format=True)
        # With few queries, the plain product is faster than the fused kernel.
        weights = attention_weights(q, k, mask, own_format=True)
        out = torch.matmul(F.dropout(weights, p=get_attention_dropout(self)).to(v.dtype), v)
        return out, weights if need_weights else None

    def _attend_with_gate(
        self, q: Tensor, gate_q: Tensor, memory: Dict[str, Any], need_weights: bool, own_format: bool
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Call :func:`saliency_attention`. Return its output and, if requested, the attention weights."""
        k, v, gate_k = memory["prev_key"], memory["prev_value"], memory["prev_gate_key"]
        mask, level = memory.get("prev_key_padding_mask"), None
        if self.gate_level is not None:
            level = widen_to_float32(self.gate_level)
        if self.observer is not None:
            self.observer.receive_gate_inputs(GateInputs(q, k, gate_q, gate_k, mask, self.gate, level))
        dropout_p = get_attention_dropout(self)
        result = saliency_attention(
            q, k, v, gate_q, gate_k, mask, dropout_p, need_weights, own_format, self.gate, level
        )
        return result if isinstance(result, tuple) else (result, None)

    def _compute_gate_queries(self, projected: Tensor, documents: int) -> Optional[Tensor]:
        """Compute the gate's queries (B, H, beam * T, D) from queries (T, B * beam, d_m), or None without a gate."""
        if self.gate_q_proj is None:
            return None
        gate_q = self._split_gate_vectors(self.gate_q_proj(projected), documents)
        if self.gate_slope is not None:
            gate_q = gate_q * (self.gate_slope * self.head_dim**0.5)[:, None, None]
        return gate_q

    def _split_gate_vectors(self, projected: Tensor, documents: int) -> Tensor:
        """Split vectors (T, B * beam, d_m) into heads (B, H, beam * T, D). Normalise them if the gate uses cosines."""
        vectors = split_heads(projected, self.num_heads, documents)
        return vectors if self.gate_slope is None else F.normalize(widen_to_float32(vectors), dim=-1).to(vectors.dtype)

    def _project_memory(
        self, key: Optional[Tensor], key_padding_mask: Optional[Tensor], incremental_state: Optional[IncrementalState]
    ) -> Dict[str, Any]:
        """Return the document's keys, values and gate keys (B, H, S, D). In a search, they are cached."""
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
            memory["prev_gate_key"] = self._split_gate_vectors(self.gate_k_proj(projected), projected.size(1))
        # In a search, an unneeded mask costs time in every step. On a GPU, checking for padding would cost even more.
        if key_padding_mask is not None and (shared is None or key_padding_mask.is_cuda or key_padding_mask.any()):
            memory["prev_key_padding_mask"] = key_padding_mask
        if shared is not None:
            # Convert the tensors once to the dtype and memory layout that the products in all steps use.
            dtype = incremental_state.dtype or key.dtype  # type: ignore[union-attr]
            memory = {
                name: x if x.dtype == torch.bool else make_contiguous(x.to(dtype), name != "prev_value")
                for name, x in memory.items()
            }
            shared[self] = memory
        elif incremental_state is not None:
            self._set_input_buffer(incremental_state, memory)
        return memory

    def reorder_incremental_state(
        self, incremental_state: Optional[IncrementalState], new_order: Tensor
    ) -> Optional[IncrementalState]:
        """Reorder the cached keys and values. A :class:`BeamState` reorders itself.

        fairseq's method does not change the order if the number of rows stays the same.
        """
        if incremental_state is not None and not isinstance(incremental_state, BeamState):
            saved = self._get_input_buffer(incremental_state)
            for name, value in saved.items():
                saved[name] = value.index_select(0, new_order)
            self._set_input_buffer(incremental_state, saved)
        return incremental_state

    def set_beam_size(self, beam_size: int) -> None:
        """Do nothing. With fairseq's method, attention would read only every ``beam_size``-th document."""


class DecoderSelfAttention(MultiheadAttention):
    """fairseq's decoder self-attention, which can also read a :class:`BeamState` without copying it."""

    takes_joint_projection = True
    """True if an inference copy can merge the projections (see :func:`project_self_attention_inputs`)."""

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
        """Run fairseq's forward pass. With a :class:`BeamState`, compute attention for one step of the search instead.

        In this case, ``query`` has the shape (1, B * beam, d_m), and the result is a tensor of the same shape and None.
        """
        if not isinstance(incremental_state, BeamState):
            if incremental_state is None and not need_weights:
                warn_without_fused_kernel(
                    query, self.head_dim, get_attention_dropout(self), masked=attn_mask is not None
                )
            if attn_mask is not None and key_padding_mask is not None:
                # PyTorch would also combine the masks, but it would warn about their different types and import sympy.
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
        check_unsupported_arguments(
            self, attn_mask=attn_mask, before_softmax=before_softmax, need_head_weights=need_head_weights
        )
        rows, documents = query.size(1), incremental_state.documents
        q, k, v = (
            split_heads(projected, self.num_heads, documents)
            for projected in project_self_attention_inputs(self, query)
        )
        keys, values = incremental_state.append_keys_and_values(self, k, v)
        scores = torch.matmul((q * self.scaling).to(keys.dtype), keys.transpose(-1, -2))  # (B, H, beam, columns)
        weights = widen_to_float32(scores).masked_fill_(incremental_state.hidden, -math.inf).softmax(-1)
        out = torch.matmul(F.dropout(weights, p=get_attention_dropout(self)).to(values.dtype), values)
        return self.out_proj(merge_heads(out, rows).to(query.dtype)), None

    def reorder_incremental_state(
        self, incremental_state: Optional[IncrementalState], new_order: Tensor
    ) -> Optional[IncrementalState]:
        """Reorder the cached state with fairseq's method. A :class:`BeamState` reorders itself."""
        if isinstance(incremental_state, BeamState):
            return incremental_state
        return super().reorder_incremental_state(incremental_state, new_order)


def _use_relu_in_place(layer: Any, cfg: Any) -> None:
    """Apply ReLU in place. The backward pass does not need the output of the preceding linear layer."""
    if str(cfg.activation_fn) == "relu" and not cfg.quant_noise.pq:
        layer.activation_fn = torch.relu_


class SummarizationEncoderLayer(TransformerEncoderLayerBase):
    """fairseq's encoder layer with focus-attention or, without ``focus``, with :class:`EncoderAttention`."""

    def __init__(self, cfg: Any, focus: bool):
        self._focus = focus  # used by build_self_attention, which super().__init__ calls
        super().__init__(cfg)
        _use_relu_in_place(self, cfg)

    def build_self_attention(self, embed_dim: int, cfg: Any) -> MultiheadAttention:
        sizes = embed_dim, cfg.encoder.attention_heads
        noise = {"q_noise": self.quant_noise, "qn_block_size": self.quant_noise_block_size}
        if not self._focus:
            return EncoderAttention(*sizes, dropout=cfg.attention_dropout, self_attention=True, **noise)
        focal = {name: str(getattr(cfg, f"focus_{name}")) for name in ("center", "initial_scope", "strength")}
        return FocusAttention(
            *sizes, focal=focal, kernel=str(cfg.attention_kernel), dropout=cfg.attention_dropout, **noise
        )


class BridgeDecoderLayer(TransformerDecoderLayerBase):
    """fairseq's decoder layer with :class:`BridgeAttention` and :class:`DecoderSelfAttention`."""

    def __init__(self, cfg: Any, saliency: bool):
        self._saliency = saliency  # used by build_encoder_attention, which super().__init__ calls
        super().__init__(cfg)
        _use_relu_in_place(self, cfg)

    def build_self_attention(
        self, embed_dim: int, cfg: Any, add_bias_kv: bool = False, add_zero_attn: bool = False
    ) -> DecoderSelfAttention:
        return DecoderSelfAttention(
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


class NeighbourProjections(nn.Module):
    """Computes Σ_k W_k e_(t+k) for each word t, a sum of linear projections of the embeddings of neighbouring words.

    The sum runs over the offsets k. The encoder or decoder adds it to the embedding of word t in its input. All W_k are
    initialised to zero, so the initial model is equivalent to a model without these maps. Without the maps,
    self-attention must first learn to find the neighbours of a word, which takes a large part of a small model's
    training time. With the maps, the neighbours are available from the first step.

    The offsets k are negative for preceding words.
    """

    def __init__(self, width: int, offsets: Sequence[int]):
        super().__init__()
        self.offsets = tuple(offsets)
        self.maps = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in offsets)
        for weight in self.parameters():
            nn.init.zeros_(weight)

    @property
    def reach(self) -> int:
        """Return the largest distance at which the maps read a preceding word."""
        return max((-offset for offset in self.offsets), default=0)

    def forward(self, vectors: Tensor, is_padding: Tensor) -> Tensor:
        """Compute the sums (N, T, D) from word embeddings (N, T, D) and a padding mask (N, T), True at padding.

        Padding and positions before or after the text are treated as zero vectors.
        """
        vectors = vectors.masked_fill(is_padding.unsqueeze(2), 0)
        length = vectors.size(1)
        total = torch.zeros_like(vectors)
        for offset, linear in zip(self.offsets, self.maps):
            if abs(offset) >= length:
                continue
            first, last = max(-offset, 0), min(length - offset, length)
            total[:, first:last] += linear(vectors[:, first + offset : last + offset])
        return total


def _wrap_for_checkpointing_and_fsdp(layer: nn.Module, cfg: TransformerConfig) -> nn.Module:
    """Wrap a layer for activation checkpointing and FSDP, as fairseq does."""
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    return fsdp_wrap(layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap)


class SummarizationTransformerEncoder(TransformerEncoderBase):
    """fairseq's encoder with focus-attention in the layers selected by ``--focus-layers``.

    Attributes:
        factors: a dictionary from the names of the source factors to their embeddings.
        factor_maps: a dictionary from factor names to linear maps. The maps project factor embeddings to the width of
            the word embeddings, if their widths differ.
    """

    def __init__(self, cfg: SummarizationTransformerConfig, dictionary: Any, embed_tokens: nn.Module):
        self.focus_layers = parse_layer_numbers(cfg.focus_layers, cfg.encoder.layers, "--focus-layers")
        self._layer_numbers = itertools.count()  # fairseq does not pass the layer index to build_encoder_layer
        super().__init__(cfg, remove_copy_tail(dictionary), embed_tokens)
        width = cfg.encoder.embed_dim
        self.aggregation: Optional[LayerAggregation] = None
        if str(cfg.aggregation) != "none":
            self.aggregation = LayerAggregation(
                width,
                cfg.encoder.attention_heads,
                str(cfg.aggregation),
                cfg.aggregation_layers,
                dropout=cfg.attention_dropout,
                q_noise=cfg.quant_noise.pq,
                qn_block_size=cfg.quant_noise.pq_block_size,
            )
        self.gate = EncoderGate(width) if cfg.encoder.gate else None
        self.neighbours: Optional[NeighbourProjections] = None
        if cfg.encoder.neighbours:
            distances = range(1, cfg.encoder.neighbours + 1)
            self.neighbours = NeighbourProjections(width, [sign * k for k in distances for sign in (-1, 1)])
        self.factors, self.factor_maps = nn.ModuleDict(), nn.ModuleDict()

    def add_factors(self, tables: nn.ModuleDict) -> None:
        """Add source factors to the encoder's input. ``tables`` maps factor names to embeddings."""
        width = self.embed_tokens.embedding_dim
        self.factors = tables
        for name, table in tables.items():
            factor_width = int(table.embedding_dim)  # type: ignore[arg-type]
            if factor_width != width:
                self.factor_maps[name] = nn.Linear(factor_width, width, bias=False)

    def _embed(self, src_tokens: Tensor, factors: Optional[Tensor]) -> Tensor:
        """Look up the embeddings of words and their factors, and return the sums (B, S, D)."""
        x: Tensor = self.embed_tokens(src_tokens)
        if factors is None and not self.factors:
            return x
        check_factor_count(self.factors, factors)
        assert factors is not None
        for (name, table), column in zip(self.factors.items(), factors.unbind(dim=2)):
            vectors = table(column)
            x = x + (self.factor_maps[name](vectors) if name in self.factor_maps else vectors)
        return x

    def build_encoder_layer(self, cfg: SummarizationTransformerConfig) -> nn.Module:
        layer = SummarizationEncoderLayer(cfg, focus=next(self._layer_numbers) in self.focus_layers)
        return _wrap_for_checkpointing_and_fsdp(layer, cfg)

    def forward_embedding(self, src_tokens: Tensor, token_embedding: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        """Compute fairseq's input embeddings (B, S, D).

        With ``--encoder-neighbours``, projections of the neighbouring words are first added to the token embeddings.
        """
        if self.neighbours is not None:
            vectors = self.embed_tokens(src_tokens) if token_embedding is None else token_embedding
            token_embedding = vectors + self.neighbours(vectors, src_tokens.eq(self.padding_idx))
        found: Tuple[Tensor, Tensor] = super().forward_embedding(src_tokens, token_embedding)
        return found

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor] = None,
        return_all_hiddens: bool = False,
        token_embeddings: Optional[Tensor] = None,
        factors: Optional[Tensor] = None,
    ) -> Dict[str, Any]:
        """Encode source documents (B, S) like fairseq's encoder, but with the ids of their factor values (B, S, F).

        Returns the dictionary that fairseq's encoder returns, with a few additions. "encoder_out" contains the states
        to which the decoder attends, after the optional aggregation and gate. With aggregation, each of these states
        represents many words. For the pointer, "last_states" therefore contains the states of the last layer, to which
        the gate is also applied.
        """
        all_hiddens = return_all_hiddens or self.aggregation is not None
        if token_embeddings is None:
            token_embeddings = self._embed(src_tokens, factors)
        out: Dict[str, Any] = super().forward(src_tokens, src_lengths, all_hiddens, token_embeddings)
        (last,), (padding_mask,) = out["encoder_out"], out["encoder_padding_mask"]
        # On a GPU or with torch.compile, always keep the mask. Reading its values would force the CPU to wait for the
        # GPU or cause a graph break.
        kept = padding_mask.is_cuda or torch.compiler.is_compiling() or padding_mask.any()
        memory, mask = last, padding_mask if kept else None
        if self.aggregation is not None:
            history = out["encoder_states"][-1 - self.aggregation.history_layers : -1]
            if self.layer_norm is not None:  # with --encoder-normalize-before, the layers return unnormalised states
                history = [self.layer_norm(states) for states in history]
            memory = self.aggregation(history, memory, mask)
        if self.gate is not None:
            memory = self.gate(memory, mask)
            last = self.gate(last, mask) if self.aggregation is not None else memory
        states = out["encoder_states"] if return_all_hiddens else []
        result = {**out, "encoder_out": [memory], "encoder_states": states, "src_tokens": [src_tokens]}
        return result if self.aggregation is None else {**result, "last_states": [last]}

    def reorder_encoder_out(self, encoder_out: Dict[str, Any], new_order: Tensor) -> Dict[str, Any]:
        """Select documents from the encoder's output, including the inputs of the pointer."""
        reordered: Dict[str, Any] = super().reorder_encoder_out(encoder_out, new_order)
        if "last_states" in encoder_out:
            reordered["last_states"] = [encoder_out["last_states"][0].index_select(1, new_order)]
        if "vocabulary" in encoder_out:
            reordered["vocabulary"] = encoder_out["vocabulary"].select(new_order)
        return reordered


class SummarizationTransformerDecoder(PointingDecoder, TransformerDecoderBase):
    """fairseq's decoder with a pointer, and with saliency-selection in the layers selected by ``--saliency-layers``."""

    def __init__(self, cfg: SummarizationTransformerConfig, dictionary: Any, embed_tokens: nn.Module):
        self.saliency_layers = parse_layer_numbers(cfg.saliency_layers, cfg.decoder.layers, "--saliency-layers")
        self._layer_numbers = itertools.count()
        super().__init__(cfg, remove_copy_tail(dictionary), embed_tokens)
        self.neighbours: Optional[NeighbourProjections] = None
        if cfg.decoder.neighbours:
            self.neighbours = NeighbourProjections(self.embed_dim, range(-1, -cfg.decoder.neighbours - 1, -1))
            # In fairseq's decoder, only embed_positions receives the whole summary. The decoder adds its output to the
            # word embeddings.
            self.embed_positions.register_forward_hook(self._add_neighbour_projections)
        self.pointer: Optional[Pointer] = None
        if str(cfg.pointer) != "none":
            widths = self.output_embed_dim, cfg.encoder.embed_dim
            self.pointer = Pointer(*widths, str(cfg.pointer), continues=cfg.pointer_continue)
            if cfg.pointer_initial_generate:
                self.pointer.initialise_generation_probability(cfg.pointer_initial_generate)

    def build_decoder_layer(self, cfg: SummarizationTransformerConfig, no_encoder_attn: bool = False) -> nn.Module:
        layer = BridgeDecoderLayer(cfg, saliency=next(self._layer_numbers) in self.saliency_layers)
        return _wrap_for_checkpointing_and_fsdp(layer, cfg)

    def _add_neighbour_projections(self, _: nn.Module, inputs: Tuple[Tensor, ...], positions: Tensor) -> Tensor:
        """Add projections of preceding words to position embeddings (N, T, D), or (N, 1, D) for the last word."""
        assert self.neighbours is not None
        steps = positions.size(1)
        tokens = inputs[0][:, -(steps + self.neighbours.reach) :]
        added = self.neighbours(self.embed_tokens(tokens), tokens.eq(self.padding_idx))
        return positions + self.embed_scale * added[:, -steps:]

    def build_output_projection(self, cfg: SummarizationTransformerConfig, dictionary: Any, embed: nn.Module) -> None:
        """Build the output layer, which computes logits for the target vocabulary.

        The logits are W_o s as in fairseq or, with ``--output-bias``, W_o s + b_o (ETADS, equation 4).
        """
        super().build_output_projection(cfg, dictionary, embed)
        table: Any = embed.weight
        if self.share_input_output_embed and not cfg.adaptive_softmax_cutoff and len(dictionary) < len(table):
            self.output_projection = SharedTableOutput(table, len(dictionary))
        if cfg.output_bias:
            # The bias is initially zero, so that the initial model is equivalent to a model without a bias. The weight
            # W_o may be the word embedding table.
            self.output_projection.bias = nn.Parameter(torch.zeros(len(dictionary)))

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Optional[Dict[str, Any]] = None,
        *args: Any,
        features_only: bool = False,
        request: Optional[WordRequest] = None,
        **kwargs: Any,
    ) -> NetOutput:
        """Compute logits (N, T, V) from the previous words (N, T), and a dictionary; see :class:`DecoderOutput`.

        ``features_only`` returns the input of the output layer instead of logits. ``request`` names the words whose
        log-probabilities the loss needs (None: all). fairseq's decoder receives all other arguments.
        """
        # If this attribute is True, fairseq always uses the padding mask. If it is False, fairseq first checks whether
        # there is padding, and therefore waits for the GPU.
        self.cross_self_attention = prev_output_tokens.is_cuda
        states, extra = super().forward(prev_output_tokens, encoder_out, *args, features_only=True, **kwargs)
        output = DecoderOutput(states, extra["attn"][0], inner_states=extra["inner_states"])
        if not features_only:
            assert encoder_out is not None, "the decoder needs the encoder's output"
            (memory,) = encoder_out.get("last_states", encoder_out["encoder_out"])
            output = self.score_words(output, memory, prev_output_tokens, encoder_out, request)
        return output.to_fairseq_output()

    def upgrade_state_dict_named(self, state_dict: Dict[str, Any], name: str) -> Dict[str, Any]:
        """Upgrade old weights. With --adaptive-softmax-cutoff, drop the weight of the output layer."""
        upgraded: Dict[str, Any] = super().upgrade_state_dict_named(state_dict, name)
        if self.output_projection is None:
            upgraded.pop(f"{name}.output_projection.weight", None)
        return upgraded


class SummarizationTransformer(SummarizationModel, TransformerModelBase):
    """A Transformer encoder-decoder model. The papers' mechanisms are available as options.

    Choose one of :data:`PRESETS` with ``--arch``. See :class:`SummarizationTransformerConfig` for the options.
    """

    def __init__(self, cfg: SummarizationTransformerConfig, encoder: Any, decoder: Any):
        super().__init__(cfg, encoder, decoder)
        if cfg.share_encoder_decoder_layers:
            # Use indices, because iterating over fairseq's LayerDropModuleList can drop layers.
            for number in range(cfg.encoder.layers):
                share_sublayers(encoder.layers[number], decoder.layers[number])
        output = decoder.output_projection
        for embedding in (encoder.embed_tokens, decoder.embed_tokens):
            embedding.is_output_layer = output is not None and getattr(output, "weight", None) is embedding.weight
        replace_with_compact_dropout(self)
        replace_linears_with_onednn(self)
        self._register_state_dict_hook(remove_shared_entries)
        self._register_load_state_dict_pre_hook(restore_shared_entries, with_module=True)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor],
        prev_output_tokens: Tensor,
        return_all_hiddens: bool = True,
        request: Optional[WordRequest] = None,
        factors: Optional[Tensor] = None,
        **of_decoder: Any,
    ) -> NetOutput:
        """Run the encoder and the decoder. The encoder reads ``factors``, and the decoder receives ``request``."""
        encoder_out = self.encoder(
            src_tokens, src_lengths=src_lengths, return_all_hiddens=return_all_hiddens, factors=factors
        )
        found: NetOutput = self.decoder(
            prev_output_tokens,
            encoder_out=encoder_out,
            src_lengths=src_lengths,
            return_all_hiddens=return_all_hiddens,
            request=request,
            **of_decoder,
        )
        return found

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "SummarizationTransformer":
        """Build the model from flat options.

        Raises:
            ValueError: an option is incompatible with another option, the dictionaries or the truncation lengths.
        """
        config = SummarizationTransformerConfig.from_namespace(convert_options_to_namespace(cfg))
        if task.is_loading:  # a checkpoint already contains the word embeddings
            config.encoder.embed_path = config.decoder.embed_path = None
        check_transformer_options(config, task)
        for side, part in (("source", config.encoder), ("target", config.decoder)):
            option = f"max_{side}_positions"
            setattr(config, option, compute_position_limit(getattr(config, option), task, side, part.learned_pos))
        widths = parse_factors(config.source_factors, task.factor_dictionaries, config.encoder.embed_dim)
        model: SummarizationTransformer = super().build_model(config, task)
        if widths:
            model.encoder.add_factors(make_factor_tables(widths, task.factor_dictionaries))
        if not task.is_loading:
            model.initialise_from_text(config, task)
        return model

    def initialise_from_text(self, config: SummarizationTransformerConfig, task: Any) -> None:
        """Initialise word embeddings and the output layer's bias from the training text if options request this."""
        if config.embed_from_text:
            initialise_embeddings_from_text(task, self.encoder.embed_tokens, self.decoder.embed_tokens)
        if str(config.output_bias_init) == "frequencies":
            probabilities = compute_word_probabilities(task, self.decoder.pointer is not None)  # (V,)
            with torch.no_grad():
                self.decoder.output_projection.bias.copy_(probabilities.log())

    @property
    def factors(self) -> Tuple[str, ...]:
        """Return the names of the source factors that the model reads, in the order of the encoder's input."""
        return tuple(self.encoder.factors)

    @classmethod
    def build_embedding(cls, cfg: Any, dictionary: Any, embed_dim: int, path: Optional[str] = None) -> nn.Module:
        words = remove_copy_tail(dictionary)
        plain = super().build_embedding(cfg, words, embed_dim)
        side = "encoder" if path == cfg.encoder.embed_path else "decoder"
        load_word_vectors(path, words, plain, f"--{side}-embed-path")
        return VocabularyEmbedding(plain, dictionary.unk())

    @classmethod
    def build_encoder(cls, cfg: Any, src_dict: Any, embed_tokens: nn.Module) -> SummarizationTransformerEncoder:
        return SummarizationTransformerEncoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg: Any, tgt_dict: Any, embed_tokens: nn.Embedding) -> SummarizationTransformerDecoder:
        words = count_known_words(tgt_dict)
        if words < embed_tokens.num_embeddings:  # the table is shared with the encoder, which has a larger vocabulary
            embed_tokens = VocabularyEmbedding(embed_tokens, tgt_dict.unk(), words)
        return SummarizationTransformerDecoder(cfg, tgt_dict, embed_tokens)


register_presets(SummarizationTransformer, PRESETS, FlatTransformerConfig)
