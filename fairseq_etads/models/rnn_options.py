"""Options and presets of the recurrent family, and checks that the options are valid.

Each mechanism is an option in :class:`RecurrentConfig`. A named architecture is a preset that changes some defaults.
"""

from dataclasses import dataclass, field, fields
from typing import Any, Dict, Optional

from fairseq.dataclass import ChoiceEnum
from omegaconf import II

from ..platform.option_checks import NOT_NEGATIVE, PROBABILITY, SIZE, check_option_requirements, check_option_values
from ..text.words import SENTENCE_MARK
from ..vocabulary.dictionary import count_known_words
from .common import (
    PointerOptions,
    check_pointer_dictionary,
    check_sentence_end_token,
    check_shared_dictionary,
    make_preset_dataclass,
)
from .source_factors import FACTOR_DIM
from .source_factors import HELP as FACTORS_HELP

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
_NO_READOUT = "the output layer must be as wide as word vectors; choose --readout tanh, linear, luong or mlp"


@dataclass
class RecurrentConfig(PointerOptions):
    """Options of the recurrent family. The defaults describe the Gigaword models of Nallapati et al. (2016)."""

    encoder_embed_dim: int = field(
        default=200, metadata={"bounds": SIZE, "help": "dimension of the document word embeddings"}
    )
    encoder_hidden_size: int = field(
        default=400, metadata={"bounds": SIZE, "help": "hidden size of the encoder in each direction"}
    )
    encoder_layers: int = field(default=1, metadata={"bounds": SIZE, "help": "number of encoder layers"})
    decoder_embed_dim: int = field(
        default=II("model.encoder_embed_dim"),
        metadata={"bounds": SIZE, "help": "dimension of the summary word embeddings"},
    )
    decoder_hidden_size: int = field(
        default=II("model.encoder_hidden_size"), metadata={"bounds": SIZE, "help": "hidden size of the decoder"}
    )
    attention_dim: int = field(
        default=II("model.decoder_hidden_size"),
        metadata={"bounds": SIZE, "help": "size of the hidden layer in the attention mechanism"},
    )
    readout_dim: int = field(
        default=II("model.decoder_embed_dim"),
        metadata={"bounds": SIZE, "help": "dimension of the readout, which is the input to the output layer"},
    )
    encoder: ChoiceEnum(ENCODERS) = field(  # type: ignore[valid-type]
        default="rnn",
        metadata={
            "help": "type of encoder. rnn: a bidirectional recurrent network that provides the keys and values of "
            "attention; conv: a convolution over word and position embeddings that provides the keys, with word "
            "embeddings as values (Chopra et al. 2016)"
        },
    )
    encoder_window: int = field(
        default=5,
        metadata={"needs": ("--encoder conv",), "help": "window size of --encoder conv in words (an odd number)"},
    )
    encoder_gate: ChoiceEnum(GATES) = field(  # type: ignore[valid-type]
        default="none",
        metadata={
            "excludes": {"--encoder conv": "the gate needs the last states of --encoder rnn"},
            "help": "gate applied to each encoder state. selective: computed from the state and the final states of "
            "both directions (Zhou et al. 2017)",
        },
    )
    encoder_projection: int = field(
        default=0,
        metadata={
            "bounds": NOT_NEGATIVE,
            "excludes": {
                "--encoder conv": _NOT_RECURRENT,
                "--hierarchical-attention": "that attention reads the unprojected states; choose one",
            },
            "help": "dimension to which encoder states are linearly projected before attention reads them (0: no "
            "projection)",
        },
    )
    learnt_start: bool = field(
        default=False,
        metadata={
            "excludes": {"--encoder conv": _NOT_RECURRENT},
            "help": "learn the initial states of the encoder's recurrent networks instead of setting them to zero",
        },
    )
    rnn_cell: ChoiceEnum(CELLS) = field(  # type: ignore[valid-type]
        default="gru",
        metadata={
            "help": "type of recurrent cell in the encoder and decoder. lstm: as in See et al. 2017; elman: as in "
            "Chopra et al. 2016, only for a decoder with --encoder conv"
        },
    )
    bridge: ChoiceEnum(BRIDGES) = field(  # type: ignore[valid-type]
        default="tanh",
        metadata={
            "help": "activation function a that computes the decoder's initial state, a(W [last encoder states] + "
            "b). relu: as in See et al. 2017; linear: no activation; zero: an initial state of zero (Chopra et al. "
            "2016)"
        },
    )
    merge_input: bool = field(
        default=False,
        metadata={
            "help": "feed W [word embedding; context] + b to the decoder cell instead of [word embedding; context], "
            "so that the input has the dimension of a word embedding (See et al. 2017)"
        },
    )
    attention_query: ChoiceEnum(QUERIES) = field(  # type: ignore[valid-type]
        default="before",
        metadata={
            "help": "attention query. before: the decoder state before the current step, together with the previous "
            "word; after: the decoder state after the current step, which depends on the previous context (See et al. "
            "2017)"
        },
    )
    input_feed: ChoiceEnum(FEEDS) = field(  # type: ignore[valid-type]
        default="context",
        metadata={
            "help": "vector that the decoder cell receives from the previous step, with --attention-query after. "
            "context: the attention context; readout: the readout (Luong et al. 2015)"
        },
    )
    attention_score: ChoiceEnum(SCORES) = field(  # type: ignore[valid-type]
        default="additive",
        metadata={
            "help": "attention scoring function. additive: v tanh(query + key); dot: the dot product of decoder "
            "state and key (Chopra et al. 2016). With --encoder rnn, dot uses W h as the key of encoder state h "
            "(Luong et al. 2015: general)"
        },
    )
    readout: ChoiceEnum(READOUTS) = field(  # type: ignore[valid-type]
        default="tanh",
        metadata={
            "help": "input to the output layer. tanh: tanh(W [state; word embedding; context] + b); linear: W "
            "[state; context] + b (See et al. 2017); luong: tanh(W [state; context]) (Luong et al. 2015); mlp: W_2 "
            "tanh(W_1 [state; context] + b) (Chen and Bansal 2018); none: [state; context]"
        },
    )
    output_bias: bool = field(default=True, metadata={"help": "add a bias to the output layer"})
    dropout: float = field(
        default=0.0,
        metadata={"bounds": PROBABILITY, "help": "dropout probability; --dropout-at selects where dropout is applied"},
    )
    dropout_at: ChoiceEnum(DROPOUT_PLACES) = field(  # type: ignore[valid-type]
        default="words",
        metadata={
            "help": "where to apply --dropout, in addition to the readout. words: to word embeddings and encoder "
            "states; state: to the decoder state after each step"
        },
    )
    encoder_embed_path: Optional[str] = field(
        default=None, metadata={"help": "path to pretrained document word embeddings in word2vec's text format"}
    )
    decoder_embed_path: Optional[str] = field(
        default=None, metadata={"help": "path to pretrained summary word embeddings in word2vec's text format"}
    )
    share_decoder_input_output_embed: bool = field(
        default=False,
        metadata={
            "excludes": {"--readout none": _NO_READOUT},
            "help": "tie the weights of the output layer to the summary word embeddings",
        },
    )
    share_all_embeddings: bool = field(
        default=False,
        metadata={
            "excludes": {"--readout none": _NO_READOUT},
            "help": "use one embedding matrix for documents, summaries and the output layer",
        },
    )
    share_input_embeddings: bool = field(
        default=False,
        metadata={
            "excludes": {
                "--share-all-embeddings": "",
                "--share-decoder-input-output-embed": (
                    "together they are equivalent to --share-all-embeddings; use that option instead"
                ),
            },
            "help": "use one embedding matrix for documents and summaries, but not for the output layer",
        },
    )
    paper_init: bool = field(
        default=False,
        metadata={
            "help": "initialise weights as in See et al.'s code: word embeddings close to zero, uniform weights in "
            "[-0.02, 0.02] in recurrent networks, and Glorot initialisation of other matrices (docs/recurrent.md)"
        },
    )
    uniform_init: float = field(
        default=0.0,
        metadata={
            "bounds": NOT_NEGATIVE,
            "excludes": {"--paper-init": "both determine the initial weights; choose one"},
            "help": "bound R of the interval [-R, R] from which all initial weights are drawn uniformly (0: "
            "initialise as described in docs/recurrent.md)",
        },
    )
    large_vocabulary_trick: int = field(
        default=0,
        metadata={
            "bounds": NOT_NEGATIVE,
            "help": "number of candidate words to which the softmax is restricted (0: no restriction); the candidates "
            "are the words of the batch's documents and the most frequent words",
        },
    )
    coverage: bool = field(
        default=False,
        metadata={
            "excludes": {"--attention-score dot": "coverage is added inside --attention-score additive"},
            "help": "add coverage, which is the sum of the attention weights at earlier decoding steps, to the inputs "
            "of attention (See et al. 2017)",
        },
    )
    temporal_attention: bool = field(
        default=False,
        metadata={
            "help": "use temporal attention, which divides each word's exponentiated attention score by the sum of its "
            "exponentiated scores at earlier decoding steps (Nallapati et al. 2016)"
        },
    )
    hierarchical_attention: bool = field(
        default=False,
        metadata={
            "excludes": {"--encoder conv": "this attention needs the states of --encoder rnn"},
            "help": "attend to sentences as well as words of the document; each sentence must end with "
            f'"{SENTENCE_MARK}"',
        },
    )
    sentence_attention: ChoiceEnum(SENTENCE_ATTENTION) = field(  # type: ignore[valid-type]
        default="none",
        metadata={
            "help": "sentence-level attention. extractor: multiply the attention weight of each word by the "
            "probability that an extractor assigns to the word's sentence, and renormalise the weights (Hsu et al. "
            "2018); each sentence must end with "
            f'"{SENTENCE_MARK}"'
        },
    )
    extractor_embed_dim: int = field(
        default=EXTRACTOR["extractor_embed_dim"],
        metadata={
            "bounds": SIZE,
            "needs": ("--sentence-attention extractor",),
            "help": "dimension of the extractor's word embeddings",
        },
    )
    extractor_hidden_size: int = field(
        default=EXTRACTOR["extractor_hidden_size"],
        metadata={
            "bounds": SIZE,
            "needs": ("--sentence-attention extractor",),
            "help": "hidden size of the extractor's recurrent networks in each direction",
        },
    )
    max_sentences: int = field(
        default=EXTRACTOR["max_sentences"],
        metadata={
            "bounds": SIZE,
            "needs": ("--sentence-attention extractor",),
            "help": "maximum number of sentences per document that the extractor reads; later sentences receive no "
            "attention",
        },
    )
    max_sentence_words: int = field(
        default=EXTRACTOR["max_sentence_words"],
        metadata={
            "bounds": SIZE,
            "needs": ("--sentence-attention extractor",),
            "help": "maximum number of words per sentence that the extractor reads",
        },
    )
    encoder_by_sentence: bool = field(
        default=False,
        metadata={
            "needs": ("--hierarchical-attention",),
            "without": "without --hierarchical-attention, for which documents mark their sentences",
            "help": "reset the state of the word-level encoder at the start of each sentence (Li et al. 2018); "
            "requires --hierarchical-attention",
        },
    )
    sentence_gate: bool = field(
        default=False,
        metadata={
            "needs": ("--hierarchical-attention",),
            "without": "without --hierarchical-attention, for which documents mark their sentences",
            "help": "filter the sentence states with a gate that reads the whole document (Li et al. 2018); requires "
            "--hierarchical-attention",
        },
    )
    sentence_selector: bool = field(
        default=False,
        metadata={
            "needs": ("--hierarchical-attention",),
            "without": "without --hierarchical-attention, for which documents mark their sentences",
            "excludes": {
                f"--bridge {kind}": "each sentence begins with what was selected; choose --bridge tanh or relu"
                for kind in ("zero", "linear")
            },
            "help": "select sentences of the document before each summary sentence is written (Li et al. 2018); "
            "requires --hierarchical-attention. The decoder starts from the selected sentences and keeps their "
            f'weights until the next "{SENTENCE_MARK}". Use --selection-loss to train the selection',
        },
    )
    closed_book_decoder: bool = field(
        default=False,
        metadata={
            "excludes": {
                "--bridge zero": "this decoder begins with the encoder's last state; give --bridge tanh or relu",
                "--sentence-selector": "this decoder begins with the encoder's last state, but each sentence of a "
                "summary with the selected sentences; choose one",
                "--large-vocabulary-trick": "this decoder's softmax is over all words; choose one",
            },
            "help": "during training, add a second decoder without attention or a pointer, which reads only the "
            "encoder's last state (Jiang and Bansal 2018); the criterion's option --closed-book-weight sets the weight "
            "of its loss",
        },
    )
    closed_book_cut: bool = field(
        default=False,
        metadata={
            "needs": ("--closed-book-decoder",),
            "help": "do not backpropagate from the closed-book decoder to the encoder (a control experiment)",
        },
    )
    source_factors: str = field(default="none", metadata={"help": FACTORS_HELP.format(FACTOR_DIM)})


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


def make_preset_config(name: str, **changes: Any) -> type:
    """Create a dataclass that contains all options with a preset's defaults."""
    options = [(o.name, o.type, o.default, dict(o.metadata)) for o in fields(RecurrentConfig) if o.name != "_name"]
    return make_preset_dataclass(name, options, changes, __name__)


def check_options(cfg: Any, task: Any) -> None:
    """Raise ValueError if an option is invalid or is incompatible with another option or with the data."""
    check_option_values(cfg, RecurrentConfig)
    check_option_requirements(cfg, RecurrentConfig)
    _check_convolutional_encoder(cfg)
    check_pointer_dictionary(cfg, task)
    _check_embedding_sharing(cfg, task)
    if cfg.hierarchical_attention:
        check_sentence_end_token("--hierarchical-attention", task)
    if cfg.sentence_selector:
        _check_summary_sentence_ends(task)


def _check_summary_sentence_ends(task: Any) -> None:
    """Raise ValueError if the target vocabulary lacks the sentence mark that --sentence-selector requires."""
    words = task.target_dictionary
    if not words.unk() < words.index(SENTENCE_MARK) < count_known_words(words):
        raise ValueError(
            f'--sentence-selector: the summaries\' dictionary has no "{SENTENCE_MARK}" among its known words, so '
            "the ends of sentences in summaries are unknown; make the data from summaries with marked "
            "sentences (etads-prepare without --no-target-sentence-marks)"
        )


def _check_convolutional_encoder(cfg: Any) -> None:
    """Raise ValueError if options are incompatible with --encoder or --attention-query."""
    if str(cfg.encoder) == "conv":
        if cfg.encoder_window < 1 or cfg.encoder_window % 2 == 0:
            raise ValueError(f"--encoder-window {cfg.encoder_window}: choose an odd number, 1 or more")
        for option, needed in (("bridge", "zero"), ("encoder_layers", "1")):
            if str(getattr(cfg, option)) != needed:
                raise ValueError(
                    f"--{option.replace('_', '-')} {getattr(cfg, option)} does not go with --encoder conv, which has "
                    f"one layer and no last state: give --{option.replace('_', '-')} {needed}"
                )
    elif str(cfg.rnn_cell) == "elman":
        raise ValueError("--rnn-cell elman works only in decoders: give --encoder conv, or choose gru or lstm")
    if str(cfg.input_feed) == "readout" and str(cfg.attention_query) != "after":
        raise ValueError(
            "--input-feed readout needs --attention-query after, where the cell reads outputs of the previous step"
        )


def _check_embedding_sharing(cfg: Any, task: Any) -> None:
    """Raise ValueError if embeddings cannot be shared, or if two vector files are given for a shared table."""
    for option in ("share_all_embeddings", "share_input_embeddings"):
        if not getattr(cfg, option):
            continue
        flag = f"--{option.replace('_', '-')}"
        check_shared_dictionary(flag, task)
        if cfg.decoder_embed_dim != cfg.encoder_embed_dim:
            raise ValueError(
                f"{flag} needs equal widths; --encoder-embed-dim is {cfg.encoder_embed_dim} and "
                f"--decoder-embed-dim {cfg.decoder_embed_dim}"
            )
        if cfg.decoder_embed_path not in (None, cfg.encoder_embed_path):
            raise ValueError(f"{flag} shares one table: give only --encoder-embed-path")
    for option in ("share_all_embeddings", "share_decoder_input_output_embed"):
        if getattr(cfg, option) and cfg.readout_dim != cfg.decoder_embed_dim:
            raise ValueError(
                f"--{option.replace('_', '-')} needs an output layer as wide as word vectors; --readout-dim is "
                f"{cfg.readout_dim} and --decoder-embed-dim {cfg.decoder_embed_dim}"
            )
