"""Options and presets of ABS (Rush et al. 2015)."""

from dataclasses import dataclass
from typing import Any, Dict

from ...models.common import PointerOptions
from ...platform.option_checks import NOT_NEGATIVE, SIZE, Bounds, option


@dataclass
class NeuralLanguageModelConfig(PointerOptions):
    """Options of ABS. The letters in the help texts refer to the equations in ``model.py``."""

    encoder_embed_dim: int = option(
        200, "dimension of the document word embeddings (F in Rush et al. 2015)", bounds=SIZE
    )
    encoder_window: int = option(
        5,
        "size, in words, of the window over which document word embeddings are averaged (must be odd)",
        bounds=Bounds(1, odd=True),
    )
    source_marks: int = option(
        3,
        "number of begin symbols before each document, and of end symbols after it, that can receive "
        "attention (0: only the usual end symbol)",
        bounds=NOT_NEGATIVE,
    )
    context_size: int = option(
        5,
        "number of preceding summary words (C in Rush et al. 2015) from which the next word is predicted",
        bounds=SIZE,
    )
    decoder_embed_dim: int = option(
        200, "dimension of the summary word embeddings (E in Rush et al. 2015)", bounds=SIZE
    )
    decoder_context_dim: int = option(
        200,
        "dimension of the embeddings of preceding summary words in the attention query (G in Rush et al. 2015)",
        bounds=SIZE,
    )
    decoder_hidden_size: int = option(
        400, "dimension of the language model's hidden layer (h in Rush et al. 2015)", bounds=SIZE
    )
    max_row_norm: float = option(
        1.0,
        "maximum norm of word embeddings; embeddings with a larger norm are scaled down before each epoch (0: off)",
        bounds=NOT_NEGATIVE,
    )


PRESETS: Dict[str, Dict[str, Any]] = {"abs": {}}
"""Mapping from the name of each architecture to the defaults that it changes."""
