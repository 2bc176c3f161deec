"""The convolutional family (Gehring et al. 2017): fairseq's ``fconv`` with the pointer and search of this project.

The layers, equations and initial weights are the same as in fairseq. Words outside the vocabulary are replaced with the
unknown word before the embedding lookup, but a pointer can copy them. In a search, all hypotheses for a document share
the encoder's output.
"""

import ast
import contextlib
import copy
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

import torch
from fairseq.models.fconv import FConvDecoder, FConvEncoder, FConvModel
from torch import Tensor, nn

from ..data.initial_values import load_word_vectors
from ..kernels.beam_state import BeamState
from ..kernels.linear import iterate_normalised_weights, recompute_weight
from ..layers.decoder_output import (
    DecoderOutput,
    NetOutput,
    PointingDecoder,
    WordRequest,
    multiply_by_document_matrices,
)
from ..layers.embedding import VocabularyEmbedding
from ..layers.pointer import Pointer
from ..models.common import (
    RIGHT_PADDING,
    EncoderDecoderMixin,
    PointerOptions,
    SummarizationModel,
    check_data_suits_architecture,
    compute_position_limit,
    convert_options_to_namespace,
    list_data_properties,
    register_presets,
)
from ..models.external_models import LAYERS_HELP, parse_convolutions
from ..platform.command_options import PROBABILITY, SIZE, check_options, option
from ..vocabulary.dictionary import remove_copy_tail


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
"""Names of architectures and the changed defaults: of Gehring et al. 2017 for Gigaword, Fan et al. 2017 for CNN/DM."""


def parse_attention_layers(text: str, layers: int) -> Union[bool, List[bool]]:
    """Parse ``--decoder-attention``: "True", or a list that tells for each of the layers if it attends to the document.

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


class ConvolutionalEncoder(FConvEncoder):
    """fairseq's convolutional encoder (:class:`FConvEncoder`). Padding on either side does not affect the results."""

    def __init__(self, cfg: Any, dictionary: Any):
        super().__init__(
            dictionary,
            embed_dim=cfg.encoder_embed_dim,
            max_positions=cfg.max_source_positions + dictionary.pad() + 1,  # the first rows are no positions
            convolutions=parse_convolutions(cfg.encoder_layers, "--encoder-layers"),
            dropout=cfg.dropout,
        )
        self.embed_tokens: Any = VocabularyEmbedding(self.embed_tokens, dictionary.unk())

    def forward(self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None) -> Dict[str, Any]:
        """Encode documents (B, S). ``src_lengths`` is ignored.

        Returns a dictionary. "encoder_out" contains two tensors (B, S, E): the states z of the last layer, and (z + e)
        √0.5, where e is the sum of word and position embeddings. "encoder_padding_mask" (B, S) is True at padding, or
        None.
        """
        return {**super().forward(src_tokens, src_lengths), "src_tokens": [src_tokens]}

    def reorder_encoder_out(self, encoder_out: Dict[str, Any], new_order: Tensor) -> Dict[str, Any]:
        """Return the encoder output for the selected documents, including the pointer's inputs."""
        reordered: Dict[str, Any] = super().reorder_encoder_out(dict(encoder_out), new_order)
        reordered["src_tokens"] = [encoder_out["src_tokens"][0].index_select(0, new_order)]
        if "vocabulary" in encoder_out:
            reordered["vocabulary"] = encoder_out["vocabulary"].select(new_order)
        return reordered


class ConvolutionalDecoder(PointingDecoder, FConvDecoder):
    """fairseq's convolutional decoder with a pointer head; see :class:`FConvDecoder`.

    The queries of the pointer's copy attention are the inputs of the output layer. The keys are (z + e) √0.5, which are
    also the values of the decoder's own attention.
    """

    def __init__(self, cfg: Any, dictionary: Any):
        layers = parse_convolutions(cfg.decoder_layers, "--decoder-layers")
        super().__init__(
            dictionary,
            embed_dim=cfg.decoder_embed_dim,
            out_embed_dim=cfg.decoder_out_embed_dim,
            max_positions=cfg.max_target_positions + dictionary.pad() + 1,
            convolutions=layers,
            attention=parse_attention_layers(cfg.decoder_attention, len(layers)),
            dropout=cfg.dropout,
            share_embed=cfg.share_input_output_embed,
        )
        self.embed_tokens: Any = VocabularyEmbedding(self.embed_tokens, dictionary.unk(), len(dictionary))
        self.embed_tokens.is_output_layer = cfg.share_input_output_embed
        # Replace fc3, so that fairseq's forward pass returns the input of the output layer.
        self.output_projection: Any = self.fc3
        self.fc3: Any = nn.Identity()
        for layer in self.attention:
            if layer is not None:
                layer.bmm = multiply_by_document_matrices
        self.pointer: Optional[Pointer] = None
        if str(cfg.pointer) != "none":
            widths = cfg.decoder_out_embed_dim, cfg.encoder_embed_dim
            self.pointer = Pointer(*widths, str(cfg.pointer), continues=cfg.pointer_continue)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Optional[Dict[str, Any]] = None,
        incremental_state: Optional[Dict[str, Dict[str, Optional[Tensor]]]] = None,
        features_only: bool = False,
        request: Optional[WordRequest] = None,
        **_: Any,
    ) -> NetOutput:
        """Compute the logits (N, T, V) of the next words; see :class:`DecoderOutput`.

        N is a multiple of the number of documents B, and the rows of a document are adjacent and padded on the right.
        With an ``incremental_state``, the cached inputs to the convolutions, only the last step is computed.
        ``features_only`` returns the input of the output layer (N, T, R). ``request`` names the words whose
        log-probabilities the loss needs (None: all). The attention weights (N, T, S) are averaged over the layers.
        """
        assert encoder_out is not None, "the decoder needs the encoder's output"
        memory, mask = encoder_out["encoder_out"][1], encoder_out["encoder_padding_mask"]
        if mask is not None:
            mask = mask.repeat_interleave(len(prev_output_tokens) // len(memory), dim=0)
        of_rows = {**encoder_out, "encoder_padding_mask": mask}
        with self._collect_layer_attention() as weights:
            states, attention = super().forward(prev_output_tokens, of_rows, incremental_state)
        if weights:
            attention = torch.stack(weights).mean(dim=0)
        output = DecoderOutput(states, attention)
        if not features_only:
            recompute_weight(self.output_projection)
            output = self.score_words(output, memory.transpose(0, 1), prev_output_tokens, encoder_out, request)
        return output.to_fairseq_output()

    @contextlib.contextmanager
    def _collect_layer_attention(self) -> Iterator[List[Tensor]]:
        """Collect the attention weights (N, T, S) of all layers in training, because fairseq does not return them."""
        weights: List[Tensor] = []
        layers = [layer for layer in self.attention if layer is not None and self.training]
        hooks = [layer.register_forward_hook(lambda _, __, output: weights.append(output[1])) for layer in layers]
        try:
            yield weights
        finally:
            for hook in hooks:
                hook.remove()

    def _split_encoder_out(self, encoder_out: Tuple[Tensor, Tensor], incremental_state: Any) -> Tuple[Tensor, Tensor]:
        """Return the attention keys (B, E, S) and values (B, S, E). In a search, they are computed only once."""
        if not isinstance(incremental_state, BeamState):
            found: Tuple[Tensor, Tensor] = super()._split_encoder_out(encoder_out, incremental_state)
            return found
        memory = incremental_state.memory.setdefault(self, {})
        if "keys" not in memory:
            memory["keys"], memory["values"] = super()._split_encoder_out(encoder_out, None)
        return memory["keys"], memory["values"]

    def make_generation_fast_(self, **_: Any) -> None:
        """Do nothing. fairseq's method drops attention weights, which options such as ``--replace-unknown`` need."""

    def upgrade_state_dict_named(self, state_dict: Dict[str, Any], name: str) -> Dict[str, Any]:
        """Upgrade old weights, and rename the output layer, which fairseq's own ``fconv`` calls fc3."""
        for key in [key for key in state_dict if key.startswith(f"{name}.fc3.")]:
            state_dict[key.replace(".fc3.", ".output_projection.")] = state_dict.pop(key)
        upgraded: Dict[str, Any] = super().upgrade_state_dict_named(state_dict, name)
        return upgraded


class ConvolutionalModel(SummarizationModel, EncoderDecoderMixin, FConvModel):
    """A convolutional encoder-decoder model, one of :data:`PRESETS`: fairseq's ``fconv`` with an optional pointer."""

    def __init__(self, encoder: ConvolutionalEncoder, decoder: ConvolutionalDecoder):
        super().__init__(encoder, decoder)
        if decoder.pointer is not None:
            # The encoder divides its gradient by the number of attention layers. The pointer is an additional attention
            # layer.
            encoder.num_attention_layers += 1

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "ConvolutionalModel":
        """Build the model. Raises ValueError if an option is incompatible with another option or with the data."""
        config = convert_options_to_namespace(cfg)
        check_options(config, ConvolutionalConfig, list_data_properties(task))
        check_data_suits_architecture(getattr(config, "_name", "convs2s"), RIGHT_PADDING, task)
        config.max_source_positions = compute_position_limit(config.max_source_positions, task, "source")
        config.max_target_positions = compute_position_limit(config.max_target_positions, task, "target")
        source, target = remove_copy_tail(task.source_dictionary), remove_copy_tail(task.target_dictionary)
        encoder, decoder = ConvolutionalEncoder(config, source), ConvolutionalDecoder(config, target)
        if not task.is_loading:  # a checkpoint already contains the word embeddings
            load_word_vectors(config.encoder_embed_path, source, encoder.embed_tokens, "--encoder-embed-path")
            load_word_vectors(config.decoder_embed_path, target, decoder.embed_tokens, "--decoder-embed-path")
        return cls(encoder, decoder)

    def __deepcopy__(self, memo: Dict[int, Any]) -> "ConvolutionalModel":
        """Copy the model, as ``--store-ema`` does, and normalised weights without the graph that torch cannot copy."""
        for weight in iterate_normalised_weights(self):
            if id(weight) not in memo:
                memo[id(weight)] = weight.detach().clone()
        result = memo[id(self)] = self.__class__.__new__(self.__class__)
        result.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return result

    def make_generation_fast_(self, **kwargs: Any) -> None:
        """Prepare the model for generation without fixing the beam size, because documents are not repeated."""
        super().make_generation_fast_(**{**kwargs, "beamable_mm_beam_size": None})


register_presets(ConvolutionalModel, PRESETS, ConvolutionalConfig)
