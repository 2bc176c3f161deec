"""Options of ABS (Rush et al. 2015), checks of these options, and presets."""

from dataclasses import dataclass, field, fields
from typing import Any, Dict

from ...models.common import PointerOptions, check_pointer_dictionary, make_preset_dataclass
from ...platform.option_checks import NOT_NEGATIVE, SIZE, check_option_requirements, check_option_values


@dataclass
class NeuralLanguageModelConfig(PointerOptions):
    """Options of ABS. The letters in the help texts refer to the equations in ``model.py``."""

    encoder_embed_dim: int = field(
        default=200,
        metadata={"bounds": SIZE, "help": "dimension of the document word embeddings (F in Rush et al. 2015)"},
    )
    encoder_window: int = field(
        default=5,
        metadata={
            "help": "size, in words, of the window over which document word embeddings are averaged (must be odd)"
        },
    )
    source_marks: int = field(
        default=3,
        metadata={
            "bounds": NOT_NEGATIVE,
            "help": "number of begin symbols before each document, and of end symbols after it, that can receive "
            "attention (0: only the usual end symbol)",
        },
    )
    context_size: int = field(
        default=5,
        metadata={
            "bounds": SIZE,
            "help": "number of preceding summary words (C in Rush et al. 2015) from which the next word is predicted",
        },
    )
    decoder_embed_dim: int = field(
        default=200,
        metadata={"bounds": SIZE, "help": "dimension of the summary word embeddings (E in Rush et al. 2015)"},
    )
    decoder_context_dim: int = field(
        default=200,
        metadata={
            "bounds": SIZE,
            "help": "dimension of the embeddings of preceding summary words in the attention query (G in Rush et al. "
            "2015)",
        },
    )
    decoder_hidden_size: int = field(
        default=400,
        metadata={"bounds": SIZE, "help": "dimension of the language model's hidden layer (h in Rush et al. 2015)"},
    )
    max_row_norm: float = field(
        default=1.0,
        metadata={
            "bounds": NOT_NEGATIVE,
            "help": "maximum norm of word embeddings; embeddings with a larger norm are scaled down before each "
            "epoch (0: off)",
        },
    )


PRESETS: Dict[str, Dict[str, Any]] = {"abs": {}}
"""Mapping from the name of each architecture to the defaults that it changes."""


# Rush et al. 2015 and their released code use plain gradient descent. If the validation loss does not improve in an
# epoch, they halve the learning rate.
TRAINING: Dict[str, Any] = {
    "task": {"truncate_source": 100, "truncate_target": 50},
    "optimizer": {"_name": "nag", "momentum": 0.0},  # fairseq's sgd has no Hydra options
    "lr_scheduler": {"_name": "reduce_lr_on_plateau", "lr_shrink": 0.5},
    "optimization": {"lr": [0.1], "max_epoch": 20},
    "dataset": {"batch_size": 64, "validate_interval_updates": -1},
}
"""Configuration sections for training this architecture."""


def make_preset_config(name: str, **changes: Any) -> type:
    """Create a dataclass that contains all options with a preset's defaults."""
    declared = (option for option in fields(NeuralLanguageModelConfig) if option.name != "_name")
    options = [(o.name, o.type, o.default, dict(o.metadata)) for o in declared]
    return make_preset_dataclass(name, options, changes, __name__)


def check_options(cfg: Any, task: Any) -> None:
    """Raise ValueError if an option is invalid or is incompatible with another option or with the data."""
    check_option_values(cfg, NeuralLanguageModelConfig)
    check_option_requirements(cfg, NeuralLanguageModelConfig)
    if cfg.encoder_window < 1 or cfg.encoder_window % 2 == 0:
        raise ValueError(f"--encoder-window {cfg.encoder_window}: choose an odd number")
    check_pointer_dictionary(cfg, task)
