"""The options of ABS (Rush et al. 2015), its presets, and what the options must fulfil."""

from dataclasses import dataclass, field, fields
from typing import Any, Dict

from ...models.common import PointerOptions, check_pointer, preset_dataclass


@dataclass
class NeuralLanguageModelConfig(PointerOptions):
    """The options of ABS; the letters are those of the equations in ``model.py``."""

    encoder_embed_dim: int = field(default=200, metadata={"help": "width of the documents' word vectors (F)"})
    encoder_window: int = field(
        default=5, metadata={"help": "how many words around a place of the document are averaged, an odd number"}
    )
    source_marks: int = field(
        default=3,
        metadata={
            "help": "begin symbols before a document and end symbols after it, where attention can rest (0: one end "
            "symbol, as every document has)"
        },
    )
    context_size: int = field(default=5, metadata={"help": "how many of the last words the next one depends on (C)"})
    decoder_embed_dim: int = field(default=200, metadata={"help": "width of the summaries' word vectors (E)"})
    decoder_context_dim: int = field(
        default=200, metadata={"help": "width of the word vectors by which attention sees the last words (G)"}
    )
    decoder_hidden_size: int = field(default=400, metadata={"help": "width of the language model's hidden layer (h)"})
    max_row_norm: float = field(
        default=1.0,
        metadata={"help": "before each epoch, scale longer word vectors to this length (0: leave them as they are)"},
    )


PRESETS: Dict[str, Dict[str, Any]] = {"abs": {}}
"""Named architectures: what each changes in the defaults."""


def preset_config(name: str, **changes: Any) -> type:
    """A dataclass of all options with the preset's defaults."""
    declared = (option for option in fields(NeuralLanguageModelConfig) if option.name != "_name")
    options = [(o.name, o.type, o.default, dict(o.metadata)) for o in declared]
    return preset_dataclass(name, options, changes, __name__)


def check_options(cfg: Any, task: Any) -> None:
    """Raise ValueError for an option that makes no sense alone, with the others, or with the data."""
    for option, least in (
        ("encoder_embed_dim", 1),
        ("decoder_embed_dim", 1),
        ("decoder_context_dim", 1),
        ("decoder_hidden_size", 1),
        ("context_size", 1),
        ("source_marks", 0),
        ("max_row_norm", 0),
    ):
        value = getattr(cfg, option)
        if not value >= least:
            raise ValueError(f"--{option.replace('_', '-')} {value}: choose {least} or more")
    if cfg.encoder_window < 1 or cfg.encoder_window % 2 == 0:
        raise ValueError(f"--encoder-window {cfg.encoder_window}: choose an odd number")
    check_pointer(cfg, task)
