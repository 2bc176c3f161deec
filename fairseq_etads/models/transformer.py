"""The Transformer family: encoder, decoder, and one model class for all presets."""

import itertools
from typing import Any, Dict, Optional, Tuple

import torch
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import (
    TransformerConfig,
    TransformerDecoderBase,
    TransformerEncoderBase,
    TransformerModelBase,
)
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from torch import Tensor, nn

from ..data.training_text import begin_vectors, word_probabilities
from ..kernels.dropout import use_compact_dropout
from ..kernels.linear import use_training_linear
from ..layers.aggregation import Aggregation, EncoderGate
from ..layers.decoder_output import DecoderOutput, NetOutput, PointingDecoder, WordRequest
from ..layers.embedding import SharedTableOutput, VocabularyEmbedding
from ..layers.neighbours import NeighbourInputs, decoder_offsets, encoder_offsets
from ..layers.pointer import Pointer
from ..layers.sharing import leave_out_shared, put_in_shared, share_sublayers
from ..layers.transformer import BridgeDecoderLayer, FocusEncoderLayer, PlainEncoderLayer
from ..vocabulary.dictionary import known_words, without_tail
from ..vocabulary.word_vectors import load_vectors
from .common import PositionedModel, plain_options, position_limit, register_presets
from .source_factors import check_given, check_trained_factors, factor_tables, parse_factors
from .transformer_options import (
    PRESETS,
    SummarizationTransformerConfig,
    check_options,
    parse_layers,
    preset_config,
)


def _wrap(layer: nn.Module, cfg: TransformerConfig) -> nn.Module:
    """Wrap a layer in activation checkpointing and FSDP, like fairseq's builders."""
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    return fsdp_wrap(layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap)


class SummarizationTransformerEncoder(TransformerEncoderBase):
    """fairseq's encoder with focus-attention in the layers of ``--focus-layers``.

    Attributes:
        factors: tables of the source factors' vectors, by name. factor_maps: linear maps to the width of the words'
            vectors, by name, for factors with another width.
    """

    def __init__(self, cfg: SummarizationTransformerConfig, dictionary: Any, embed_tokens: nn.Module):
        self.focus_layers = parse_layers(cfg.focus_layers, cfg.encoder.layers, "--focus-layers")
        self._layer_numbers = itertools.count()  # fairseq calls build_encoder_layer without the layer's number
        super().__init__(cfg, without_tail(dictionary), embed_tokens)
        width = cfg.encoder.embed_dim
        self.aggregation: Optional[Aggregation] = None
        if str(cfg.aggregation) != "none":
            self.aggregation = Aggregation(
                width,
                cfg.encoder.attention_heads,
                str(cfg.aggregation),
                cfg.aggregation_layers,
                dropout=cfg.attention_dropout,
                q_noise=cfg.quant_noise.pq,
                qn_block_size=cfg.quant_noise.pq_block_size,
            )
        self.gate = EncoderGate(width) if cfg.encoder.gate else None
        self.neighbours: Optional[NeighbourInputs] = None
        if cfg.encoder.neighbours:
            self.neighbours = NeighbourInputs(width, encoder_offsets(cfg.encoder.neighbours))
        self.factors, self.factor_maps = nn.ModuleDict(), nn.ModuleDict()

    def read_factors(self, tables: nn.ModuleDict) -> None:
        """Let the encoder read source factors, with vectors from ``tables``."""
        width = self.embed_tokens.embedding_dim
        self.factors = tables
        for name, table in tables.items():
            factor_width = int(table.embedding_dim)  # type: ignore[arg-type]
            if factor_width != width:
                self.factor_maps[name] = nn.Linear(factor_width, width, bias=False)

    def _embed(self, src_tokens: Tensor, factors: Optional[Tensor]) -> Tensor:
        """Compute the sum (B, S, D) of the vectors of words and their factors."""
        x: Tensor = self.embed_tokens(src_tokens)
        check_given(self.factors, factors)
        if factors is None:
            return x
        for (name, table), column in zip(self.factors.items(), factors.unbind(dim=2)):
            vectors = table(column)
            x = x + (self.factor_maps[name](vectors) if name in self.factor_maps else vectors)
        return x

    def build_encoder_layer(self, cfg: SummarizationTransformerConfig) -> nn.Module:
        has_focus = next(self._layer_numbers) in self.focus_layers
        return _wrap(FocusEncoderLayer(cfg) if has_focus else PlainEncoderLayer(cfg), cfg)

    def forward_embedding(self, src_tokens: Tensor, token_embedding: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        """Compute fairseq's word vectors (B, S, D), plus the maps of ``--encoder-neighbours``."""
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
        """Encode documents like fairseq, with source factors, and with "src_tokens" for the pointer.

        Args:
            src_tokens: the documents (B, S).
            src_lengths: lengths of the documents (B,).
            factors: ids of the factors' values (B, S, F), int64, one column per factor.
            return_all_hiddens, token_embeddings: the arguments of fairseq's encoder.

        The decoder attends to "encoder_out": the states after aggregation and gate, if the options request these. An
        aggregated state describes many words at once, so the pointer reads the unaggregated states of the last layer,
        "last_states". They are gated in the same way, so that the gate applies to the whole decoder.
        """
        all_hiddens = return_all_hiddens or self.aggregation is not None
        if token_embeddings is None:
            token_embeddings = self._embed(src_tokens, factors)
        out: Dict[str, Any] = super().forward(src_tokens, src_lengths, all_hiddens, token_embeddings)
        (last,), (padding_mask,) = out["encoder_out"], out["encoder_padding_mask"]
        # On a GPU and in torch.compile the mask is always kept, because looking at it would wait, or break the graph.
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
        """Select documents like fairseq, including the pointer's inputs."""
        reordered: Dict[str, Any] = super().reorder_encoder_out(encoder_out, new_order)
        if "last_states" in encoder_out:
            reordered["last_states"] = [encoder_out["last_states"][0].index_select(1, new_order)]
        if "vocabulary" in encoder_out:
            reordered["vocabulary"] = encoder_out["vocabulary"].select(new_order)
        return reordered


class SummarizationTransformerDecoder(PointingDecoder, TransformerDecoderBase):
    """fairseq's decoder with saliency-selection in the layers of ``--saliency-layers`` and a pointer head."""

    def __init__(self, cfg: SummarizationTransformerConfig, dictionary: Any, embed_tokens: nn.Module):
        self.saliency_layers = parse_layers(cfg.saliency_layers, cfg.decoder.layers, "--saliency-layers")
        self._layer_numbers = itertools.count()
        super().__init__(cfg, without_tail(dictionary), embed_tokens)
        self.neighbours: Optional[NeighbourInputs] = None
        if cfg.decoder.neighbours:
            self.neighbours = NeighbourInputs(self.embed_dim, decoder_offsets(cfg.decoder.neighbours))
            # fairseq's decoder passes whole summaries only to embed_positions, and adds its result to the word vectors
            self.embed_positions.register_forward_hook(self._add_neighbours)
        self.pointer: Optional[Pointer] = None
        if str(cfg.pointer) != "none":
            widths = self.output_embed_dim, cfg.encoder.embed_dim
            self.pointer = Pointer(*widths, str(cfg.pointer), continues=cfg.pointer_continue)
            if cfg.pointer_initial_generate:
                self.pointer.begin_generating(cfg.pointer_initial_generate)

    def build_decoder_layer(self, cfg: SummarizationTransformerConfig, no_encoder_attn: bool = False) -> nn.Module:
        return _wrap(BridgeDecoderLayer(cfg, saliency=next(self._layer_numbers) in self.saliency_layers), cfg)

    def _add_neighbours(self, _: nn.Module, inputs: Tuple[Tensor, ...], positions: Tensor) -> Tensor:
        """Add the maps of ``--decoder-neighbours`` to the positions (N, T or 1, D) of words ``inputs[0]`` (N, T)."""
        assert self.neighbours is not None
        steps = positions.size(1)
        tokens = inputs[0][:, -(steps + self.neighbours.reach) :]
        added = self.neighbours(self.embed_tokens(tokens), tokens.eq(self.padding_idx))
        return positions + self.embed_scale * added[:, -steps:]

    def begin_output_bias(self, probabilities: Tensor) -> None:
        """Set the output layer's bias to the logarithms of the words' probabilities (V,)."""
        with torch.no_grad():
            self.output_projection.bias.copy_(probabilities.log())

    def build_output_projection(self, cfg: SummarizationTransformerConfig, dictionary: Any, embed: nn.Module) -> None:
        """Build fairseq's output layer, W_o s, over the known words of summaries; with ``--output-bias`` W_o s + b_o
        (ETADS, eq. 4).
        """
        super().build_output_projection(cfg, dictionary, embed)
        table: Any = embed.weight
        if self.share_input_output_embed and not cfg.adaptive_softmax_cutoff and len(dictionary) < len(table):
            self.output_projection = SharedTableOutput(table, len(dictionary))
        if cfg.output_bias:
            # The bias starts at zero, so that the initial model equals the model without a bias. W_o may be the table
            # of word vectors.
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
        """Compute logits (N, T, V) and a dict, see :class:`DecoderOutput`; arguments as in fairseq.

        Args:
            prev_output_tokens: ids (N, T) of the previous words in the dictionary.
            features_only: return the output layer's input in place of logits.
            request: the words that a loss needs, instead of logits of all words.
        """
        # With this flag, fairseq always asks for the padding mask. Without it, fairseq waits for the GPU to check for
        # padding.
        self.cross_self_attention = prev_output_tokens.is_cuda
        states, extra = super().forward(prev_output_tokens, encoder_out, *args, features_only=True, **kwargs)
        output = DecoderOutput(states, extra["attn"][0], inner_states=extra["inner_states"])
        if not features_only:
            assert encoder_out is not None, "the decoder needs the encoder's output"
            (memory,) = encoder_out.get("last_states", encoder_out["encoder_out"])
            output = self.score_words(output, memory, prev_output_tokens, encoder_out, request)
        return output.pair()

    def upgrade_state_dict_named(self, state_dict: Dict[str, Any], name: str) -> Dict[str, Any]:
        """Upgrade weights like fairseq, without an output layer if --adaptive-softmax-cutoff replaces it."""
        upgraded: Dict[str, Any] = super().upgrade_state_dict_named(state_dict, name)
        if self.output_projection is None:
            upgraded.pop(f"{name}.output_projection.weight", None)
        return upgraded


class SummarizationTransformer(PositionedModel, TransformerModelBase):
    """Transformer encoder-decoder with the papers' mechanisms as options.

    Built by ``--arch`` with one of :data:`PRESETS`; see :class:`SummarizationTransformerConfig` for the options.
    """

    def __init__(self, cfg: SummarizationTransformerConfig, encoder: Any, decoder: Any):
        super().__init__(cfg, encoder, decoder)
        if cfg.share_encoder_decoder_layers:
            for number in range(cfg.encoder.layers):  # by index: iterating over fairseq's list drops layers (layerdrop)
                share_sublayers(encoder.layers[number], decoder.layers[number])
        output = decoder.output_projection
        for embedding in (encoder.embed_tokens, decoder.embed_tokens):
            embedding.is_output_layer = output is not None and getattr(output, "weight", None) is embedding.weight
        use_compact_dropout(self)
        use_training_linear(self)
        self._register_state_dict_hook(leave_out_shared)
        self._register_load_state_dict_pre_hook(put_in_shared, with_module=True)

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
        """Run fairseq's model, with source ``factors`` for the encoder and a ``request`` for the decoder."""
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
        """Build from the flat options.

        Raises:
            ValueError: an option conflicts with the others, the dictionaries, or the task's lengths.
        """
        config = SummarizationTransformerConfig.from_namespace(plain_options(cfg))
        if task.is_loading:  # the checkpoint contains its word vectors
            config.encoder.embed_path = config.decoder.embed_path = None
        check_options(config, task)
        for side, part in (("source", config.encoder), ("target", config.decoder)):
            option = f"max_{side}_positions"
            setattr(config, option, position_limit(getattr(config, option), task, side, part.learned_pos))
        widths = parse_factors(config.source_factors, task.factor_dictionaries, config.encoder.embed_dim)
        model: SummarizationTransformer = super().build_model(config, task)
        if widths:
            model.encoder.read_factors(factor_tables(widths, task.factor_dictionaries))
        if not task.is_loading:
            model.begin_with_text(config, task)
        return model

    def begin_with_text(self, config: SummarizationTransformerConfig, task: Any) -> None:
        """Initialise word vectors and the output layer's bias from the training text, if the options say so."""
        if config.embed_from_text:
            begin_vectors(task, self.encoder.embed_tokens, self.decoder.embed_tokens)
        if str(config.output_bias_init) == "frequencies":
            self.decoder.begin_output_bias(word_probabilities(task, self.decoder.pointer is not None))

    @property
    def factors(self) -> Tuple[str, ...]:
        """Return the names of the source factors that the model reads, in the order of its input."""
        return tuple(self.encoder.factors)

    def load_state_dict(self, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        """Load weights.

        Raises:
            ValueError: they were trained with other dictionaries, lengths or source factors.
        """
        check_trained_factors(state_dict, dict(self.encoder.factors.items()))
        return super().load_state_dict(state_dict, *args, **kwargs)

    @classmethod
    def build_embedding(cls, cfg: Any, dictionary: Any, embed_dim: int, path: Optional[str] = None) -> nn.Module:
        words = without_tail(dictionary)
        plain = super().build_embedding(cfg, words, embed_dim)
        side = "encoder" if path == cfg.encoder.embed_path else "decoder"
        load_vectors(path, words, plain, f"--{side}-embed-path")
        return VocabularyEmbedding(plain, dictionary.unk())

    @classmethod
    def build_encoder(cls, cfg: Any, src_dict: Any, embed_tokens: nn.Module) -> SummarizationTransformerEncoder:
        return SummarizationTransformerEncoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg: Any, tgt_dict: Any, embed_tokens: nn.Embedding) -> SummarizationTransformerDecoder:
        words = known_words(tgt_dict)
        if words < embed_tokens.num_embeddings:  # both sides share the table, and the documents have more words
            embed_tokens = VocabularyEmbedding(embed_tokens, tgt_dict.unk(), words)
        return SummarizationTransformerDecoder(cfg, tgt_dict, embed_tokens)


register_presets(SummarizationTransformer, PRESETS, preset_config)
