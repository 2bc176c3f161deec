"""The recurrent family (Nallapati et al. 2016; See et al. 2017): one model, its options and its presets.

A bidirectional GRU reads the document, and a GRU with additive attention writes the summary. Every mechanism is a field
of :class:`RecurrentConfig`; a named architecture is a preset that changes defaults.
"""

from argparse import Namespace
from dataclasses import dataclass, field, fields
from typing import Any, Dict, Optional

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import FairseqEncoderDecoderModel
from omegaconf import II, OmegaConf
from torch import Tensor, nn

from ..layers.pointer import KINDS
from ..text.words import SENTENCE_MARK
from ..vocabulary.dictionary import without_tail
from ..vocabulary.embedding import VocabularyEmbedding, load_vectors, mark_lookup_table
from .common import (
    CONTINUE_HELP,
    SummarizationModel,
    check_continuation,
    check_one_dictionary,
    check_words,
    preset_dataclass,
    register_presets,
)
from .rnn_decoder import RecurrentDecoder
from .rnn_encoder import RecurrentEncoder

FACTOR_DIM = 16
"""Width of a factor's vectors where --source-factors gives none."""

INITIAL_STD = 0.25
"""Standard deviation of new word vectors and output weights. With the uniform ±0.1 of fairseq's recurrent models, a
model of width 100 learns no more than the frequencies of words in its first hundreds of steps (docs/recurrent.md)."""


@dataclass
class RecurrentConfig(FairseqDataclass):
    """The options of the recurrent family; the defaults are those of the paper's Gigaword models."""

    encoder_embed_dim: int = field(default=200, metadata={"help": "width of the documents' word vectors"})
    encoder_hidden_size: int = field(default=400, metadata={"help": "width of each direction of the encoder's GRU"})
    encoder_layers: int = field(default=1, metadata={"help": "layers of the encoder's GRU"})
    decoder_embed_dim: int = field(
        default=II("model.encoder_embed_dim"), metadata={"help": "width of the summaries' word vectors and the readout"}
    )
    decoder_hidden_size: int = field(
        default=II("model.encoder_hidden_size"), metadata={"help": "width of the decoder's GRU"}
    )
    attention_dim: int = field(
        default=II("model.decoder_hidden_size"), metadata={"help": "width of the attention's hidden layer"}
    )
    dropout: float = field(default=0.0, metadata={"help": "dropout of word vectors, encoder states and readout"})
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
    source_factors: str = field(
        default="none",
        metadata={
            "help": "factors of the documents' words to read: none, all, or a list of names of DATA/factors.json with "
            f'or without widths, such as "pos:20,tf" (without: {FACTOR_DIM})'
        },
    )


_LVT2K: Dict[str, Any] = {"large_vocabulary_trick": 2000}
_CNN: Dict[str, Any] = {"encoder_embed_dim": 100, "encoder_hidden_size": 200, **_LVT2K}  # section 4.3
_FEATURES: Dict[str, Any] = {**_LVT2K, "source_factors": "pos:20,ner:15,tf:10,idf:10"}  # 55 in all, as in the paper

PRESETS: Dict[str, Dict[str, Any]] = {
    "gru_seq2seq": {},
    "words_lvt2k": _LVT2K,
    "words_lvt5k": {"large_vocabulary_trick": 5000},
    "words_lvt2k_hieratt": {**_LVT2K, "hierarchical_attention": True},
    "feats_lvt2k": _FEATURES,
    "feats_lvt2k_ptr": {**_FEATURES, "pointer": "switch"},
    "words_lvt2k_temp_att": {**_CNN, "temporal_attention": True},
    # See et al. 2017, section 5: width 256, vectors of 128 shared by both sides
    "pg_coverage": {
        "encoder_embed_dim": 128,
        "encoder_hidden_size": 256,
        "attention_dim": 512,
        "share_all_embeddings": True,
        "pointer": "soft",
        "coverage": True,
    },
}
"""Named architectures: what each changes in the defaults (Nallapati et al. 2016, tables 1 to 3; See et al. 2017)."""


def preset_config(name: str, **changes: Any) -> type:
    """A dataclass of all options with the preset's defaults."""
    options = [(o.name, o.type, o.default, dict(o.metadata)) for o in fields(RecurrentConfig) if o.name != "_name"]
    return preset_dataclass(name, options, changes, __name__)


def parse_factors(value: str, available: Dict[str, Dictionary]) -> Dict[str, int]:
    """Width of each factor to read, by its name.

    Args:
        value: "none", "all", or a list such as "pos:20,tf". available: the factors that the data has.

    Raises:
        ValueError: the list is malformed, or the data lacks a factor.
    """
    text = str(value).strip()
    if text == "none":
        return {}
    taken = [factor for factor in available if hasattr(nn.ModuleDict(), factor)]
    if taken:
        raise ValueError(f'--source-factors "{value}": torch needs the name "{taken[0]}"; rename the factor')
    has = ", ".join(available) if available else "no factors.json, so no factor at all"
    if text == "all":
        if not available:
            raise ValueError(f"--source-factors all: DATA has {has}; make the data with etads-prepare --factors")
        return dict.fromkeys(available, FACTOR_DIM)
    widths: Dict[str, int] = {}
    for part in text.split(","):
        name, colon, width = (piece.strip() for piece in part.partition(":"))
        if not name or name in widths or (colon and not (width.isdigit() and int(width) > 0)):
            raise ValueError(
                f'--source-factors "{value}": "{part}" is not a new name, or name:width with a width above 0'
            )
        if name not in available:
            raise ValueError(
                f'--source-factors "{value}": there is no factor "{name}"; DATA has {has}. '
                "Make the data with etads-prepare --factors, or choose another architecture"
            )
        widths[name] = int(width) if colon else FACTOR_DIM
    return widths


def _check(cfg: RecurrentConfig, task: Any) -> None:
    """Raise ValueError for an option that makes no sense alone, with the others, or with the data."""
    for option in ("encoder_embed_dim", "encoder_hidden_size", "encoder_layers", "decoder_embed_dim"):
        _at_least(cfg, option, 1)
    for option in ("decoder_hidden_size", "attention_dim"):
        _at_least(cfg, option, 1)
    _at_least(cfg, "large_vocabulary_trick", 0)
    if not 0 <= cfg.dropout < 1:
        raise ValueError(f"--dropout {cfg.dropout}: choose a probability, at least 0 and below 1")
    if str(cfg.pointer) != "none":
        check_one_dictionary(f"--pointer {cfg.pointer}", task)
    check_continuation(cfg)
    if cfg.share_all_embeddings:
        check_one_dictionary("--share-all-embeddings", task)
        if cfg.decoder_embed_dim != cfg.encoder_embed_dim:
            raise ValueError(
                f"--share-all-embeddings needs one width; --encoder-embed-dim is {cfg.encoder_embed_dim} and "
                f"--decoder-embed-dim {cfg.decoder_embed_dim}"
            )
        if cfg.decoder_embed_path not in (None, cfg.encoder_embed_path):
            raise ValueError("--share-all-embeddings has one table: give --encoder-embed-path alone")
    words = task.source_dictionary
    if cfg.hierarchical_attention and words.index(SENTENCE_MARK) == words.unk():
        raise ValueError(
            f'--hierarchical-attention: the documents\' dictionary has no "{SENTENCE_MARK}", which ends a sentence; '
            "make the data from documents that mark their sentences so"
        )


def _at_least(cfg: RecurrentConfig, option: str, least: int) -> None:
    if getattr(cfg, option) < least:
        raise ValueError(f"--{option.replace('_', '-')} {getattr(cfg, option)}: choose {least} or more")


def _table(dictionary: Dictionary, width: int) -> nn.Embedding:
    """New word vectors; that of padding is 0."""
    table = nn.Embedding(len(dictionary), width, dictionary.pad())
    nn.init.normal_(table.weight, std=INITIAL_STD)
    nn.init.zeros_(table.weight[dictionary.pad()])
    return table


def _source_words(source: Dictionary, target: Dictionary) -> Optional[Tensor]:
    """Each known source word's id in the summaries' dictionary, or 0; None if both sides share one dictionary."""
    if source == target:
        return None
    return torch.tensor([target.indices.get(word, 0) for word in source.symbols])


class RecurrentModel(SummarizationModel, FairseqEncoderDecoderModel):
    """GRU encoder-decoder with the papers' mechanisms as options.

    Built by ``--arch`` with one of :data:`PRESETS`; see :class:`RecurrentConfig` for the options.
    """

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "RecurrentModel":
        """Build from the options.

        Raises:
            ValueError: an option does not fit the others, or the dictionaries, or the data's factors.
            OSError: a file of word vectors cannot be read.
        """
        options: Any = vars(cfg)
        if OmegaConf.is_config(cfg):  # with texts for enumerations, which could not be pickled
            options = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
        config: Any = Namespace(**options)
        _check(config, task)
        source, target = without_tail(task.source_dictionary), without_tail(task.target_dictionary)
        widths = parse_factors(config.source_factors, task.factor_dictionaries)
        factors = {name: _table(task.factor_dictionaries[name], width) for name, width in widths.items()}

        words = _table(source, config.encoder_embed_dim)
        summary_words = words if config.share_all_embeddings else _table(target, config.decoder_embed_dim)
        if not task.is_loading:  # a checkpoint has vectors of its own
            load_vectors(config.encoder_embed_path, source, words, "--encoder-embed-path")
            if summary_words is not words:
                load_vectors(config.decoder_embed_path, target, summary_words, "--decoder-embed-path")
        tied = config.share_all_embeddings or config.share_decoder_input_output_embed
        output: Any = summary_words.weight if tied else _table(target, config.decoder_embed_dim).weight

        mark = task.source_dictionary.index(SENTENCE_MARK) if config.hierarchical_attention else None
        embed = VocabularyEmbedding(words, source.unk())
        encoder = RecurrentEncoder(config, source, embed, factors, mark)
        summary_embed = VocabularyEmbedding(summary_words, target.unk(), len(target))
        decoder = RecurrentDecoder(config, target, summary_embed, output, _source_words(source, target))
        model = cls(encoder, decoder)
        model.mark_tables()
        return model

    def mark_tables(self) -> None:
        """Tell optimisers which weights are only looked up by rows; an output layer over all words is not."""
        output = self.decoder.output_projection
        trick = self.decoder.large_vocabulary_trick > 0
        tables = [self.encoder.embed_tokens.weight, self.decoder.embed_tokens.weight]
        for table in [*tables, output.weight, output.bias] if trick else tables:
            if trick or table is not output.weight:
                mark_lookup_table(table)

    @property
    def factors(self) -> Any:
        """Names of the source factors that the model reads, in the order of its input."""
        return tuple(self.encoder.factors)

    def load_state_dict(self, state_dict: Any, strict: bool = True, **kwargs: Any) -> Any:
        """Load weights.

        Raises:
            ValueError: they were trained with other dictionaries or other source factors.
        """
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
