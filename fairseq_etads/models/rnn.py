"""The recurrent family (Nallapati et al. 2016; See et al. 2017): the model and its weight initialisation.

A bidirectional GRU or LSTM reads the document. A second recurrent network with attention generates the summary.
"""

import functools
from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor, nn

from ..data.initial_values import load_word_vectors
from ..layers.embedding import VocabularyEmbedding, mark_lookup_table
from ..text.words import SENTENCE_MARK
from ..vocabulary.dictionary import remove_copy_tail
from .common import (
    EncoderDecoderMixin,
    SummarizationModel,
    convert_options_to_namespace,
    parse_factors,
    register_presets,
)
from .rnn_decoder import CLOSED_BOOK, ClosedBookDecoder, RecurrentDecoder
from .rnn_encoder import (
    ConvolutionalEncoder,
    RecurrentEncoder,
    WordEncoder,
    compute_encoder_state_width,
    compute_input_width,
    make_extractor,
)
from .rnn_options import PRESETS, RecurrentConfig, check_recurrent_options
from .selector import SentenceExtractor

INITIAL_STD = 0.25
"""Standard deviation of the initial word embeddings and output weights.

fairseq's recurrent models draw these weights uniformly from [-0.1, 0.1] instead. With those values, a model of width
100 learns only word frequencies in the first few hundred steps (docs/experiments.md).
"""
SEES_STD, SEES_RANGE = 1e-4, 0.02
"""Scales of the initial weights in See et al.'s code.

Word embeddings and output weights are drawn from a normal distribution that has the standard deviation ``SEES_STD``
and is truncated at two standard deviations. The weights of recurrent networks are drawn uniformly from
[-``SEES_RANGE``, ``SEES_RANGE``].
"""


class RecurrentModel(SummarizationModel, EncoderDecoderMixin, FairseqEncoderDecoderModel):
    """A recurrent encoder-decoder model. The papers' mechanisms are available as options.

    Choose one of :data:`PRESETS` with ``--arch``. See :class:`.rnn_options.RecurrentConfig` for the options.
    """

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "RecurrentModel":
        """Build the model.

        Raises:
            ValueError: an option is incompatible with another option, the dictionaries or the factors in the data.
            OSError: a file of word vectors cannot be read.
        """
        config = convert_options_to_namespace(cfg)
        check_recurrent_options(config, task)
        source, target = remove_copy_tail(task.source_dictionary), remove_copy_tail(task.target_dictionary)
        widths = parse_factors(config.source_factors, task.factor_dictionaries)
        table = functools.partial(make_embedding_table, tiny=config.paper_init, bound=config.uniform_init)
        factors = {name: table(task.factor_dictionaries[name], width) for name, width in widths.items()}

        words = table(source, config.encoder_embed_dim)
        one_table = config.share_all_embeddings or config.share_input_embeddings
        summary_words = words if one_table else table(target, config.decoder_embed_dim)
        if not task.is_loading:  # a checkpoint already contains the word embeddings
            load_word_vectors(config.encoder_embed_path, source, words, "--encoder-embed-path")
            if summary_words is not words:
                load_word_vectors(config.decoder_embed_path, target, summary_words, "--decoder-embed-path")
        tied = config.share_all_embeddings or config.share_decoder_input_output_embed
        is_conv = config.encoder == "conv"
        context = (
            compute_input_width(config.encoder_embed_dim, factors) if is_conv else compute_encoder_state_width(config)
        )
        read_out = config.decoder_hidden_size + context if config.readout == "none" else config.readout_dim
        output: Any = summary_words.weight if tied else table(target, read_out).weight

        mark = task.source_dictionary.index(SENTENCE_MARK) if config.hierarchical_attention else None
        embed = VocabularyEmbedding(words, source.unk())
        encoder: WordEncoder
        if is_conv:
            encoder = ConvolutionalEncoder(config, source, embed, factors)
        else:
            encoder = RecurrentEncoder(config, source, embed, factors, mark)
        summary_embed = VocabularyEmbedding(summary_words, target.unk(), len(target))
        ids = None if source == target else torch.tensor([target.indices.get(word, 0) for word in source.symbols])
        decoder = RecurrentDecoder(config, target, summary_embed, output, ids, context)
        if config.closed_book_decoder and not task.is_loading:
            decoder.closed_book = ClosedBookDecoder(
                str(config.rnn_cell) == "lstm",
                config.decoder_embed_dim,
                config.decoder_hidden_size,
                len(target),
                config.dropout,
                config.closed_book_cut,
            )
        model = cls(encoder, decoder)
        for name, part in task.make_auxiliary_modules(config).items():
            model.add_module(name, part)
        # Word embeddings and the pointer's terms for copy continuation keep their initial values.
        if config.paper_init:
            _initialise_as_see_et_al(model)
        if config.uniform_init:
            _initialise_uniformly(model, config.uniform_init)
        # Add the extractor after the initialisation, because its weights are usually loaded from a checkpoint.
        if str(config.sentence_attention) == "extractor":
            model.encoder.extractor = make_extractor(config, task)
        model.mark_lookup_tables()
        return model

    def mark_lookup_tables(self) -> None:
        """Mark the weights that are used only as lookup tables, so that lazy optimisers update only the rows in use.

        The weight of an output layer that computes logits for all words is not marked, because it uses every row.
        """
        output = self.decoder.output_projection
        trick = self.decoder.large_vocabulary_trick > 0
        tables = [self.encoder.embed_tokens.weight, self.decoder.embed_tokens.weight]
        if self.extractor is not None:
            tables.append(self.extractor.embed_tokens.weight)
        for table in [*tables, output.weight, output.bias] if trick else tables:
            if trick or table is not output.weight:
                mark_lookup_table(table)

    @property
    def extractor(self) -> Optional[SentenceExtractor]:
        """Return the sentence extractor, or None unless --sentence-attention extractor is set."""
        found: Optional[SentenceExtractor] = self.encoder.extractor
        return found

    @property
    def factors(self) -> Any:
        """Return the names of the source factors that the model reads, in the order of the encoder's input."""
        return tuple(self.encoder.factors)

    def load_state_dict(self, state_dict: Any, strict: bool = True, **kwargs: Any) -> Any:
        """Load weights. Those of a closed-book decoder are ignored outside training."""
        if self.decoder.closed_book is None:
            state_dict = {key: value for key, value in state_dict.items() if not key.startswith(CLOSED_BOOK)}
        return super().load_state_dict(state_dict, strict=strict, **kwargs)


def make_embedding_table(dictionary: Dictionary, width: int, tiny: bool = False, bound: float = 0.0) -> nn.Embedding:
    """Create a word embedding table. The padding vector is 0, and the others are normally distributed.

    If ``tiny``, they have the standard deviation in See et al.'s code. With a ``bound``, they are uniform in [-bound,
    bound] instead.
    """
    table = nn.Embedding(len(dictionary), width, dictionary.pad())
    if tiny:
        _initialise_with_tiny_values(table.weight)
    elif bound:
        nn.init.uniform_(table.weight, -bound, bound)
    else:
        nn.init.normal_(table.weight, std=INITIAL_STD)
    nn.init.zeros_(table.weight[dictionary.pad()])
    return table


def _initialise_with_tiny_values(weight: Tensor) -> None:
    nn.init.trunc_normal_(weight, std=SEES_STD, a=-2 * SEES_STD, b=2 * SEES_STD)


OUTPUT_LAYER = "decoder.output_projection"
"""Name of the output layer, which receives its initial weight from :func:`make_embedding_table`."""


def _initialise_as_see_et_al(model: nn.Module) -> None:
    """Initialise the weights as in See et al.'s code.

    In recurrent networks, weights are drawn uniformly from [-0.02, 0.02], and biases are 0, or 1 for the forget gate of
    an LSTM. The bridge, the biases of output layers and the output weight of the closed-book decoder are drawn from a
    normal distribution with a standard deviation of 0.0001. All other matrices and the vectors v and w_c are drawn
    uniformly according to Glorot's rule, and all other biases are 0. The values for recurrent networks and biases were
    TensorFlow's defaults at that time.
    """
    for path, module in model.named_modules():
        if isinstance(module, nn.Embedding) or "continuation" in path:
            continue
        for name, parameter in module.named_parameters(recurse=False):
            if isinstance(module, (nn.RNNBase, nn.RNNCellBase)):
                _initialise_network_parameter(module, name, parameter)
            elif path.endswith(("first_state", "first_cell", "output_projection")):
                if path != OUTPUT_LAYER or name == "bias":
                    _initialise_with_tiny_values(parameter)
            elif name == "bias":
                nn.init.zeros_(parameter)
            elif name == "coverage_weight":  # a convolution over one channel in their code, so its fan-in is 1
                _initialise_with_glorot(parameter, 1, len(parameter))
            elif parameter.dim() == 1:
                _initialise_with_glorot(parameter, len(parameter), len(parameter))
            else:
                nn.init.xavier_uniform_(parameter)


def _initialise_uniformly(model: nn.Module, bound: float) -> None:
    """Draw all weights except the word embeddings uniformly from [-bound, bound]."""
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    for name, parameter in model.named_parameters():
        if name.endswith("encoder.positions.weight") or (
            id(parameter) not in tables and "continuation" not in name and name != f"{OUTPUT_LAYER}.weight"
        ):
            nn.init.uniform_(parameter, -bound, bound)


def _initialise_network_parameter(module: nn.Module, name: str, parameter: Tensor) -> None:
    if name.startswith("weight"):
        nn.init.uniform_(parameter, -SEES_RANGE, SEES_RANGE)
        return
    nn.init.zeros_(parameter)
    if isinstance(module, (nn.LSTM, nn.LSTMCell)):
        nn.init.ones_(
            parameter[module.hidden_size : 2 * module.hidden_size]
        )  # PyTorch's order: input, forget, new, output


def _initialise_with_glorot(parameter: Tensor, fan_in: int, fan_out: int) -> None:
    bound = (6 / (fan_in + fan_out)) ** 0.5
    nn.init.uniform_(parameter, -bound, bound)


register_presets(RecurrentModel, PRESETS, RecurrentConfig)
