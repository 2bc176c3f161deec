"""The recurrent family (Nallapati et al. 2016; See et al. 2017): one model, its options and its presets.

A bidirectional GRU or LSTM reads the document, and one with additive attention writes the summary. Every mechanism is a
field of :class:`RecurrentConfig`; a named architecture is a preset that changes defaults.
"""

import functools
from dataclasses import dataclass, field, fields
from typing import Any, Dict, Optional

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import FairseqEncoderDecoderModel
from omegaconf import II
from torch import Tensor

from ..layers.closed_book import CLOSED_BOOK, ClosedBookDecoder
from ..layers.pointer import KINDS
from ..text.words import SENTENCE_MARK
from ..vocabulary.dictionary import without_tail
from ..vocabulary.embedding import VocabularyEmbedding, load_vectors, mark_lookup_table
from .common import (
    CONTINUE_HELP,
    EncodingDecoding,
    SummarizationModel,
    check_words,
    plain_options,
    preset_dataclass,
    register_presets,
)
from .conv_encoder import ConvolutionalEncoder
from .rnn_checks import EXTRACTOR, FACTOR_DIM, check_options, parse_factors
from .rnn_decoder import RecurrentDecoder
from .rnn_encoder import RecurrentEncoder, WordEncoder, input_width, memory_width
from .rnn_initial import begin_as_see_et_al, begin_uniform, new_table
from .rnn_presets import PRESETS
from .selector import SentenceExtractor
from .sentence_attention import KINDS as SENTENCE_ATTENTION
from .sentence_attention import make_extractor

ENCODERS = ("rnn", "conv")
CELLS = ("gru", "lstm", "elman")
BRIDGES = ("tanh", "relu", "linear", "zero")
QUERIES = ("before", "after")
SCORES = ("additive", "dot")
FEEDS = ("context", "readout")
READOUTS = ("tanh", "linear", "luong", "mlp", "none")
GATES = ("none", "selective")
DROPOUT_PLACES = ("words", "state")


@dataclass
class RecurrentConfig(FairseqDataclass):
    """The options of the recurrent family; the defaults are those of the paper's Gigaword models."""

    encoder_embed_dim: int = field(default=200, metadata={"help": "width of the documents' word vectors"})
    encoder_hidden_size: int = field(default=400, metadata={"help": "width of each direction of the encoder's network"})
    encoder_layers: int = field(default=1, metadata={"help": "layers of the encoder's network"})
    decoder_embed_dim: int = field(
        default=II("model.encoder_embed_dim"), metadata={"help": "width of the summaries' word vectors"}
    )
    decoder_hidden_size: int = field(
        default=II("model.encoder_hidden_size"), metadata={"help": "width of the decoder's network"}
    )
    attention_dim: int = field(
        default=II("model.decoder_hidden_size"), metadata={"help": "width of the attention's hidden layer"}
    )
    readout_dim: int = field(
        default=II("model.decoder_embed_dim"), metadata={"help": "width of the readout, which the output layer reads"}
    )
    encoder: ChoiceEnum(ENCODERS) = field(  # type: ignore[valid-type]
        default="rnn",
        metadata={
            "help": "what attention reads. rnn: states of a network in both directions; conv: word vectors, which are "
            "found by a convolution over words and positions (Chopra et al. 2016)"
        },
    )
    encoder_window: int = field(
        default=5, metadata={"help": "how many words the convolution of --encoder conv sees at once, an odd number"}
    )
    encoder_gate: ChoiceEnum(GATES) = field(  # type: ignore[valid-type]
        default="none",
        metadata={
            "help": "selective: a gate lets a part of each encoder state through to the decoder, by the state and the "
            "last ones of both directions (Zhou et al. 2017)"
        },
    )
    encoder_projection: int = field(
        default=0, metadata={"help": "let attention read W [encoder state], N wide, instead of the state (0: off)"}
    )
    learnt_start: bool = field(
        default=False, metadata={"help": "the encoder's networks begin with learnt states instead of 0"}
    )
    rnn_cell: ChoiceEnum(CELLS) = field(  # type: ignore[valid-type]
        default="gru",
        metadata={
            "help": "networks of encoder and decoder (lstm: See et al. 2017; elman: Chopra et al. 2016, a decoder's "
            "with --encoder conv)"
        },
    )
    bridge: ChoiceEnum(BRIDGES) = field(  # type: ignore[valid-type]
        default="tanh",
        metadata={
            "help": "nonlinearity of the decoder's first state, a(W [last states] + b) (relu: See et al. 2017; linear: "
            "none), or zero: it is 0 (Chopra et al. 2016)"
        },
    )
    merge_input: bool = field(
        default=False,
        metadata={
            "help": "let the decoder's cell read W [word's vector; context] + b, which is as wide as a word's vector, "
            "instead of both (See et al. 2017)"
        },
    )
    attention_query: ChoiceEnum(QUERIES) = field(  # type: ignore[valid-type]
        default="before",
        metadata={
            "help": "what attention asks with. before: the state before the step and the word before; after: the state "
            "after the step, which has read the context of the step before (See et al. 2017)"
        },
    )
    input_feed: ChoiceEnum(FEEDS) = field(  # type: ignore[valid-type]
        default="context",
        metadata={
            "help": "with --attention-query after, what the cell reads of the step before: the context, or the readout "
            "(Luong et al. 2015)"
        },
    )
    attention_score: ChoiceEnum(SCORES) = field(  # type: ignore[valid-type]
        default="additive",
        metadata={
            "help": "how attention compares. additive: v tanh(query + key); dot: the state times the key, without "
            "weights (Chopra et al. 2016), but the keys of --encoder rnn are W h (Luong et al. 2015: general)"
        },
    )
    readout: ChoiceEnum(READOUTS) = field(  # type: ignore[valid-type]
        default="tanh",
        metadata={
            "help": "what the output layer reads. tanh: tanh(W [state; word's vector; context] + b); linear: W [state; "
            "context] + b (See et al. 2017); luong: tanh(W [state; context]) (Luong et al. 2015); mlp: W_2 tanh(W_1 "
            "[state; context] + b) (Chen and Bansal 2018); none: [state; context] itself"
        },
    )
    output_bias: bool = field(default=True, metadata={"help": "give the output layer a bias"})
    dropout: float = field(default=0.0, metadata={"help": "dropout probability, see --dropout-at"})
    dropout_at: ChoiceEnum(DROPOUT_PLACES) = field(  # type: ignore[valid-type]
        default="words",
        metadata={
            "help": "what --dropout acts on beside the readout. words: word vectors and encoder states; state: the "
            "decoder's state after each step, in the place of these"
        },
    )
    encoder_embed_path: Optional[str] = field(
        default=None, metadata={"help": "word vectors to begin with, in word2vec's text format, for documents"}
    )
    decoder_embed_path: Optional[str] = field(default=None, metadata={"help": "the same for summaries"})
    share_decoder_input_output_embed: bool = field(
        default=False, metadata={"help": "summaries' word vectors are the output layer's weight, too"}
    )
    share_all_embeddings: bool = field(
        default=False, metadata={"help": "one table for documents' and summaries' word vectors and the output layer"}
    )
    share_input_embeddings: bool = field(
        default=False,
        metadata={"help": "one table for documents' and summaries' word vectors, but not for the output layer"},
    )
    paper_init: bool = field(
        default=False,
        metadata={
            "help": "begin with weights as in See et al.'s code: tiny word vectors, networks uniform within 0.02, the "
            "other matrices by Glorot's rule (docs/recurrent.md)"
        },
    )
    uniform_init: float = field(
        default=0.0, metadata={"help": "begin with all weights uniform between -R and R (0: as docs/recurrent.md says)"}
    )
    large_vocabulary_trick: int = field(
        default=0,
        metadata={
            "help": "softmax over the batch's words and the most frequent ones, N words in all (0: over all words)"
        },
    )
    pointer: ChoiceEnum(KINDS) = field(  # type: ignore[valid-type]
        default="none",
        metadata={
            "help": "copy words of the document by attention, unknown ones too: soft mixes copying and generating, "
            "switch decides between them at every word"
        },
    )
    pointer_continue: bool = field(default=False, metadata={"help": CONTINUE_HELP})
    coverage: bool = field(
        default=False, metadata={"help": "tell the attention what it has attended to before (See et al. 2017)"}
    )
    temporal_attention: bool = field(
        default=False,
        metadata={"help": "divide the attention to a word by what it got in earlier steps (Nallapati et al. 2016)"},
    )
    hierarchical_attention: bool = field(
        default=False,
        metadata={"help": f'attend to sentences, too; "{SENTENCE_MARK}" must end each sentence of a document'},
    )
    sentence_attention: ChoiceEnum(SENTENCE_ATTENTION) = field(  # type: ignore[valid-type]
        default="none",
        metadata={
            "help": "extractor: the attention to a word is multiplied by the probability with which an extractor takes "
            f'its sentence, which "{SENTENCE_MARK}" ends, and divided by the sum (Hsu et al. 2018)'
        },
    )
    extractor_embed_dim: int = field(
        default=EXTRACTOR["extractor_embed_dim"], metadata={"help": "width of the extractor's word vectors"}
    )
    extractor_hidden_size: int = field(
        default=EXTRACTOR["extractor_hidden_size"],
        metadata={"help": "width of each direction of the extractor's networks"},
    )
    max_sentences: int = field(
        default=EXTRACTOR["max_sentences"],
        metadata={"help": "sentences of a document that the extractor reads; others are not attended to"},
    )
    max_sentence_words: int = field(
        default=EXTRACTOR["max_sentence_words"], metadata={"help": "words of a sentence that the extractor reads"}
    )
    encoder_by_sentence: bool = field(
        default=False,
        metadata={
            "help": "with --hierarchical-attention, let the network over words begin anew with each sentence "
            "(Li et al. 2018)"
        },
    )
    sentence_gate: bool = field(
        default=False,
        metadata={
            "help": "with --hierarchical-attention, filter the states of sentences by a gate that sees the whole "
            "document (Li et al. 2018)"
        },
    )
    sentence_selector: bool = field(
        default=False,
        metadata={
            "help": "with --hierarchical-attention, select sentences of the document whenever a sentence of the "
            f'summary begins, which "{SENTENCE_MARK}" separates: they keep their weights until it ends, and the '
            "decoder begins with them (Li et al. 2018); see --selection-loss"
        },
    )
    closed_book_decoder: bool = field(
        default=False,
        metadata={
            "help": "in training a second decoder without attention and pointer learns from the encoder's last state "
            "alone (Jiang and Bansal 2018); see --closed-book-weight of the criterion"
        },
    )
    closed_book_cut: bool = field(
        default=False, metadata={"help": "the encoder learns nothing from the closed-book decoder (a control)"}
    )
    source_factors: str = field(
        default="none",
        metadata={
            "help": "factors of the documents' words to read: none, all, or a list of names of DATA/factors.json with "
            f'or without widths, such as "pos:20,tf" (without: {FACTOR_DIM})'
        },
    )


def preset_config(name: str, **changes: Any) -> type:
    """A dataclass of all options with the preset's defaults."""
    options = [(o.name, o.type, o.default, dict(o.metadata)) for o in fields(RecurrentConfig) if o.name != "_name"]
    return preset_dataclass(name, options, changes, __name__)


def _source_words(source: Dictionary, target: Dictionary) -> Optional[Tensor]:
    """Each known source word's id in the summaries' dictionary, or 0; None if both sides share one dictionary."""
    if source == target:
        return None
    return torch.tensor([target.indices.get(word, 0) for word in source.symbols])


class RecurrentModel(SummarizationModel, EncodingDecoding, FairseqEncoderDecoderModel):
    """Recurrent encoder-decoder with the papers' mechanisms as options.

    Built by ``--arch`` with one of :data:`PRESETS`; see :class:`RecurrentConfig` for the options.
    """

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "RecurrentModel":
        """Build from the options.

        Raises:
            ValueError: an option does not fit the others, or the dictionaries, or the data's factors.
            OSError: a file of word vectors cannot be read.
        """
        config = plain_options(cfg)
        check_options(config, task)
        source, target = without_tail(task.source_dictionary), without_tail(task.target_dictionary)
        widths = parse_factors(config.source_factors, task.factor_dictionaries)
        table = functools.partial(new_table, tiny=config.paper_init, bound=config.uniform_init)
        factors = {name: table(task.factor_dictionaries[name], width) for name, width in widths.items()}

        words = table(source, config.encoder_embed_dim)
        one_table = config.share_all_embeddings or config.share_input_embeddings
        summary_words = words if one_table else table(target, config.decoder_embed_dim)
        if not task.is_loading:  # a checkpoint has vectors of its own
            load_vectors(config.encoder_embed_path, source, words, "--encoder-embed-path")
            if summary_words is not words:
                load_vectors(config.decoder_embed_path, target, summary_words, "--decoder-embed-path")
        tied = config.share_all_embeddings or config.share_decoder_input_output_embed
        is_conv = config.encoder == "conv"
        context = input_width(config.encoder_embed_dim, factors) if is_conv else memory_width(config)
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
        decoder = RecurrentDecoder(config, target, summary_embed, output, _source_words(source, target), context)
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
        for name, part in task.auxiliary_parts(config).items():
            model.add_module(name, part)
        if config.paper_init:
            begin_as_see_et_al(model)
        if config.uniform_init:
            begin_uniform(model, config.uniform_init)
        if str(config.sentence_attention) == "extractor":  # with weights of its own, which are usually loaded
            model.encoder.extractor = make_extractor(config, task)
        model.mark_tables()
        return model

    def mark_tables(self) -> None:
        """Tell optimisers which weights are only looked up by rows; an output layer over all words is not."""
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
        """With --sentence-attention extractor, what finds sentences likely."""
        found: Optional[SentenceExtractor] = self.encoder.extractor
        return found

    @property
    def factors(self) -> Any:
        """Names of the source factors that the model reads, in the order of its input."""
        return tuple(self.encoder.factors)

    def load_state_dict(self, state_dict: Any, strict: bool = True, **kwargs: Any) -> Any:
        """Load weights.

        Raises:
            ValueError: they were trained with other dictionaries or other source factors.
        """
        if self.decoder.closed_book is None:
            state_dict = {key: value for key, value in state_dict.items() if not key.startswith(CLOSED_BOOK)}
        check_words(state_dict, "source", self.encoder)
        check_words(state_dict, "target", self.decoder)
        start, end = "encoder.factors.", ".weight"
        trained = {k[len(start) : -len(end)]: len(v) for k, v in state_dict.items() if k.startswith(start)}
        present = {name: table.num_embeddings for name, table in self.encoder.factors.items()}
        if trained != present:
            raise ValueError(
                f"the checkpoint was trained with the source factors {_sizes(trained)} and DATA gives "
                f"{_sizes(present)}: give the data directory with which it was trained"
            )
        return super().load_state_dict(state_dict, strict=strict, **kwargs)


def _sizes(factors: Dict[str, int]) -> str:
    return ", ".join(f"{name} ({size} values)" for name, size in sorted(factors.items())) or "(none)"


register_presets(RecurrentModel, PRESETS, preset_config)
