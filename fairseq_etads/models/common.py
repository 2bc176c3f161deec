"""Code that all model families share: options, source factors, targets, and checks of dictionaries and checkpoints."""

import sys
from argparse import SUPPRESS, ArgumentParser, BooleanOptionalAction, Namespace
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, Dict, Optional, Set

from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import register_model
from omegaconf import OmegaConf
from torch import Tensor, nn

from ..layers.decoder_output import DecoderOutput, NetOutput, WordRequest
from ..layers.pointer import KINDS
from ..platform.command_options import find_option_conflict, format_option_name, option
from ..text.words import SENTENCE_MARK
from ..vocabulary.dictionary import count_known_words
from ..vocabulary.output import OutputVocabulary

FACTOR_DIM = 16
"""Default width of factor embeddings in recurrent models. --source-factors can specify other widths."""
HELP = (
    "source factors (word-level features) of the documents: none, all, or a list of names from DATA/factors.json "
    'with optional dimensions, such as "pos:20,tf" (default dimension: {})'
)
_TABLES = "encoder.factors."


def parse_factors(value: str, available: Dict[str, Dictionary], default: int = FACTOR_DIM) -> Dict[str, int]:
    """Parse --source-factors, such as "none", "all" or "pos:20,tf", to a dictionary from factor names to widths.

    The width of a factor without one is ``default``. ``available`` has the dictionary of each factor in the data.

    Raises:
        ValueError: the list is malformed, or the data does not contain a factor.
    """
    text = str(value).strip()
    if text == "none":
        return {}
    taken = [factor for factor in available if hasattr(nn.ModuleDict(), factor)]
    if taken:
        raise ValueError(f'--source-factors "{value}": torch reserves the name "{taken[0]}"; rename the factor')
    has = ", ".join(available) if available else "no factors.json, and so no factors"
    if text == "all":
        if not available:
            raise ValueError(f"--source-factors all: DATA has {has}; prepare the data with etads-prepare --factors")
        return dict.fromkeys(available, default)
    widths: Dict[str, int] = {}
    for part in text.split(","):
        name, colon, width = (piece.strip() for piece in part.partition(":"))
        if not name or name in widths or (colon and not (width.isdecimal() and int(width) > 0)):
            raise ValueError(
                f'--source-factors "{value}": "{part}" must be a new name, or name:width with a width above 0'
            )
        if name not in available:
            raise ValueError(
                f'--source-factors "{value}": there is no factor "{name}"; DATA has {has}. '
                "Prepare the data with etads-prepare --factors, or choose another architecture"
            )
        widths[name] = int(width) if colon else default
    return widths


def check_factor_count(names: Any, factors: Optional[Tensor]) -> None:
    """Raise ValueError unless a batch has as many factors (B, S, F), or None, as the model reads (``names``)."""
    given = 0 if factors is None else factors.shape[2]
    if given != len(names):
        raise ValueError(
            f"the model reads {len(names)} source factors ({', '.join(names) or 'none'}) but the batch has {given}"
        )


def check_trained_factors(state_dict: Any, tables: Any) -> None:
    """Raise ValueError if the weights come from a model with other factors or numbers of values than ``tables``."""
    trained = {name.split(".")[2]: len(table) for name, table in state_dict.items() if name.startswith(_TABLES)}
    present = {name: table.num_embeddings for name, table in tables.items()}
    if trained != present:
        raise ValueError(
            f"the checkpoint was trained with the source factors {_format_sizes(trained)} but DATA has "
            f"{_format_sizes(present)}: use the data folder with which it was trained"
        )


def _format_sizes(factors: Dict[str, int]) -> str:
    return ", ".join(f"{name} ({size} values)" for name, size in sorted(factors.items())) or "(none)"


def make_factor_tables(widths: Dict[str, int], dictionaries: Dict[str, Dictionary]) -> nn.ModuleDict:
    """Create an embedding table for each factor, in alphabetical order of names. The padding vector is 0."""
    tables = nn.ModuleDict()
    for name in sorted(widths):
        values = dictionaries[name]
        table = nn.Embedding(len(values), widths[name], values.pad())
        nn.init.normal_(table.weight, std=widths[name] ** -0.5)
        nn.init.zeros_(table.weight[values.pad()])
        tables[name] = table
    return tables


AUXILIARY_PARTS = ("auxiliary", "pair_classifier")
"""Names of the submodules that --auxiliary-task adds to a model during training."""


class SummarizationModel:
    """A mixin for this project's models. List it before fairseq's model class among the base classes."""

    encoder: Any
    decoder: Any

    def __getstate__(self) -> Dict[str, Any]:
        """Return the state for pickling, without the function that fairseq assigns to ``train`` for inference."""
        return {name: value for name, value in vars(self).items() if name != "train"}

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Add the preset's options to the argument parser of ``fairseq-train``."""
        # register_model sets this attribute. Python would mangle the name in cls.__dataclass, so use getattr.
        preset = getattr(cls, "__dataclass")()
        for each in fields(preset):
            if each.type is bool and not each.name.startswith("no_"):
                # If a boolean option is True by default, fairseq's parser sets it to *False* when its flag is passed.
                # Defaults differ between presets, so every boolean option has both --option and --no-option.
                about = {"default": SUPPRESS, "help": each.metadata["help"]}
                parser.add_argument(format_option_name(each.name), action=BooleanOptionalAction, **about)
        gen_parser_from_dataclass(parser, preset, delete_default=True)

    def load_state_dict(self, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        """Load weights. If names or shapes differ, the error message explains how to load only the matching weights.

        Weights of an auxiliary task are ignored if this model was built without that task.

        Raises:
            ValueError: the weights were trained with different dictionaries, truncation lengths or source factors.
        """
        parent: Any = super()
        for side, name in (("source", "encoder"), ("target", "decoder")):
            if hasattr(self, name):
                check_trained_sizes(state_dict, side, name, getattr(self, name))
        missing = tuple(f"{name}." for name in AUXILIARY_PARTS if not hasattr(self, name))
        if any(name.startswith(missing) for name in state_dict):
            state_dict = {name: value for name, value in state_dict.items() if not name.startswith(missing)}
        try:
            return parent.load_state_dict(state_dict, *args, **kwargs)
        except RuntimeError as error:
            if "Error(s) in loading state_dict" not in str(error):
                raise
            hint = "to start training from the matching weights of another model, use --init-from CHECKPOINT"
            raise RuntimeError(f"{error}\n\t{hint}") from None

    def get_targets(self, sample: Dict[str, Any], net_output: NetOutput) -> Tensor:
        """Return the target summaries (B, T) as extended ids, which index the output of ``get_normalized_probs``."""
        vocabulary = DecoderOutput.from_fairseq_output(net_output).vocabulary
        assert vocabulary is not None, "a decoder of this project must provide the words of its distributions"
        return vocabulary.convert_to_extended_ids(sample["target"])


class EncoderDecoderMixin:
    """A mixin for encoder-decoder models that accept a :class:`WordRequest`."""

    encoder: Any
    decoder: Any

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor],
        prev_output_tokens: Tensor,
        request: Optional[WordRequest] = None,
        **of_documents: Any,
    ) -> NetOutput:
        """Compute logits (B, T, C) and a dictionary; see :class:`DecoderOutput`.

        Args:
            src_tokens, src_lengths: the source documents (B, S) and their lengths (B,).
            prev_output_tokens: the dictionary ids of the previous words (B, T).
            request: the words for which the loss function needs log-probabilities, or None to compute logits for all
                words.
            of_documents: additional keyword arguments for the encoder, such as source factors.
        """
        encoder_out = self.encoder(src_tokens, src_lengths=src_lengths, **of_documents)
        found: NetOutput = self.decoder(prev_output_tokens, encoder_out=encoder_out, request=request)
        return found


def convert_options_to_namespace(cfg: Any) -> Any:
    """Convert a model's options to a plain namespace, and enumerations to strings, so that it can be pickled."""
    if OmegaConf.is_config(cfg):
        cfg = Namespace(**OmegaConf.to_container(cfg, resolve=True, enum_to_str=True))  # type: ignore[arg-type]
    return Namespace(**vars(cfg))


def make_preset_config(name: str, config: type, **changes: Any) -> type:
    """Create a dataclass with the options of ``config`` and changed defaults. Raises ValueError for other names."""
    options = [option for option in fields(config) if option.name != "_name"]
    unknown = sorted(changes.keys() - {option.name for option in options})
    if unknown:
        raise ValueError(f"preset {name}: unknown options {unknown}")
    made = [(o.name, o.type, field(default=changes.get(o.name, o.default), metadata=dict(o.metadata))) for o in options]
    return make_dataclass(name, made, bases=(FairseqDataclass,), namespace={"__module__": config.__module__})


def register_presets(model: type, presets: Dict[str, Dict[str, Any]], config: type) -> None:
    """Register each preset as a value of --arch. ``config`` declares the options of the model."""
    for name, changes in presets.items():
        # Create one class per preset, because fairseq stores the dataclass of the options as a class attribute.
        own = type(name, (model,), {"__doc__": model.__doc__, "__module__": model.__module__})
        register_model(name, dataclass=make_preset_config(name, config, **changes))(own)
        setattr(sys.modules[model.__module__], name, own)  # pickle looks up the class in this module


def select_encoder_output(encoder_out: Dict[str, Any], documents: Tensor) -> Dict[str, Any]:
    """Select the rows of the encoder's output for the document indices (N,), which may contain repetitions.

    Each value is a list of tensors with one row per document, the :class:`OutputVocabulary` of the batch, or an output
    layer that is shared by the whole batch.
    """
    selected: Dict[str, Any] = {}
    for name, value in encoder_out.items():
        if isinstance(value, list):
            selected[name] = [tensor.index_select(0, documents) for tensor in value]
        elif isinstance(value, OutputVocabulary):
            selected[name] = value.select(documents)
        else:
            selected[name] = value
    return selected


ONE_DICTIONARY = {
    "one dictionary for documents and summaries": "DATA has two; prepare the data again with etads-prepare or "
    "fairseq-preprocess --joined-dictionary"
}
SENTENCE_MARKS = {
    f'"{SENTENCE_MARK}" at the ends of sentences': "the documents' dictionary does not contain it; prepare the data "
    "with etads-prepare --source-sentence-marks"
}
SUMMARY_MARKS = {
    f'"{SENTENCE_MARK}" at the ends of sentences in summaries': "the summaries' dictionary does not contain it among "
    "its known words; prepare the data without --no-target-sentence-marks"
}
RIGHT_PADDING = {
    "summaries that are padded on the right": "convolutions would read the padding before a summary; leave out "
    "--left-pad-target"
}
"""Properties of the data that options and architectures require, with advice; see :func:`list_data_properties`."""


def list_data_properties(task: Any) -> Set[str]:
    """Return the names of the properties of the data that options can require."""
    documents, summaries = task.source_dictionary, task.target_dictionary
    has_summary_marks = summaries.unk() < summaries.index(SENTENCE_MARK) < count_known_words(summaries)
    is_there = {
        **dict.fromkeys(ONE_DICTIONARY, documents == summaries),
        **dict.fromkeys(SENTENCE_MARKS, documents.index(SENTENCE_MARK) != documents.unk()),
        **dict.fromkeys(SUMMARY_MARKS, has_summary_marks),
        **dict.fromkeys(RIGHT_PADDING, not task.cfg.left_pad_target),
    }
    return {name for name, holds in is_there.items() if holds}


def check_data_suits_architecture(name: str, requires: Dict[str, str], task: Any) -> None:
    """Raise ValueError if the data lacks a property that the architecture requires."""
    found = find_option_conflict({"arch": name}, {"arch": {"requires": requires}}, list_data_properties(task))
    if found:
        raise ValueError(found)


_KINDS = tuple(f"--pointer {kind}" for kind in KINDS if kind != "none")


@dataclass
class PointerOptions(FairseqDataclass):
    """Options of the pointer. The configurations of all model families inherit from this class."""

    pointer: ChoiceEnum(KINDS) = option(  # type: ignore[valid-type]
        "none",
        "mechanism for copying words from the document, including unknown words. soft: mix the "
        "distributions for copying and generating; switch: choose between copying and generating for each word",
        requires=ONE_DICTIONARY,
    )
    pointer_continue: bool = option(
        False,
        "add pointer features for document words that follow the last words of the summary so far or "
        "already occur in it, so that the model learns more quickly to copy consecutive words",
        needs=_KINDS,
    )


def check_trained_sizes(state_dict: Any, side: str, name: str, part: Any) -> None:
    """Raise ValueError if weights come from a model with other numbers of words, learned positions or source factors.

    ``part`` is the "encoder" (``side`` "source") or "decoder" ("target") that will load them.
    """
    words, rows = state_dict.get(f"{name}.embed_tokens.weight"), part.embed_tokens.num_embeddings
    if words is not None and len(words) != rows:
        raise ValueError(
            f"the {side} dictionary has {rows} known words, but the checkpoint was trained with {len(words)}: use "
            "the data folder (DATA) that contains the dict.*.txt of its training"
        )
    positions = state_dict.get(f"{name}.embed_positions.weight")
    if positions is not None and len(positions) != len(part.embed_positions.weight):
        limit = len(positions) - part.embed_positions.padding_idx - 1
        raise ValueError(
            f"the checkpoint has {limit} learned positions, but this model has {part.max_positions()}: use "
            f"--truncate-{side} {limit - 1} or --max-{side}-positions {limit}, as in its training"
        )
    if hasattr(part, "factors"):
        check_trained_factors(state_dict, part.factors)


def compute_position_limit(limit: Optional[int], task: Any, side: str, learnt: bool = True) -> int:
    """Return the number of positions that the model needs for the longest documents ("source") or summaries ("target").

    ``limit`` is --max-source-positions or --max-target-positions. ``learnt`` tells whether embeddings are learned.

    Raises:
        ValueError: the options or the checkpoint to be loaded allow fewer positions than the model needs.
    """
    needed, trained = task.max_positions()[side == "target"], task.get_checkpoint_max_positions()[side == "target"]
    limit = limit or trained
    if limit and needed > limit and learnt:
        raise ValueError(
            f"--truncate-{side} {needed - 1} needs {needed} positions with the end symbol, but this model has {limit}: "
            f"choose at most {limit - 1} or, in training, --max-{side}-positions {needed} or more"
        )
    if limit and needed > limit and not task.is_loading:
        raise ValueError(
            f"--max-{side}-positions {limit} is less than --truncate-{side} {needed - 1} and the end symbol need: "
            f"leave it out, or choose {needed} or more"
        )
    return max(needed, limit or 0)
