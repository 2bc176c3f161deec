"""The options of the Transformer family, checks of these options, and presets.

One flat dataclass contains the options of fairseq's ``TransformerConfig`` and the options of this project's mechanisms.
A named architecture is a preset that changes some of the defaults.
"""

from dataclasses import Field, dataclass, field, fields
from typing import Any, Dict, FrozenSet, Iterator, Set, Tuple

from fairseq.dataclass import ChoiceEnum
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_config import DecoderConfig as FairseqDecoderConfig
from fairseq.models.transformer.transformer_config import EncDecBaseConfig, QuantNoiseConfig
from omegaconf import II

from ..attention import GATES, KERNELS
from ..layers.aggregation import AGGREGATIONS
from ..layers.encoder_attention import CENTERS, SCOPES_HELP, STRENGTHS, parse_focus_scopes
from ..platform.option_checks import (
    NOT_NEGATIVE,
    PROBABILITY,
    SIZE,
    check_option_requirements,
    check_option_values,
    format_option_name,
)
from .common import PointerOptions, check_pointer_dictionary, make_preset_dataclass
from .source_factors import HELP as FACTORS_HELP

BIAS_INITS = ("zeros", "frequencies")
LAYERS_HELP = '"all", "none", or layer numbers, counted from 1, such as "1-2" or "1,3-4"'


@dataclass
class EncoderConfig(EncDecBaseConfig):
    """Encoder options, which fairseq stores in a nested config. Flat option names start with ``encoder_``."""

    gate: bool = field(
        default=False,
        metadata={
            "help": "multiply each encoder state by a gate that is computed from this state and the document's last "
            "state"
        },
    )
    neighbours: int = field(
        default=0,
        metadata={
            "bounds": NOT_NEGATIVE,
            "excludes": {"--no-token-positional-embeddings": "choose one"},
            "help": "number of neighbouring words on each side: add linear projections of their embeddings to the "
            "embedding of each word, with weights initialised to zero (0: off)",
        },
    )


@dataclass
class DecoderConfig(FairseqDecoderConfig):
    """Decoder options, which fairseq stores in a nested config. Flat option names start with ``decoder_``."""

    neighbours: int = field(
        default=0,
        metadata={
            "bounds": NOT_NEGATIVE,
            "excludes": {"--no-token-positional-embeddings": "choose one"},
            "help": "number of preceding words: add linear projections of their embeddings to the embedding of each "
            "word, with weights initialised to zero (0: off)",
        },
    )


@dataclass
class SummarizationTransformerConfig(PointerOptions, TransformerConfig):
    """The options of fairseq's TransformerConfig and of this project's mechanisms."""

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    focus_layers: str = field(
        default="all", metadata={"help": f"encoder layers that use focus-attention: {LAYERS_HELP}"}
    )
    saliency_layers: str = field(
        default="all", metadata={"help": f"decoder layers that use saliency-selection: {LAYERS_HELP}"}
    )
    focus_center: ChoiceEnum(CENTERS) = field(  # type: ignore[valid-type]
        default="absolute",
        metadata={
            "help": "position of the centres of focus-attention. absolute: anywhere in the document (as in the ETADS "
            "paper); relative: near the query; at first, the heads are centred on the query and its neighbours"
        },
    )
    focus_initial_scope: str = field(default="half", metadata={"help": SCOPES_HELP})
    focus_strength: ChoiceEnum(STRENGTHS) = field(  # type: ignore[valid-type]
        default="fixed",
        metadata={
            "help": "factor that multiplies the bias of focus-attention. fixed: 1 (as in the ETADS paper); learned: "
            "one factor per head, initially 0, so that the model starts as a plain Transformer"
        },
    )
    attention_kernel: ChoiceEnum(KERNELS) = field(  # type: ignore[valid-type]
        default="auto",
        metadata={
            "help": "kernel for computing focus-attention. auto: the fastest kernel that is known to be exact on the "
            "device; fused: fused attention, with the bias encoded in additional columns of the queries and keys (if "
            "it is not known to be exact, a warning is logged and plain is used); plain: attention with a matrix of "
            "biases, one for each pair of words; flex: as auto, for models trained with earlier versions"
        },
    )
    saliency_gate: ChoiceEnum(GATES) = field(  # type: ignore[valid-type]
        default="sigmoid",
        metadata={
            "help": "gate of saliency-selection. sigmoid: gate values between 0 and 1 (as in the ETADS paper); open: "
            "gate values between 0 and 2; normalised: as open, but the gated attention weights are rescaled to sum to "
            "1. At the start of training, open and normalised are equivalent to plain attention"
        },
    )
    pointer_initial_generate: float = field(
        default=0.0,
        metadata={
            "bounds": PROBABILITY,
            "needs": ("--pointer soft", "--pointer switch"),
            "help": "initial probability of generating a word instead of copying one, such as 0.99 for a pretrained "
            "decoder (default 0: leave it at about one half)",
        },
    )
    aggregation: ChoiceEnum(AGGREGATIONS) = field(  # type: ignore[valid-type]
        default="none",
        metadata={
            "excludes": {"--encoder-layerdrop": "aggregation needs the states of every layer; choose one"},
            "help": "how to combine the states of earlier encoder layers with the states of the last layer. add: sum "
            "the states; proj: attend to the last layer with a projection of the earlier states as the query; attn: "
            "attend to one layer after another",
        },
    )
    aggregation_layers: int = field(
        default=1,
        metadata={
            "needs": tuple(f"--aggregation {kind}" for kind in AGGREGATIONS[1:]),
            "help": "number of earlier encoder layers that --aggregation combines with the last layer (L in Liao et "
            "al. 2019)",
        },
    )
    share_encoder_decoder_layers: bool = field(
        default=False,
        metadata={"help": "share the self-attention and feed-forward sublayers between encoder and decoder layers"},
    )
    output_bias: bool = field(
        default=False,
        metadata={
            "excludes": {"--adaptive-softmax-cutoff": "that softmax has a separate output layer; choose one"},
            "help": "add a learned bias for each word to the output layer (b_o in the papers)",
        },
    )
    output_bias_init: ChoiceEnum(BIAS_INITS) = field(  # type: ignore[valid-type]
        default="zeros",
        metadata={
            "needs": ("--output-bias",),
            "help": "initial values of the biases added by --output-bias. zeros: 0; frequencies: the logarithm of "
            "each word's relative frequency in the training summaries",
        },
    )
    embed_from_text: bool = field(
        default=False,
        metadata={
            "excludes": {"--encoder-embed-path": "choose one", "--decoder-embed-path": "choose one"},
            "help": "initialise word embeddings from the training text with a truncated singular value decomposition "
            "of the words' positive pointwise mutual information, which takes a few seconds",
        },
    )
    source_factors: str = field(
        default="none",
        metadata={
            "help": FACTORS_HELP.format("--encoder-embed-dim")
            + ". Factor embeddings are added to word embeddings, after a linear projection if the dimensions differ"
        },
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

_CHECKS: Dict[str, Dict[str, Any]] = {
    **{name: {"bounds": PROBABILITY} for name in _PROBABILITIES},
    **{
        f"{side}_{name}": {"bounds": SIZE}
        for side in ("encoder", "decoder")
        for name in ("layers", "embed_dim", "ffn_embed_dim", "attention_heads")
    },
    "decoder_output_dim": {"bounds": SIZE},
    "pointer": {"excludes": {"--adaptive-softmax-cutoff": "a pointer mixes distributions over all words; choose one"}},
    "adaptive_softmax_dropout": {"bounds": PROBABILITY, "needs": ("--adaptive-softmax-cutoff",)},
    "adaptive_softmax_factor": {"needs": ("--adaptive-softmax-cutoff",)},
    "quant_noise_pq_block_size": {"needs": ("--quant-noise-pq",)},
    "no_decoder_final_norm": {"needs": ("--decoder-normalize-before",)},
}
"""Bounds and requirements of fairseq's own options; see :mod:`fairseq_etads.platform.option_checks`."""
_ONLY_NEW = (
    "adaptive_softmax_dropout",
    "adaptive_softmax_factor",
    "quant_noise_pq_block_size",
    "no_decoder_final_norm",
)
"""Options that are not checked when a checkpoint is loaded, because earlier versions did not check them in training."""

# Options that select variants of focus-attention and of the saliency gate. The defaults match the paper.
_FORMS = {
    "focus_center": "absolute",
    "focus_initial_scope": "half",
    "focus_strength": "fixed",
    "saliency_gate": "sigmoid",
}

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
    """Parse a list of 1-based layer numbers, and return 0-based layer indices.

    Args:
        value: "all", "none", or numbers and ranges such as "1,3-4".
        count: the number of layers.
        option: the option name, for error messages.

    Raises:
        ValueError: the list is malformed or contains a layer that does not exist.
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


def make_preset_config(name: str, **changes: Any) -> type:
    """Create a flat dataclass with all options. ``changes`` overrides the paper's defaults.

    fairseq's command line (--encoder-layers) and Hydra (model.encoder_layers) can both read flat dataclasses.
    """
    options = []
    for option, kind, source in _iterate_flat_fields():
        if option.endswith("_name") or option in _LEFT_OUT:
            continue
        metadata = {**source.metadata, **_CHECKS.get(option, {})}
        metadata["help"] = _HELP.get(option, metadata.get("help", option.replace("_", " ")))
        options.append((option, kind, source.default, metadata))
    return make_preset_dataclass(name, options, {**_PAPER, **changes}, __name__)


_DECLARED = make_preset_config("options")
"""All options with their metadata."""


def check_options(config: SummarizationTransformerConfig, task: Any) -> None:
    """Check that the options are compatible with each other and with the task's data.

    Raises:
        ValueError: options are incompatible. The message lists their names, their values and the valid choices.
    """
    values = _FlatConfigView(config)
    check_option_values(values, _DECLARED)
    check_option_requirements(values, _DECLARED, skip=_ONLY_NEW if task.is_loading else ())
    _check_inherited_options(config, is_new=not task.is_loading)
    check_pointer_dictionary(config, task)
    _check_attention_options(config)
    if not task.is_loading:
        _check_attention_kernel(config)
    _check_aggregation(config)
    if config.share_encoder_decoder_layers:
        _check_layer_sharing(config)


class _FlatConfigView:
    """A view of a nested config that has the flat option names of the command line as attributes."""

    def __init__(self, config: Any):
        for name, _, _ in _iterate_flat_fields():
            setattr(self, name, getattr(config, name))


def _check_attention_options(config: SummarizationTransformerConfig) -> None:
    """Raise ValueError if a variant of focus-attention or the gate has no effect, or if a scope is invalid.

    A variant has no effect in a model without the corresponding layers. In this case, the variant in the preset is
    still accepted, so that users can remove the layers without changing the variant.
    """
    parse_focus_scopes(config.focus_initial_scope, config.encoder.attention_heads)
    preset = PRESETS.get(str(getattr(config, "_name", "")), {})
    for option, default in _FORMS.items():
        layers = f"{option.split('_')[0]}_layers"
        value, flag = str(getattr(config, option)), option.replace("_", "-")
        if value not in (default, preset.get(option)) and str(getattr(config, layers)).strip() == "none":
            raise ValueError(f"--{flag} {value} has no effect with --{layers.replace('_', '-')} none: choose layers")


def _check_attention_kernel(config: SummarizationTransformerConfig) -> None:
    """Raise ValueError if --attention-kernel has no effect."""
    if str(config.attention_kernel) != "auto" and str(config.focus_layers).strip() == "none":
        raise ValueError(
            f"--attention-kernel {config.attention_kernel} has no effect with --focus-layers none: choose layers"
        )


def _check_aggregation(config: SummarizationTransformerConfig) -> None:
    """Raise ValueError if --aggregation-layers exceeds the number of encoder layers before the last layer."""
    count, layers = config.aggregation_layers, config.encoder.layers
    if str(config.aggregation) != "none" and not 1 <= count < layers:
        choices = f"1 to {layers - 1}" if layers > 1 else "an encoder with more layers"
        raise ValueError(
            f"--aggregation-layers {count}: an encoder with {layers} layers has {layers - 1} before the last one; "
            f"choose {choices}"
        )


def _check_layer_sharing(config: SummarizationTransformerConfig) -> None:
    """Raise ValueError if the encoder and the decoder cannot share layers because their shapes differ."""
    for name in ("layers", "embed_dim", "ffn_embed_dim", "attention_heads", "normalize_before"):
        encoder, decoder = getattr(config.encoder, name), getattr(config.decoder, name)
        if encoder != decoder:
            option = name.replace("_", "-")
            raise ValueError(
                f"--share-encoder-decoder-layers needs an encoder and a decoder of equal shape, but --encoder-{option} "
                f"is {encoder} and --decoder-{option} is {decoder}"
            )


def _check_inherited_options(config: Any, is_new: bool) -> None:
    """Check fairseq's own options.

    Args:
        config: the options, an instance of TransformerConfig.
        is_new: whether a new model is built for training. If the model is loaded from a checkpoint instead, options
            that have no effect are accepted.

    Raises:
        ValueError: an option has an invalid value, is incompatible with another option, or has no effect.
    """
    for side in ("encoder", "decoder"):
        part = getattr(config, side)
        width, heads = part.embed_dim, part.attention_heads
        if width % heads:
            raise ValueError(
                f"--{side}-attention-heads {heads} does not divide --{side}-embed-dim {width}: each head has an equal "
                "share of the width"
            )
    if config.quant_noise_scalar:
        raise ValueError(
            f"--quant-noise-scalar {config.quant_noise_scalar} works only with fairseq's own embeddings: choose "
            "--quant-noise-pq"
        )
    block = config.quant_noise_pq_block_size
    for option in (f"{side}_{name}" for side in ("encoder", "decoder") for name in ("embed_dim", "ffn_embed_dim")):
        if config.quant_noise_pq and (block < 1 or getattr(config, option) % block):
            raise ValueError(
                f"--quant-noise-pq-block-size {block} does not divide "
                f"{format_option_name(option)} {getattr(config, option)}"
            )
    for option in ("tie_adaptive_weights", "tie_adaptive_proj"):
        if is_new and getattr(config, option):
            raise ValueError(
                f"{format_option_name(option)} needs fairseq's --adaptive-input, which these models do not have"
            )
    if is_new and config.decoder_input_dim != config.decoder_embed_dim:
        raise ValueError(
            f"--decoder-input-dim {config.decoder_input_dim} has no effect: summaries' word vectors have "
            f"--decoder-embed-dim {config.decoder_embed_dim}"
        )
    _check_output_width(config)


def _check_output_width(config: Any) -> None:
    """Raise ValueError if the embeddings are shared with an output layer of a different width."""
    width, wanted = config.decoder_embed_dim, config.decoder_output_dim
    for option in ("share_all_embeddings", "share_decoder_input_output_embed"):
        if width != wanted and getattr(config, option):
            raise ValueError(
                f"{format_option_name(option)} needs an output layer as wide as the embeddings, but "
                f"--decoder-output-dim is {wanted} and --decoder-embed-dim {width}"
            )
