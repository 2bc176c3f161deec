"""Options of the convolutional family (Gehring et al. 2017), checks of these options, and presets."""

import ast
from dataclasses import dataclass, field, fields
from typing import Any, Dict, List, Optional, Union

from ...models.common import PointerOptions, check_pointer_dictionary, check_right_padding, make_preset_dataclass
from ...models.convolutions import LAYERS_HELP
from ...platform.option_checks import PROBABILITY, SIZE, check_option_requirements, check_option_values


@dataclass
class ConvolutionalConfig(PointerOptions):
    """Options of the convolutional family: fairseq's ``fconv`` options with the same defaults, and pointer options."""

    dropout: float = field(
        default=0.1,
        metadata={
            "bounds": PROBABILITY,
            "help": "dropout probability for word embeddings, layer inputs and the decoder output",
        },
    )
    encoder_embed_dim: int = field(
        default=512, metadata={"bounds": SIZE, "help": "dimension of the document word embeddings"}
    )
    encoder_embed_path: Optional[str] = field(
        default=None, metadata={"help": "path to pretrained document word embeddings in word2vec's text format"}
    )
    encoder_layers: str = field(default="[(512, 3)] * 20", metadata={"help": f"encoder {LAYERS_HELP}"})
    decoder_embed_dim: int = field(
        default=512,
        metadata={
            "bounds": SIZE,
            "help": "dimension of the summary word embeddings; must be equal to --encoder-embed-dim",
        },
    )
    decoder_embed_path: Optional[str] = field(
        default=None, metadata={"help": "path to pretrained summary word embeddings in word2vec's text format"}
    )
    decoder_layers: str = field(default="[(512, 3)] * 20", metadata={"help": f"decoder {LAYERS_HELP}"})
    decoder_out_embed_dim: int = field(
        default=256, metadata={"bounds": SIZE, "help": "dimension of the input to the output layer"}
    )
    decoder_attention: str = field(
        default="True",
        metadata={
            "help": "decoder layers that attend to the document: True (all layers), or a list of one value per "
            'layer, such as "[True, False]"'
        },
    )
    share_input_output_embed: bool = field(
        default=False, metadata={"help": "tie the weights of the output layer to the summary word embeddings"}
    )
    max_source_positions: Optional[int] = field(
        default=None,
        metadata={
            "help": "maximum number of tokens in a document, including the end symbol (default: determined by "
            "--truncate-source)"
        },
    )
    max_target_positions: Optional[int] = field(
        default=None,
        metadata={
            "help": "maximum number of tokens in a summary, including the end symbol (default: determined by "
            "--truncate-target)"
        },
    )


PRESETS: Dict[str, Dict[str, Any]] = {
    "convs2s": {},  # the defaults of fairseq's fconv, which Narayan et al. 2018 use on XSum
    "convs2s_gigaword": {
        "encoder_embed_dim": 256,
        "encoder_layers": "[(256, 3)] * 6",
        "decoder_embed_dim": 256,
        "decoder_layers": "[(256, 3)] * 6",
    },
    "convs2s_cnndm": {
        "dropout": 0.2,
        "encoder_embed_dim": 340,
        "encoder_layers": "[(512, 3)] * 8",
        "decoder_embed_dim": 340,
        "decoder_layers": "[(512, 3)] * 8",
    },
}
"""Mapping from the name of each architecture to the defaults that it changes.

The settings for Gigaword are from Gehring et al. 2017, and those for CNN/Daily Mail are from Fan et al. 2017.
"""


# As in Gehring et al. 2017, section 4.2, the learning rate is divided by 10 after each epoch in which the validation
# loss does not improve. Training ends when the learning rate reaches 1e-4.
TRAINING: Dict[str, Any] = {
    "optimizer": {"_name": "nag", "momentum": 0.99},
    "lr_scheduler": {"_name": "reduce_lr_on_plateau", "lr_shrink": 0.1},
    "optimization": {"lr": [0.25], "clip_norm": 0.1, "stop_min_lr": 1e-4, "max_epoch": 100},
    "dataset": {"batch_size": 64, "validate_interval_updates": -1},
}
"""Configuration sections for training these architectures."""
TRAININGS: Dict[str, Dict[str, Any]] = {
    "convs2s": {  # the XSum settings of Narayan et al. 2018, who also use a dropout of 0.2
        "task": {"truncate_source": 400, "truncate_target": 90},
        "optimization": {"lr": [0.1], "stop_min_lr": 1e-5},
        "dataset": {"batch_size": 32},
    },
    "convs2s_gigaword": {"task": {"truncate_source": 200, "truncate_target": 30}},
    "convs2s_cnndm": {"optimization": {"lr": [0.2]}, "dataset": {"batch_size": 32}},
}
"""Mapping from the name of each architecture to its changes to :data:`TRAINING`.

The recipes use the same settings.
"""


def make_preset_config(name: str, **changes: Any) -> type:
    """Create a dataclass that contains all options with a preset's defaults."""
    options = [(o.name, o.type, o.default, dict(o.metadata)) for o in fields(ConvolutionalConfig) if o.name != "_name"]
    return make_preset_dataclass(name, options, changes, __name__)


def parse_attention_layers(text: str, layers: int) -> Union[bool, List[bool]]:
    """Parse ``--decoder-attention``, which selects the decoder layers that attend to the document.

    Args:
        text: "True", or a list that contains True or False for each layer.
        layers: the number of decoder layers.

    Raises:
        ValueError: the text has a different format, or no layer attends to the document.
    """
    try:
        value = ast.literal_eval(str(text).strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    flags = [value] * layers if isinstance(value, bool) else value
    if not (isinstance(flags, list) and len(flags) == layers and all(isinstance(flag, bool) for flag in flags)):
        raise ValueError(
            f'--decoder-attention "{str(text)[:200]}": choose True, or a list of True and False for each of the '
            f"{layers} layers of the decoder"
        )
    if not any(flags):
        raise ValueError(f'--decoder-attention "{text}": at least one layer of the decoder must attend to the document')
    return value if isinstance(value, bool) else flags


def check_options(cfg: Any, task: Any) -> None:
    """Raise ValueError if an option is invalid or is incompatible with another option or with the data."""
    check_option_values(cfg, ConvolutionalConfig)
    check_option_requirements(cfg, ConvolutionalConfig)
    if cfg.encoder_embed_dim != cfg.decoder_embed_dim:
        raise ValueError(
            f"--encoder-embed-dim {cfg.encoder_embed_dim} and --decoder-embed-dim {cfg.decoder_embed_dim}: the widths "
            "must be equal, because attention takes dot products of encoder and decoder vectors"
        )
    if cfg.share_input_output_embed and cfg.decoder_out_embed_dim != cfg.decoder_embed_dim:
        raise ValueError(
            "--share-input-output-embed needs an output layer as wide as word vectors, but --decoder-out-embed-dim is "
            f"{cfg.decoder_out_embed_dim} and --decoder-embed-dim is {cfg.decoder_embed_dim}"
        )
    check_pointer_dictionary(cfg, task)
    check_right_padding(task)
