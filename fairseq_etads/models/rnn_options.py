"""Options and presets of the recurrent family, and checks that the options are valid.

Each mechanism is an option in :class:`RecurrentConfig`. A named architecture is a preset that changes some defaults.
"""

from dataclasses import dataclass
from typing import Any, Dict, Optional

from fairseq.dataclass import ChoiceEnum
from omegaconf import II

from ..platform.option_checks import NOT_NEGATIVE, PROBABILITY, SIZE, Bounds, check_options, format_option_name, option
from ..text.words import SENTENCE_MARK
from .common import FACTOR_DIM, ONE_DICTIONARY, SENTENCE_MARKS, SUMMARY_MARKS, PointerOptions, list_data_properties
from .common import HELP as FACTORS_HELP

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
