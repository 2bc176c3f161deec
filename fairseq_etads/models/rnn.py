"""The recurrent family (Nallapati et al. 2016; See et al. 2017): options, presets, model and weight initialisation.

A bidirectional GRU or LSTM reads the document. A second recurrent network with attention generates the summary. Each
mechanism is an option in :class:`RecurrentConfig`. A named architecture is a preset that changes some defaults.
"""

import functools
from dataclasses import dataclass
from typing import Any, Dict, Optional

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.models import FairseqEncoderDecoderModel
from omegaconf import II
from torch import Tensor, nn

from ..data.initial_values import load_word_vectors
from ..layers.embedding import VocabularyEmbedding, mark_lookup_table
from ..platform.command_options import (
    NOT_NEGATIVE,
    PROBABILITY,
    SIZE,
    Bounds,
    check_options,
    format_option_name,
    option,
)
from ..text.words import SENTENCE_MARK
from ..vocabulary.dictionary import remove_copy_tail
from .common import (
    FACTOR_DIM,
    ONE_DICTIONARY,
    SENTENCE_MARKS,
    SUMMARY_MARKS,
    EncoderDecoderMixin,
    PointerOptions,
    SummarizationModel,
    convert_options_to_namespace,
    list_data_properties,
    parse_factors,
    register_presets,
)
from .common import HELP as FACTORS_HELP
from .rnn_decoder import CLOSED_BOOK, ClosedBookDecoder, RecurrentDecoder
from .rnn_encoder import (
    ConvolutionalEncoder,
    RecurrentEncoder,
    WordEncoder,
    compute_encoder_state_width,
    compute_input_width,
    make_extractor,
)
from .selector import SentenceExtractor

ENCODERS = ("rnn", "conv")
CELLS = ("gru", "lstm", "elman")
BRIDGES = ("tanh", "relu", "linear", "zero")
QUERIES = ("before", "after")
SCORES = ("additive", "dot")
FEEDS = ("context", "readout")
READOUTS = ("tanh", "linear", "luong", "mlp", "none")
GATES = ("none", "selective")
DROPOUT_PLACES = ("words", "state")
SENTENCE_ATTENTION = ("none", "extractor")
EXTRACTOR = {"extractor_embed_dim": 128, "extractor_hidden_size": 200, "max_sentences": 50, "max_sentence_words": 50}
"""The default sizes of the extractor for --sentence-attention extractor, keyed by option name (Hsu et al. 2018)."""

_NOT_RECURRENT = "that encoder is not recurrent; choose one"
_NOT_DEEP = "that encoder has one layer and no last state"
_NO_READOUT = "the output layer must be as wide as word vectors; choose --readout tanh, linear, luong or mlp"
_ONE_WIDTH = {("encoder_embed_dim", "decoder_embed_dim"): "equal widths"}
_TIED = {("readout_dim", "decoder_embed_dim"): "an output layer as wide as word vectors"}


@dataclass
class RecurrentConfig(PointerOptions):
    """Options of the recurrent family. The defaults describe the Gigaword models of Nallapati et al. (2016)."""

    encoder_embed_dim: int = option(200, "dimension of the document word embeddings", bounds=SIZE)
    encoder_hidden_size: int = option(400, "hidden size of the encoder in each direction", bounds=SIZE)
    encoder_layers: int = option(1, "number of encoder layers", bounds=SIZE)
    decoder_embed_dim: int = option(
        II("model.encoder_embed_dim"), "dimension of the summary word embeddings", bounds=SIZE
    )
    decoder_hidden_size: int = option(II("model.encoder_hidden_size"), "hidden size of the decoder", bounds=SIZE)
    attention_dim: int = option(
        II("model.decoder_hidden_size"), "size of the hidden layer in the attention mechanism", bounds=SIZE
    )
    readout_dim: int = option(
        II("model.decoder_embed_dim"), "dimension of the readout, which is the input to the output layer", bounds=SIZE
    )
    encoder: ChoiceEnum(ENCODERS) = option(  # type: ignore[valid-type]
        "rnn",
        "type of encoder. rnn: a bidirectional recurrent network that provides the keys and values of "
        "attention; conv: a convolution over word and position embeddings that provides the keys, with word "
        "embeddings as values (Chopra et al. 2016)",
        of_values={"conv": {"requires": {"--bridge zero": _NOT_DEEP, "--encoder-layers 1": _NOT_DEEP}}},
    )
    encoder_window: int = option(
        5,
        "window size of --encoder conv in words (an odd number)",
        bounds=Bounds(1, odd=True),
        needs=("--encoder conv",),
    )
    encoder_gate: ChoiceEnum(GATES) = option(  # type: ignore[valid-type]
        "none",
        "gate applied to each encoder state. selective: computed from the state and the final states of "
        "both directions (Zhou et al. 2017)",
        excludes={"--encoder conv": "the gate needs the last states of --encoder rnn"},
    )
    encoder_projection: int = option(
        0,
        "dimension to which encoder states are linearly projected before attention reads them (0: no projection)",
        bounds=NOT_NEGATIVE,
        excludes={
            "--encoder conv": _NOT_RECURRENT,
            "--hierarchical-attention": "that attention reads the unprojected states; choose one",
        },
    )
    learnt_start: bool = option(
        False,
        "learn the initial states of the encoder's recurrent networks instead of setting them to zero",
        excludes={"--encoder conv": _NOT_RECURRENT},
    )
    rnn_cell: ChoiceEnum(CELLS) = option(  # type: ignore[valid-type]
        "gru",
        "type of recurrent cell in the encoder and decoder. lstm: as in See et al. 2017; elman: as in "
        "Chopra et al. 2016, only for a decoder with --encoder conv",
        of_values={
            "elman": {"requires": {"--encoder conv": "this cell works only in decoders; or choose gru or lstm"}}
        },
    )
    bridge: ChoiceEnum(BRIDGES) = option(  # type: ignore[valid-type]
        "tanh",
        "activation function a that computes the decoder's initial state, a(W [last encoder states] + "
        "b). relu: as in See et al. 2017; linear: no activation; zero: an initial state of zero (Chopra et al. "
        "2016)",
    )
    merge_input: bool = option(
        False,
        "feed W [word embedding; context] + b to the decoder cell instead of [word embedding; context], "
        "so that the input has the dimension of a word embedding (See et al. 2017)",
    )
    attention_query: ChoiceEnum(QUERIES) = option(  # type: ignore[valid-type]
        "before",
        "attention query. before: the decoder state before the current step, together with the previous "
        "word; after: the decoder state after the current step, which depends on the previous context (See et al. "
        "2017)",
    )
    input_feed: ChoiceEnum(FEEDS) = option(  # type: ignore[valid-type]
        "context",
        "vector that the decoder cell receives from the previous step, with --attention-query after. "
        "context: the attention context; readout: the readout (Luong et al. 2015)",
        requires={"--attention-query after": "the cell then reads outputs of the previous step"},
    )
    attention_score: ChoiceEnum(SCORES) = option(  # type: ignore[valid-type]
        "additive",
        "attention scoring function. additive: v tanh(query + key); dot: the dot product of decoder "
        "state and key (Chopra et al. 2016). With --encoder rnn, dot uses W h as the key of encoder state h "
        "(Luong et al. 2015: general)",
    )
    readout: ChoiceEnum(READOUTS) = option(  # type: ignore[valid-type]
        "tanh",
        "input to the output layer. tanh: tanh(W [state; word embedding; context] + b); linear: W "
        "[state; context] + b (See et al. 2017); luong: tanh(W [state; context]) (Luong et al. 2015); mlp: W_2 "
        "tanh(W_1 [state; context] + b) (Chen and Bansal 2018); none: [state; context]",
    )
    output_bias: bool = option(True, "add a bias to the output layer")
    dropout: float = option(
        0.0, "dropout probability; --dropout-at selects where dropout is applied", bounds=PROBABILITY
    )
    dropout_at: ChoiceEnum(DROPOUT_PLACES) = option(  # type: ignore[valid-type]
        "words",
        "where to apply --dropout, in addition to the readout. words: to word embeddings and encoder "
        "states; state: to the decoder state after each step",
    )
    encoder_embed_path: Optional[str] = option(
        None, "path to pretrained document word embeddings in word2vec's text format"
    )
    decoder_embed_path: Optional[str] = option(
        None, "path to pretrained summary word embeddings in word2vec's text format"
    )
    share_decoder_input_output_embed: bool = option(
        False,
        "tie the weights of the output layer to the summary word embeddings",
        excludes={"--readout none": _NO_READOUT},
        equal=_TIED,
    )
    share_all_embeddings: bool = option(
        False,
        "use one embedding matrix for documents, summaries and the output layer",
        requires=ONE_DICTIONARY,
        excludes={"--readout none": _NO_READOUT},
        equal={**_ONE_WIDTH, **_TIED},
    )
    share_input_embeddings: bool = option(
        False,
        "use one embedding matrix for documents and summaries, but not for the output layer",
        requires=ONE_DICTIONARY,
        equal=_ONE_WIDTH,
        excludes={
            "--share-all-embeddings": "",
            "--share-decoder-input-output-embed": (
                "together they are equivalent to --share-all-embeddings; use that option instead"
            ),
        },
    )
    paper_init: bool = option(
        False,
        "initialise weights as in See et al.'s code: word embeddings close to zero, uniform weights in "
        "[-0.02, 0.02] in recurrent networks, and Glorot initialisation of other matrices (etads docs recurrent)",
    )
    uniform_init: float = option(
        0.0,
        "bound R of the interval [-R, R] from which all initial weights are drawn uniformly (0: "
        "initialise as described in etads docs recurrent)",
        bounds=NOT_NEGATIVE,
        excludes={"--paper-init": "both determine the initial weights; choose one"},
    )
    large_vocabulary_trick: int = option(
        0,
        "number of candidate words to which the softmax is restricted (0: no restriction); the candidates "
        "are the words of the batch's documents and the most frequent words",
        bounds=NOT_NEGATIVE,
    )
    coverage: bool = option(
        False,
        "add coverage, which is the sum of the attention weights at earlier decoding steps, to the inputs "
        "of attention (See et al. 2017)",
        excludes={"--attention-score dot": "coverage is added inside --attention-score additive"},
    )
    temporal_attention: bool = option(
        False,
        "use temporal attention, which divides each word's exponentiated attention score by the sum of its "
        "exponentiated scores at earlier decoding steps (Nallapati et al. 2016)",
    )
    hierarchical_attention: bool = option(
        False,
        f'attend to sentences as well as words of the document; each sentence must end with "{SENTENCE_MARK}"',
        requires=SENTENCE_MARKS,
        excludes={"--encoder conv": "this attention needs the states of --encoder rnn"},
    )
    sentence_attention: ChoiceEnum(SENTENCE_ATTENTION) = option(  # type: ignore[valid-type]
        "none",
        "sentence-level attention. extractor: multiply the attention weight of each word by the "
        "probability that an extractor assigns to the word's sentence, and renormalise the weights (Hsu et al. "
        "2018); each sentence must end with "
        f'"{SENTENCE_MARK}"',
        requires=SENTENCE_MARKS,
    )
    extractor_embed_dim: int = option(
        EXTRACTOR["extractor_embed_dim"],
        "dimension of the extractor's word embeddings",
        bounds=SIZE,
        needs=("--sentence-attention extractor",),
    )
    extractor_hidden_size: int = option(
        EXTRACTOR["extractor_hidden_size"],
        "hidden size of the extractor's recurrent networks in each direction",
        bounds=SIZE,
        needs=("--sentence-attention extractor",),
    )
    max_sentences: int = option(
        EXTRACTOR["max_sentences"],
        "maximum number of sentences per document that the extractor reads; later sentences receive no attention",
        bounds=SIZE,
        needs=("--sentence-attention extractor",),
    )
    max_sentence_words: int = option(
        EXTRACTOR["max_sentence_words"],
        "maximum number of words per sentence that the extractor reads",
        bounds=SIZE,
        needs=("--sentence-attention extractor",),
    )
    encoder_by_sentence: bool = option(
        False,
        "reset the state of the word-level encoder at the start of each sentence (Li et al. 2018); "
        "requires --hierarchical-attention",
        needs=("--hierarchical-attention",),
        without="without --hierarchical-attention, for which documents mark their sentences",
    )
    sentence_gate: bool = option(
        False,
        "filter the sentence states with a gate that reads the whole document (Li et al. 2018); requires "
        "--hierarchical-attention",
        needs=("--hierarchical-attention",),
        without="without --hierarchical-attention, for which documents mark their sentences",
    )
    sentence_selector: bool = option(
        False,
        "select sentences of the document before each summary sentence is written (Li et al. 2018); "
        "requires --hierarchical-attention. The decoder starts from the selected sentences and keeps their "
        f'weights until the next "{SENTENCE_MARK}". Use --selection-loss to train the selection',
        needs=("--hierarchical-attention",),
        without="without --hierarchical-attention, for which documents mark their sentences",
        requires=SUMMARY_MARKS,
        excludes={
            f"--bridge {kind}": "each sentence begins with what was selected; choose --bridge tanh or relu"
            for kind in ("zero", "linear")
        },
    )
    closed_book_decoder: bool = option(
        False,
        "during training, add a second decoder without attention or a pointer, which reads only the "
        "encoder's last state (Jiang and Bansal 2018); the criterion's option --closed-book-weight sets the weight "
        "of its loss",
        excludes={
            "--bridge zero": "this decoder begins with the encoder's last state; give --bridge tanh or relu",
            "--sentence-selector": "this decoder begins with the encoder's last state, but each sentence of a "
            "summary with the selected sentences; choose one",
            "--large-vocabulary-trick": "this decoder's softmax is over all words; choose one",
        },
    )
    closed_book_cut: bool = option(
        False,
        "do not backpropagate from the closed-book decoder to the encoder (a control experiment)",
        needs=("--closed-book-decoder",),
    )
    source_factors: str = option("none", FACTORS_HELP.format(FACTOR_DIM))


_LVT2K: Dict[str, Any] = {"large_vocabulary_trick": 2000}
_CNN: Dict[str, Any] = {"encoder_embed_dim": 100, "encoder_hidden_size": 200, **_LVT2K}  # section 4.3
# the total width of the factors is 55, as in the paper
_FEATURES: Dict[str, Any] = {**_LVT2K, "source_factors": "pos:20,ner:15,tf:10,idf:10"}

# See et al. 2017, section 5: 256-dimensional states and 128-dimensional word embeddings. All other values come
# from their code.
_SEE: Dict[str, Any] = {
    "encoder_embed_dim": 128,
    "encoder_hidden_size": 256,
    "attention_dim": 512,
    "readout_dim": 256,
    "rnn_cell": "lstm",
    "bridge": "relu",
    "merge_input": True,
    "attention_query": "after",
    "readout": "linear",
    "share_input_embeddings": True,
    "paper_init": True,
    "pointer": "soft",
}

# Chopra et al. 2016: RAS-Elman and RAS-LSTM
_RAS: Dict[str, Any] = {
    "encoder": "conv",
    "encoder_embed_dim": 512,
    "encoder_hidden_size": 512,  # also the decoder's width, by default
    "bridge": "zero",
    "attention_score": "dot",
    "readout": "none",
    "uniform_init": 0.05,
}

# Li, Zhu, Zhang and Zong 2018: the model that the authors train with an entailment task; see docs/entail.md.
_ENTAIL: Dict[str, Any] = {
    "encoder_embed_dim": 300,
    "encoder_hidden_size": 512,  # also the decoder's width, by default
    "readout_dim": 512,
    "encoder_gate": "selective",
    "rnn_cell": "lstm",
    "attention_query": "after",
    "attention_score": "dot",
    "input_feed": "readout",
    "readout": "luong",
    "output_bias": False,
    "dropout": 0.5,
    "dropout_at": "state",
    "uniform_init": 0.1,
}

# Chen and Bansal 2018: the abstractor. docs/rewrite.md lists the differences from the paper.
_REWRITER: Dict[str, Any] = {
    "encoder_embed_dim": 128,
    "encoder_hidden_size": 256,  # also the decoder's width, by default
    "encoder_projection": 256,
    "learnt_start": True,
    "rnn_cell": "lstm",
    "bridge": "linear",
    "attention_query": "after",
    "attention_score": "dot",
    "input_feed": "readout",
    "readout": "mlp",
    "output_bias": False,
    "share_all_embeddings": True,
    "pointer": "soft",
}

# Li et al. 2018: the decoder of See et al. 2017 with GRUs. docs/selection.md lists details that the paper omits.
_SELECTION: Dict[str, Any] = {
    **_SEE,
    "rnn_cell": "gru",
    "bridge": "tanh",
    "hierarchical_attention": True,
    "encoder_by_sentence": True,
    "sentence_gate": True,
    "sentence_selector": True,
}

PRESETS: Dict[str, Dict[str, Any]] = {
    "gru_seq2seq": {},
    "words_lvt2k": _LVT2K,
    "words_lvt5k": {"large_vocabulary_trick": 5000},
    "words_lvt2k_hieratt": {**_LVT2K, "hierarchical_attention": True},
    "feats_lvt2k": _FEATURES,
    "feats_lvt2k_ptr": {**_FEATURES, "pointer": "switch"},
    "words_lvt2k_temp_att": {**_CNN, "temporal_attention": True},
    "pointer_generator": _SEE,
    "pointer_generator_coverage": {**_SEE, "coverage": True},
    "unified_summarizer": {**_SEE, "coverage": True, "sentence_attention": "extractor"},  # Hsu et al. 2018
    "explicit_selection": _SELECTION,
    "entail_s2s": _ENTAIL,
    "sentence_rewriter": _REWRITER,
    "ras_elman": {**_RAS, "rnn_cell": "elman"},
    "ras_lstm": {**_RAS, "rnn_cell": "lstm"},
    # This preset combines the sizes of See et al. with the decoder of Nallapati et al. The encoder, the decoder and the
    # output layer share one word embedding table.
    "pg_coverage": {
        "encoder_embed_dim": 128,
        "encoder_hidden_size": 256,
        "attention_dim": 512,
        "share_all_embeddings": True,
        "pointer": "soft",
        "coverage": True,
    },
}
"""A dictionary from the name of each architecture to the defaults that it changes.

The architectures are from Nallapati et al. 2016 (tables 1 to 3), See et al. 2017 and the papers named above.
"""


def check_recurrent_options(cfg: Any, task: Any) -> None:
    """Raise ValueError if an option is invalid or is incompatible with another option or with the data."""
    check_options(cfg, RecurrentConfig, list_data_properties(task))
    one_table = next((name for name in ("share_all_embeddings", "share_input_embeddings") if getattr(cfg, name)), "")
    if one_table and cfg.decoder_embed_path not in (None, cfg.encoder_embed_path):
        raise ValueError(f"{format_option_name(one_table)} shares one table: give only --encoder-embed-path")


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

    Choose one of :data:`PRESETS` with ``--arch``. See :class:`RecurrentConfig` for the options.
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
