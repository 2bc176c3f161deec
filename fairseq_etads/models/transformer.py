"""One composable Transformer for summarisation: its options, its presets, its encoder and decoder.

The options are fairseq's own ``TransformerConfig``, flattened into a dataclass, and this project's mechanisms. A
mechanism is a field, a named architecture a preset that changes defaults; there is one model class.
"""

import itertools
from argparse import Namespace
from dataclasses import Field, dataclass, field, fields, make_dataclass
from typing import Any, Dict, FrozenSet, Iterator, Optional, Set, Tuple

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.distributed import fsdp_wrap
from fairseq.models import register_model
from fairseq.models.transformer import (
    TransformerConfig,
    TransformerDecoderBase,
    TransformerEncoderBase,
    TransformerModelBase,
)
from fairseq.models.transformer.transformer_config import DecoderConfig, EncDecBaseConfig, QuantNoiseConfig
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from omegaconf import II, OmegaConf
from torch import Tensor, nn

from ..batch_vocab import BatchVocab
from ..dictionary import without_tail
from ..embedding import VocabularyEmbedding
from ..modules import BridgeDecoderLayer, FocusEncoderLayer
from ..pointer import KINDS, Pointer, PointerOutput
from .common import SummarizationModel, batch_vocab, check_one_dictionary, check_words

LAYERS_HELP = 'layers, counted from 1: "all", "none", or a list such as "1-2" or "1,3-4"'


@dataclass
class SummarizationTransformerConfig(TransformerConfig):
    """fairseq's TransformerConfig and this project's mechanisms."""

    focus_layers: str = field(default="all", metadata={"help": f"encoder layers with focus-attention; {LAYERS_HELP}"})
    saliency_layers: str = field(
        default="all", metadata={"help": f"decoder layers with saliency-selection; {LAYERS_HELP}"}
    )
    pointer: ChoiceEnum(KINDS) = field(  # type: ignore[valid-type]
        default="none",
        metadata={
            "help": "copy words of the document, unknown ones too: soft mixes copying and generating, switch decides "
            "between them at every word"
        },
    )


# Options of TransformerConfig without a meaning here: other attention mechanisms, pruning and export.
_LEFT_OUT = {
    *("_name", "char_inputs", "relu_dropout", "export", "adaptive_input", "merge_src_tgt_embed"),
    *("no_cross_attention", "cross_self_attention", "base_layers", "base_sublayers", "base_shuffle"),
    *("encoder_layers_to_keep", "decoder_layers_to_keep"),
    *("encoder_xformers_att_config", "decoder_xformers_att_config"),
}
_NESTED = {"encoder": EncDecBaseConfig, "decoder": DecoderConfig, "quant_noise": QuantNoiseConfig}

# ETADS, section 4.1. "Dropout rate 0.8" is a keep probability; the dictionary is shared by source, target and output.
_PAPER: Dict[str, Any] = {
    "encoder_layers": 4,
    "decoder_layers": 4,
    "encoder_embed_dim": 512,
    "encoder_ffn_embed_dim": 2048,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8,
    "encoder_learned_pos": True,
    "decoder_learned_pos": True,
    "share_all_embeddings": True,
    "dropout": 0.2,
    # unless told otherwise, the decoder is as wide as the encoder and the position tables as long as truncated texts
    "decoder_embed_dim": II("model.encoder_embed_dim"),
    "decoder_ffn_embed_dim": II("model.encoder_ffn_embed_dim"),
    "decoder_input_dim": II("model.decoder_embed_dim"),
    "decoder_output_dim": II("model.decoder_embed_dim"),
    "max_source_positions": 0,
    "max_target_positions": 0,
}
_HELP = {
    "max_source_positions": "longest source there are positions for (default 0: --truncate-source and the end symbol)",
    "max_target_positions": "longest summary there are positions for (default 0: --truncate-target and the end symbol)",
}

PRESETS: Dict[str, Dict[str, Any]] = {
    "etads": {},
    "etads_basic": {"focus_layers": "none", "saliency_layers": "none"},
    "etads_focus": {"saliency_layers": "none"},
    "etads_saliency": {"focus_layers": "none"},
}
"""Named architectures: what each changes in the defaults (ETADS, Table 2)."""


def parse_layers(value: str, count: int, option: str) -> FrozenSet[int]:
    """Layer numbers, from 0, of a list of layers counted from 1.

    Args:
        value: "all", "none", or numbers and ranges such as "1,3-4".
        count: how many layers there are.
        option: the option's name, for the error.

    Raises:
        ValueError: the list is malformed or names a layer that does not exist.
    """
    text = str(value).strip()
    if text in ("all", "none"):
        return frozenset(range(count)) if text == "all" else frozenset()
    chosen: Set[int] = set()
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if not first.isdigit() or (dash and not last.isdigit()):
            raise ValueError(f'{option} "{value}": "{part}" is not a layer; choose {LAYERS_HELP}')
        low, high = int(first), int(last or first)
        if not 1 <= low <= high <= count:
            raise ValueError(
                f'{option} "{value}": "{part}" is not among the layers 1-{count} of this model; choose {LAYERS_HELP}'
            )
        chosen.update(range(low - 1, high))
    return frozenset(chosen)


def _flat_fields() -> Iterator[Tuple[str, Any, "Field[Any]"]]:
    """Names, types and fields of the configuration with nested ones spelt out: encoder.layers is encoder_layers."""
    for outer in fields(SummarizationTransformerConfig):
        if outer.name not in _NESTED:
            yield outer.name, outer.type, outer
            continue
        for inner in fields(_NESTED[outer.name]):
            yield f"{outer.name}_{inner.name}", inner.type, inner


def preset_config(name: str, **changes: Any) -> type:
    """A flat dataclass of all options, with the paper's defaults and then ``changes``.

    Flat, because fairseq's command line and Hydra both read flat dataclasses (--encoder-layers, model.encoder_layers).
    """
    overrides = {**_PAPER, **changes}
    options = []
    for option, kind, source in _flat_fields():
        if option.endswith("_name") or option in _LEFT_OUT:
            continue
        metadata = dict(source.metadata)
        metadata["help"] = _HELP.get(option, metadata.get("help", option.replace("_", " ")))
        default = overrides.pop(option, source.default)
        options.append((option, kind, field(default=default, metadata=metadata)))
    if overrides:
        raise ValueError(f"preset {name}: unknown options {sorted(overrides)}")
    return make_dataclass(name, options, bases=(FairseqDataclass,), namespace={"__module__": __name__})


def _wrap(layer: nn.Module, cfg: TransformerConfig) -> nn.Module:
    """Activation checkpointing and FSDP around a layer, as fairseq's builders do."""
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    return fsdp_wrap(layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap)


class SummarizationTransformerEncoder(TransformerEncoderBase):
    """fairseq's encoder with focus-attention in the layers of ``--focus-layers``."""

    def __init__(self, cfg: SummarizationTransformerConfig, dictionary: Any, embed_tokens: nn.Module):
        self.focus_layers = parse_layers(cfg.focus_layers, cfg.encoder.layers, "--focus-layers")
        self._layer_numbers = itertools.count()  # fairseq's hook is called once a layer, without the layer's number
        super().__init__(cfg, without_tail(dictionary), embed_tokens)

    def build_encoder_layer(self, cfg: SummarizationTransformerConfig) -> nn.Module:
        if next(self._layer_numbers) not in self.focus_layers:
            return super().build_encoder_layer(cfg)
        return _wrap(FocusEncoderLayer(cfg), cfg)

    def forward(self, src_tokens: Tensor, *args: Any, **kwargs: Any) -> Dict[str, Any]:
        """As fairseq's, and the documents themselves for the pointer ("src_tokens")."""
        return {**super().forward(src_tokens, *args, **kwargs), "src_tokens": [src_tokens]}

    def reorder_encoder_out(self, encoder_out: Dict[str, Any], new_order: Tensor) -> Dict[str, Any]:
        """As fairseq's, and the vocabulary of the batch with it."""
        reordered: Dict[str, Any] = super().reorder_encoder_out(encoder_out, new_order)
        if "batch_vocab" in encoder_out:
            reordered["batch_vocab"] = encoder_out["batch_vocab"].select(new_order)
        return reordered


class SummarizationTransformerDecoder(TransformerDecoderBase):
    """fairseq's decoder with saliency-selection in the layers of ``--saliency-layers`` and a pointer head."""

    shares_documents = True
    """Takes a BeamState: documents stay single rows while prev_output_tokens has a row for each of their beams."""

    def __init__(self, cfg: SummarizationTransformerConfig, dictionary: Any, embed_tokens: nn.Module):
        self.saliency_layers = parse_layers(cfg.saliency_layers, cfg.decoder.layers, "--saliency-layers")
        self._layer_numbers = itertools.count()
        super().__init__(cfg, without_tail(dictionary), embed_tokens)
        self.pointer: Optional[Pointer] = None
        if str(cfg.pointer) != "none":
            self.pointer = Pointer(self.output_embed_dim, cfg.encoder.embed_dim, str(cfg.pointer))

    def build_decoder_layer(self, cfg: SummarizationTransformerConfig, no_encoder_attn: bool = False) -> nn.Module:
        return _wrap(BridgeDecoderLayer(cfg, saliency=next(self._layer_numbers) in self.saliency_layers), cfg)

    def batch_vocab(self, src_tokens: Tensor) -> BatchVocab:
        """The vocabulary of a batch of documents (B, S)."""
        return batch_vocab(src_tokens, self.dictionary)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Optional[Dict[str, Any]] = None,
        *args: Any,
        features_only: bool = False,
        **kwargs: Any,
    ) -> Tuple[Tensor, Dict[str, Any]]:
        """As fairseq's: logits (N, T, V) and extras; with a pointer, its :class:`PointerOutput` is extra "pointer"."""
        states, extra = super().forward(prev_output_tokens, encoder_out, *args, features_only=True, **kwargs)
        if features_only:
            return states, extra
        if self.pointer is not None:
            assert encoder_out is not None
            if "batch_vocab" not in encoder_out:
                encoder_out["batch_vocab"] = self.batch_vocab(encoder_out["src_tokens"][0])
            extra["pointer"] = self.pointer(states, encoder_out["encoder_out"][0], encoder_out["batch_vocab"])
        return self.output_layer(states), extra

    def get_normalized_probs(
        self, net_output: Tuple[Tensor, Any], log_probs: bool, sample: Optional[Dict[str, Any]] = None
    ) -> Tensor:
        """(Log-)probabilities: (N, T, V), or (N, T, V + K) over extended ids with a pointer."""
        logits, extra = net_output
        pointer: Optional[PointerOutput] = extra.get("pointer") if extra else None
        if pointer is None:
            return super().get_normalized_probs(net_output, log_probs, sample)
        # generation may have cut the logits to the last step
        scores = pointer.last(logits.shape[1]).log_probs(logits)
        return scores if log_probs else scores.exp()


class SummarizationTransformer(SummarizationModel, TransformerModelBase):
    """Transformer encoder-decoder with the papers' mechanisms as options.

    Built by ``--arch`` with one of :data:`PRESETS`; see :class:`SummarizationTransformerConfig` for the options.
    """

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "SummarizationTransformer":
        """Build from the flat options.

        Raises:
            ValueError: an option does not fit the others, or the dictionaries, or the task's lengths.
        """
        options: Any = OmegaConf.to_container(cfg, resolve=True) if OmegaConf.is_config(cfg) else vars(cfg)
        config = SummarizationTransformerConfig.from_namespace(Namespace(**options))
        config.max_source_positions = _position_limit(config, task, "source")
        config.max_target_positions = _position_limit(config, task, "target")
        if str(config.pointer) != "none":
            _check_pointer(config, task)
        return super().build_model(config, task)

    @classmethod
    def build_embedding(cls, cfg: Any, dictionary: Any, embed_dim: int, path: Optional[str] = None) -> nn.Module:
        plain = super().build_embedding(cfg, without_tail(dictionary), embed_dim, path)
        return VocabularyEmbedding(plain, dictionary.unk())

    @classmethod
    def build_encoder(cls, cfg: Any, src_dict: Any, embed_tokens: nn.Module) -> SummarizationTransformerEncoder:
        return SummarizationTransformerEncoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg: Any, tgt_dict: Any, embed_tokens: nn.Module) -> SummarizationTransformerDecoder:
        return SummarizationTransformerDecoder(cfg, tgt_dict, embed_tokens)

    def load_state_dict(self, state_dict: Any, strict: bool = True, **kwargs: Any) -> Any:
        """Load weights, refusing those of another dictionary or of other lengths in words."""
        for side, name, part in (("source", "encoder", self.encoder), ("target", "decoder", self.decoder)):
            check_words(state_dict, side, part)
            positions = state_dict.get(f"{name}.embed_positions.weight")
            if positions is not None and len(positions) != len(part.embed_positions.weight):
                limit = len(positions) - part.padding_idx - 1
                raise ValueError(
                    f"the checkpoint has learnt {limit} positions and this model has {part.max_positions()}: "
                    f"give --truncate-{side} {limit - 1}, or --max-{side}-positions {limit}, as when it was trained"
                )
        return super().load_state_dict(state_dict, strict=strict, **kwargs)


def _check_pointer(config: SummarizationTransformerConfig, task: Any) -> None:
    """Refuse what a pointer cannot work with."""
    option = f"--pointer {config.pointer}"
    if config.adaptive_softmax_cutoff:
        raise ValueError(f"{option} does not work with --adaptive-softmax-cutoff: it mixes over all words; choose one")
    check_one_dictionary(option, task)


def _position_limit(config: SummarizationTransformerConfig, task: Any, side: str) -> int:
    """How many positions a side needs, checked against what the options allow."""
    needed, trained = task.max_positions()[side == "target"], task.trained_positions()[side == "target"]
    limit: Optional[int] = getattr(config, f"max_{side}_positions") or trained
    part = config.encoder if side == "source" else config.decoder
    if limit and needed > limit and part.learned_pos:
        raise ValueError(
            f"--truncate-{side} {needed - 1} needs {needed} positions with the end symbol, and this model has {limit}: "
            f"choose at most {limit - 1}, or, when training, --max-{side}-positions {needed} or more"
        )
    return max(needed, limit or 0)


for _name, _changes in PRESETS.items():
    # a class of its own for each preset, because fairseq keeps the options' dataclass on the class
    register_model(_name, dataclass=preset_config(_name, **_changes))(
        type(_name, (SummarizationTransformer,), {"__doc__": SummarizationTransformer.__doc__, "__module__": __name__})
    )
