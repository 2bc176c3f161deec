"""The options of the Transformer family, checks of these options, and presets.

One flat dataclass contains the options of fairseq's ``TransformerConfig`` and the options of this project's mechanisms.
A named architecture is a preset that changes some of the defaults.
"""

from dataclasses import Field, dataclass, field, fields, make_dataclass
from types import SimpleNamespace
from typing import Any, Dict, FrozenSet, Iterator, Set, Tuple

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_config import DecoderConfig as FairseqDecoderConfig
from fairseq.models.transformer.transformer_config import EncDecBaseConfig, QuantNoiseConfig
from omegaconf import II

from ..attention import GATES, KERNELS
from ..layers.encoder import AGGREGATIONS, CENTERS, SCOPES_HELP, STRENGTHS, parse_focus_scopes
from ..platform.command_options import NOT_NEGATIVE, PROBABILITY, SIZE, check_options, format_option, option
from .common import HELP as FACTORS_HELP
from .common import PointerOptions, list_data_properties

_WITHOUT_FOCUS = {"--focus-layers none": ""}
BIAS_INITS = ("zeros", "frequencies")
LAYERS_HELP = '"all", "none", or layer numbers, counted from 1, such as "1-2" or "1,3-4"'


@dataclass
class EncoderConfig(EncDecBaseConfig):
    """Encoder options, which fairseq stores in a nested config. Flat option names start with ``encoder_``."""

    gate: bool = option(
        False, "multiply each encoder state by a gate that is computed from this state and the document's last state"
    )
    neighbours: int = option(
        0,
        "number of neighbouring words on each side: add linear projections of their embeddings to the "
        "embedding of each word, with weights initialised to zero (0: off)",
        bounds=NOT_NEGATIVE,
        excludes={"--no-token-positional-embeddings": "choose one"},
    )


@dataclass
class DecoderConfig(FairseqDecoderConfig):
    """Decoder options, which fairseq stores in a nested config. Flat option names start with ``decoder_``."""

    neighbours: int = option(
        0,
        "number of preceding words: add linear projections of their embeddings to the embedding of each "
        "word, with weights initialised to zero (0: off)",
        bounds=NOT_NEGATIVE,
        excludes={"--no-token-positional-embeddings": "choose one"},
    )


@dataclass
class SummarizationTransformerConfig(PointerOptions, TransformerConfig):
    """The options of fairseq's TransformerConfig and of this project's mechanisms."""

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    focus_layers: str = option("all", f"encoder layers that use focus-attention: {LAYERS_HELP}")
    saliency_layers: str = option("all", f"decoder layers that use saliency-selection: {LAYERS_HELP}")
    focus_center: ChoiceEnum(CENTERS) = option(  # type: ignore[valid-type]
        "absolute",
        "position of the centres of focus-attention. absolute: anywhere in the document (as in the ETADS "
        "paper); relative: near the query; at first, the heads are centred on the query and its neighbours",
        excludes=_WITHOUT_FOCUS,
    )
    focus_initial_scope: str = option("half", SCOPES_HELP, excludes=_WITHOUT_FOCUS)
    focus_strength: ChoiceEnum(STRENGTHS) = option(  # type: ignore[valid-type]
        "fixed",
        "factor that multiplies the bias of focus-attention. fixed: 1 (as in the ETADS paper); learned: "
        "one factor per head, initially 0, so that the model starts as a plain Transformer",
        excludes=_WITHOUT_FOCUS,
    )
    attention_kernel: ChoiceEnum(KERNELS) = option(  # type: ignore[valid-type]
        "auto",
        "kernel for computing focus-attention. auto: the fastest kernel that is known to be exact on the "
        "device; fused: fused attention, with the bias encoded in additional columns of the queries and keys (if "
        "it is not known to be exact, a warning is logged and plain is used); plain: attention with a matrix of "
        "biases, one for each pair of words; flex: as auto, for models trained with earlier versions",
        excludes=_WITHOUT_FOCUS,
    )
    saliency_gate: ChoiceEnum(GATES) = option(  # type: ignore[valid-type]
        "sigmoid",
        "gate of saliency-selection. sigmoid: gate values between 0 and 1 (as in the ETADS paper); open: "
        "gate values between 0 and 2; normalised: as open, but the gated attention weights are rescaled to sum to "
        "1. At the start of training, open and normalised are equivalent to plain attention",
        excludes={"--saliency-layers none": ""},
    )
    pointer_initial_generate: float = option(
        0.0,
        "initial probability of generating a word instead of copying one, such as 0.99 for a pretrained "
        "decoder (default 0: leave it at about one half)",
        bounds=PROBABILITY,
        needs=("--pointer soft", "--pointer switch"),
    )
    aggregation: ChoiceEnum(AGGREGATIONS) = option(  # type: ignore[valid-type]
        "none",
        "how to combine the states of earlier encoder layers with the states of the last layer. add: sum "
        "the states; proj: attend to the last layer with a projection of the earlier states as the query; attn: "
        "attend to one layer after another",
        excludes={"--encoder-layerdrop": "aggregation needs the states of every layer; choose one"},
    )
    aggregation_layers: int = option(
        1,
        "number of earlier encoder layers that --aggregation combines with the last layer (L in Liao et al. 2019)",
        needs=tuple(f"--aggregation {kind}" for kind in AGGREGATIONS[1:]),
    )
    share_encoder_decoder_layers: bool = option(
        False,
        "share the self-attention and feed-forward sublayers between encoder and decoder layers",
        equal={
            (f"encoder_{name}", f"decoder_{name}"): "an encoder and a decoder of equal shape"
            for name in ("layers", "embed_dim", "ffn_embed_dim", "attention_heads", "normalize_before")
        },
    )
    output_bias: bool = option(
        False,
        "add a learned bias for each word to the output layer (b_o in the papers)",
        excludes={"--adaptive-softmax-cutoff": "that softmax has a separate output layer; choose one"},
    )
    output_bias_init: ChoiceEnum(BIAS_INITS) = option(  # type: ignore[valid-type]
        "zeros",
        "initial values of the biases added by --output-bias. zeros: 0; frequencies: the logarithm of "
        "each word's relative frequency in the training summaries",
        needs=("--output-bias",),
    )
    embed_from_text: bool = option(
        False,
        "initialise word embeddings from the training text with a truncated singular value decomposition "
        "of the words' positive pointwise mutual information, which takes a few seconds",
        excludes={"--encoder-embed-path": "choose one", "--decoder-embed-path": "choose one"},
    )
    source_factors: str = option(
        "none",
        FACTORS_HELP.format("--encoder-embed-dim")
        + ". Factor embeddings are added to word embeddings, after a linear projection if the dimensions differ",
    )


# Options of TransformerConfig that these models do not support, such as options for pruning and for other kinds of
# attention.
_LEFT_OUT = {
    *("_name", "char_inputs", "relu_dropout", "export", "adaptive_input", "merge_src_tgt_embed"),
    *("no_cross_attention", "cross_self_attention", "base_layers", "base_sublayers", "base_shuffle"),
    *("encoder_layers_to_keep", "decoder_layers_to_keep"),
    *("encoder_xformers_att_config", "decoder_xformers_att_config"),
}
_NESTED = {"encoder": EncoderConfig, "decoder": DecoderConfig, "quant_noise": QuantNoiseConfig}

_PROBABILITIES = (
    *("dropout", "attention_dropout", "activation_dropout", "adaptive_softmax_dropout"),
    *("encoder_layerdrop", "decoder_layerdrop", "quant_noise_pq"),
)

_NO_ADAPTIVE_INPUT = "fairseq's --adaptive-input, which these models do not have"
_TIED = {("decoder_output_dim", "decoder_embed_dim"): "an output layer as wide as the embeddings"}

_CHECKS: Dict[str, Dict[str, Any]] = {
    **{name: {"bounds": PROBABILITY} for name in _PROBABILITIES},
    **{
        f"{side}_{name}": {"bounds": SIZE}
        for side in ("encoder", "decoder")
        for name in ("layers", "embed_dim", "ffn_embed_dim", "attention_heads")
    },
    "decoder_output_dim": {"bounds": SIZE},
    "quant_noise_scalar": {"needs": ("fairseq's own embeddings: give --quant-noise-pq",)},
    "pointer": {"excludes": {"--adaptive-softmax-cutoff": "a pointer mixes distributions over all words; choose one"}},
    "adaptive_softmax_dropout": {"bounds": PROBABILITY, "needs": ("--adaptive-softmax-cutoff",)},
    "adaptive_softmax_factor": {"needs": ("--adaptive-softmax-cutoff",)},
    "quant_noise_pq_block_size": {"bounds": SIZE, "needs": ("--quant-noise-pq",)},
    "share_all_embeddings": {"equal": _TIED},
    "share_decoder_input_output_embed": {"equal": _TIED},
    "decoder_input_dim": {"equal": {("decoder_input_dim", "decoder_embed_dim"): "the width of summaries' embeddings"}},
    "tie_adaptive_weights": {"needs": (_NO_ADAPTIVE_INPUT,)},
    "tie_adaptive_proj": {"needs": (_NO_ADAPTIVE_INPUT,)},
    "no_decoder_final_norm": {"needs": ("--decoder-normalize-before",)},
}
"""Bounds and requirements of fairseq's own options; see :mod:`fairseq_etads.platform.command_options`."""
_ONLY_NEW = (
    "adaptive_softmax_dropout",
    "adaptive_softmax_factor",
    "quant_noise_pq_block_size",
    "no_decoder_final_norm",
    "decoder_input_dim",
    "tie_adaptive_weights",
    "tie_adaptive_proj",
    "attention_kernel",
)
"""Options that are not checked when a checkpoint is loaded, because earlier versions did not check them in training."""

# ETADS, section 4.1. The paper's "dropout rate 0.8" is the probability of keeping a value. The encoder, the
# decoder and the output layer share one word embedding table.
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
    # By default, the decoder is as wide as the encoder, and the number of positions equals the maximum text length
    # after truncation.
    "decoder_embed_dim": II("model.encoder_embed_dim"),
    "decoder_ffn_embed_dim": II("model.encoder_ffn_embed_dim"),
    "decoder_input_dim": II("model.decoder_embed_dim"),
    "decoder_output_dim": II("model.decoder_embed_dim"),
    "max_source_positions": 0,
    "max_target_positions": 0,
}
_HELP = {
    "max_source_positions": "maximum number of tokens in a document (default 0: --truncate-source plus the end symbol)",
    "max_target_positions": "maximum number of tokens in a summary (default 0: --truncate-target plus the end symbol)",
}

_PLAIN: Dict[str, Any] = {"focus_layers": "none", "saliency_layers": "none"}
_SINUSOIDAL: Dict[str, Any] = {"encoder_learned_pos": False, "decoder_learned_pos": False}
# ES-Trans, section 4.3. Documents and summaries have separate vocabularies.
_ES_TRANS: Dict[str, Any] = {
    **_PLAIN,
    **_SINUSOIDAL,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_embed_dim": 256,
    "encoder_ffn_embed_dim": 1024,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "share_all_embeddings": False,
    "dropout": 0.1,
    "share_encoder_decoder_layers": True,
}
# The options of fairseq's bart_large and bart_base (models/bart/model.py), so that --init-from can load their weights.
# The ETADS mechanisms use variants that are initially equivalent to plain attention, so that training starts from an
# unchanged BART (docs/bart.md).
_BART_LARGE: Dict[str, Any] = {
    "focus_strength": "learned",
    "saliency_gate": "open",
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_embed_dim": 1024,
    "encoder_ffn_embed_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "max_source_positions": 1024,
    "max_target_positions": 1024,
    "layernorm_embedding": True,
    "no_scale_embedding": True,
    "share_decoder_input_output_embed": True,
    "activation_fn": "gelu",
    "dropout": 0.1,
}
_BART_BASE: Dict[str, Any] = {
    **_BART_LARGE,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_embed_dim": 768,
    "encoder_ffn_embed_dim": 3072,
    "encoder_attention_heads": 12,
    "decoder_attention_heads": 12,
}

PRESETS: Dict[str, Dict[str, Any]] = {
    # ETADS, Table 2
    "etads": {},
    "etads_basic": _PLAIN,
    "etads_focus": {"saliency_layers": "none"},
    "etads_saliency": {"focus_layers": "none"},
    # Aggregation Transformer, section 4.1: "all dropout = 0.1". The paper does not state the width, so the width of
    # ETADS is used.
    "aggregation_transformer": {
        **_PLAIN,
        **_SINUSOIDAL,
        "aggregation": "attn",
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "activation_dropout": 0.1,
    },
    "es_transformer": _ES_TRANS,
    "gated_es_transformer": {**_ES_TRANS, "encoder_gate": True},
    "etads_bart_base": _BART_BASE,
    "etads_bart_large": _BART_LARGE,
}
"""A dictionary from the name of each architecture to the defaults that it changes. The defaults describe ETADS."""


def parse_layer_numbers(value: str, count: int, option: str) -> FrozenSet[int]:
    """Parse "all", "none", or 1-based layer numbers such as "1,3-4", and return 0-based indices of ``count`` layers.

    Raises:
        ValueError: the list is malformed or contains a layer that does not exist. The message names ``option``.
    """
    text = str(value).strip()
    if text in ("all", "none"):
        return frozenset(range(count)) if text == "all" else frozenset()
    chosen: Set[int] = set()
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f'{option} "{value}": "{part}" is not a layer; choose {LAYERS_HELP}')
        low, high = int(first), int(last or first)
        if not 1 <= low <= high <= count:
            raise ValueError(
                f'{option} "{value}": "{part}" is not among the layers 1-{count} of this model; choose {LAYERS_HELP}'
            )
        chosen.update(range(low - 1, high))
    return frozenset(chosen)


def _iterate_flat_fields() -> Iterator[Tuple[str, Any, "Field[Any]"]]:
    """Yield the name, type and field of each option. Nested names are flattened to names such as encoder_layers."""
    for outer in fields(SummarizationTransformerConfig):
        if outer.name not in _NESTED:
            yield outer.name, outer.type, outer
            continue
        for inner in fields(_NESTED[outer.name]):
            yield f"{outer.name}_{inner.name}", inner.type, inner


def _make_flat_config() -> type:
    options = []
    for name, kind, source in _iterate_flat_fields():
        if not name.endswith("_name") and name not in _LEFT_OUT:
            metadata = {"help": name.replace("_", " "), **source.metadata, **_CHECKS.get(name, {})}
            metadata["help"] = _HELP.get(name, metadata["help"])
            options.append((name, kind, option(_PAPER.get(name, source.default), **metadata)))
    return make_dataclass(
        "FlatTransformerConfig", options, bases=(FairseqDataclass,), namespace={"__module__": __name__}
    )


FlatTransformerConfig = _make_flat_config()
"""All options with the paper's defaults in one flat dataclass, for fairseq's command line (--encoder-layers) and Hydra
(model.encoder_layers).
"""


def check_transformer_options(config: SummarizationTransformerConfig, task: Any) -> None:
    """Raise ValueError if options are incompatible with each other or with the task's data.

    A variant of focus-attention or of the gate that a preset chooses may be without effect, so that users can remove
    the layers without changing the variant.
    """
    values = SimpleNamespace(**{name: getattr(config, name) for name, _, _ in _iterate_flat_fields()})
    preset = PRESETS.get(str(getattr(config, "_name", "")), {})
    skip = [name for name in ("focus_strength", "saliency_gate") if str(getattr(config, name)) == preset.get(name)]
    skip += _ONLY_NEW if task.is_loading else ()
    check_options(values, FlatTransformerConfig, list_data_properties(task), skip)
    parse_focus_scopes(config.focus_initial_scope, config.encoder.attention_heads)
    for side in ("encoder", "decoder"):
        width, heads = getattr(values, f"{side}_embed_dim"), getattr(values, f"{side}_attention_heads")
        if width % heads:
            raise ValueError(
                f"--{side}-attention-heads {heads} does not divide --{side}-embed-dim {width}: each head has an equal "
                "share of the width"
            )
    block = values.quant_noise_pq_block_size
    for name in (f"{side}_{size}" for side in ("encoder", "decoder") for size in ("embed_dim", "ffn_embed_dim")):
        if values.quant_noise_pq and getattr(values, name) % block:
            shown = format_option(name, getattr(values, name))
            raise ValueError(f"--quant-noise-pq-block-size {block} does not divide {shown}")
    count, layers = config.aggregation_layers, config.encoder.layers
    if str(config.aggregation) != "none" and not 1 <= count < layers:
        choices = f"1 to {layers - 1}" if layers > 1 else "an encoder with more layers"
        raise ValueError(
            f"--aggregation-layers {count}: an encoder with {layers} layers has {layers - 1} before the last one; "
            f"choose {choices}"
        )
