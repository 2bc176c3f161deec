"""Options and presets of the convolutional family (Gehring et al. 2017)."""

import ast
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Union

from ...models.common import PointerOptions
from ...models.convolutions import LAYERS_HELP
from ...platform.option_checks import PROBABILITY, SIZE, option


@dataclass
class ConvolutionalConfig(PointerOptions):
    """Options of the convolutional family: fairseq's ``fconv`` options with the same defaults, and pointer options."""

    dropout: float = option(
        0.1, "dropout probability for word embeddings, layer inputs and the decoder output", bounds=PROBABILITY
    )
    encoder_embed_dim: int = option(512, "dimension of the document word embeddings", bounds=SIZE)
    encoder_embed_path: Optional[str] = option(
        None, "path to pretrained document word embeddings in word2vec's text format"
    )
    encoder_layers: str = option("[(512, 3)] * 20", f"encoder {LAYERS_HELP}")
    decoder_embed_dim: int = option(
        512,
        "dimension of the summary word embeddings; must be equal to --encoder-embed-dim",
        bounds=SIZE,
        equal={("encoder_embed_dim", "decoder_embed_dim"): "equal widths, because of attention's dot products"},
    )
    decoder_embed_path: Optional[str] = option(
        None, "path to pretrained summary word embeddings in word2vec's text format"
    )
    decoder_layers: str = option("[(512, 3)] * 20", f"decoder {LAYERS_HELP}")
    decoder_out_embed_dim: int = option(256, "dimension of the input to the output layer", bounds=SIZE)
    decoder_attention: str = option(
        "True",
        "decoder layers that attend to the document: True (all layers), or a list of one value per "
        'layer, such as "[True, False]"',
    )
    share_input_output_embed: bool = option(
        False,
        "tie the weights of the output layer to the summary word embeddings",
        equal={("decoder_out_embed_dim", "decoder_embed_dim"): "an output layer as wide as word vectors"},
    )
    max_source_positions: Optional[int] = option(
        None,
        "maximum number of tokens in a document, including the end symbol (default: determined by --truncate-source)",
    )
    max_target_positions: Optional[int] = option(
        None,
        "maximum number of tokens in a summary, including the end symbol (default: determined by --truncate-target)",
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
