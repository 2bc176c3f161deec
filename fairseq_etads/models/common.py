"""Shared parts of all model families: command-line options, targets and checks of dictionaries."""

import sys
from argparse import SUPPRESS, ArgumentParser, BooleanOptionalAction, Namespace
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, Callable, Dict, Iterable, Optional, Tuple

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import register_model
from omegaconf import OmegaConf
from torch import Tensor

from ..layers.decoder_output import DecoderOutput, NetOutput, WordRequest
from ..layers.pointer import KINDS
from ..text.words import SENTENCE_MARK
from ..vocabulary.output import OutputVocabulary

AUXILIARY_PARTS = ("auxiliary", "pair_classifier")
"""Attributes of a model that hold weights for --auxiliary-task, which exist only in training."""


class SummarizationModel:
    """A mixin for this project's models. Inherit it before one of fairseq's model classes."""

    decoder: Any

    def __getstate__(self) -> Dict[str, Any]:
        """Leave out of the pickle the function with which fairseq replaces ``train`` in models for inference."""
        return {name: value for name, value in vars(self).items() if name != "train"}

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Add the options of the preset to the parser of ``fairseq-train``."""
        # register_model sets this attribute; getattr is needed because the name cls.__dataclass would be mangled
        preset = getattr(cls, "__dataclass")()
        for option in fields(preset):
            if option.type is bool and not option.name.startswith("no_"):
                # For a switch that is on by default, fairseq would let the plain flag turn it *off*. Presets differ in
                # their defaults, so add --option and --no-option for every switch in every preset.
                flag = "--" + option.name.replace("_", "-")
                parser.add_argument(flag, action=BooleanOptionalAction, default=SUPPRESS, help=option.metadata["help"])
        gen_parser_from_dataclass(parser, preset, delete_default=True)

    def load_state_dict(self, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        """Load weights. If names or shapes differ, the error also explains how to load only the matching weights.

        Weights of an auxiliary task are skipped if this model has no such part.
        """
        parent: Any = super()
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
        """Return the summaries (B, T) as extended ids, which ``get_normalized_probs`` also uses."""
        vocabulary = DecoderOutput.of(net_output).vocabulary
        assert vocabulary is not None, "a decoder of this project must provide the words of its distributions"
        return vocabulary.extended_ids(sample["target"])


class EncodingDecoding:
    """A mixin for encoder-decoder models that accept requests."""

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
        """Encode documents and score the words of their summaries.

        Args:
            src_tokens: the documents (B, S).
            src_lengths: lengths of the documents (B,).
            prev_output_tokens: ids of the previous words in the dictionary (B, T).
            request: words that a loss needs, instead of logits for all words.
            of_documents: further inputs of the encoder.

        Returns:
            Logits (B, T, C) and a dictionary; see :class:`DecoderOutput`.
        """
        encoder_out = self.encoder(src_tokens, src_lengths=src_lengths, **of_documents)
        found: NetOutput = self.decoder(prev_output_tokens, encoder_out=encoder_out, request=request)
        return found


class PositionedModel(SummarizationModel):
    """A mixin for this project's models with position vectors; see :class:`SummarizationModel`."""

    encoder: Any

    def load_state_dict(self, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        """Load weights.

        Raises:
            ValueError: the weights were trained with another dictionary or with other truncation lengths.
        """
        for side, part in (("source", self.encoder), ("target", self.decoder)):
            check_words(state_dict, side, part)
            check_positions(state_dict, side, part)
        return super().load_state_dict(state_dict, *args, **kwargs)


def plain_options(cfg: Any) -> Any:
    """Return a model's options as a plain namespace. Enumerations, which cannot be pickled, become strings."""
    options: Any = (
        OmegaConf.to_container(cfg, resolve=True, enum_to_str=True) if OmegaConf.is_config(cfg) else vars(cfg)
    )
    return Namespace(**options)


def preset_dataclass(
    name: str, options: Iterable[Tuple[str, Any, Any, Dict[str, Any]]], changes: Dict[str, Any], module: str
) -> type:
    """Create the dataclass for the options of a preset.

    Args:
        name: name of the preset.
        options: name, type, default and metadata of each option.
        changes: name of an option -> changed default.
        module: name of the module to which the dataclass belongs.

    Raises:
        ValueError: ``changes`` contains a name that is not an option.
    """
    rest = {**changes}
    made = [(o, kind, field(default=rest.pop(o, default), metadata=metadata)) for o, kind, default, metadata in options]
    if rest:
        raise ValueError(f"preset {name}: unknown options {sorted(rest)}")
    return make_dataclass(name, made, bases=(FairseqDataclass,), namespace={"__module__": module})


def register_presets(model: type, presets: Dict[str, Dict[str, Any]], config: Callable[..., type]) -> None:
    """Register each preset as a value of --arch. ``config(name, **changes)`` creates the dataclass of its options."""
    for name, changes in presets.items():
        # create a class for each preset, because fairseq stores the dataclass of the options on the class
        own = type(name, (model,), {"__doc__": model.__doc__, "__module__": model.__module__})
        register_model(name, dataclass=config(name, **changes))(own)
        setattr(sys.modules[model.__module__], name, own)  # pickle looks up the class in this module


def select_documents(encoder_out: Dict[str, Any], documents: Tensor) -> Dict[str, Any]:
    """Select the encoder's output for some of the documents.

    Args:
        encoder_out: values by name, which are lists of tensors with a row for each document, or the batch's
            :class:`OutputVocabulary`.
        documents: indices of documents (N,), which may be repeated.
    """
    selected: Dict[str, Any] = {}
    for name, value in encoder_out.items():
        if isinstance(value, list):
            selected[name] = [tensor.index_select(0, documents) for tensor in value]
        elif isinstance(value, OutputVocabulary):
            selected[name] = value.select(documents)
        else:  # the rows of the output layer belong to the whole batch
            selected[name] = value
    return selected


def check_one_dictionary(option: str, task: Any) -> None:
    """Raise ValueError if the data has two dictionaries but ``option`` requires a shared one."""
    if task.source_dictionary != task.target_dictionary:
        raise ValueError(
            f"{option} needs one dictionary for documents and summaries, but DATA has two: prepare the data again with "
            "etads-prepare or fairseq-preprocess --joined-dictionary"
        )


def check_marks(option: str, task: Any) -> None:
    """Raise ValueError if documents cannot contain sentence marks, which ``option`` requires."""
    words = task.source_dictionary
    if words.index(SENTENCE_MARK) == words.unk():
        raise ValueError(
            f'{option}: the documents\' dictionary has no "{SENTENCE_MARK}", which ends a sentence; prepare '
            "the data with etads-prepare --source-sentence-marks"
        )


_KINDS = tuple(f"--pointer {kind}" for kind in KINDS if kind != "none")


@dataclass
class PointerOptions(FairseqDataclass):
    """Options of the pointer, which the configurations of all families inherit."""

    pointer: ChoiceEnum(KINDS) = field(  # type: ignore[valid-type]
        default="none",
        metadata={
            "help": "copy words of the document, including unknown words. soft: mix copying and generating; switch: "
            "choose one of them for each word"
        },
    )
    pointer_continue: bool = field(
        default=False,
        metadata={
            "needs": _KINDS,
            "help": "inform the pointer which words of the document follow the last written words and which have "
            "already been written, so that it learns faster to continue copying",
        },
    )


def check_pointer(config: Any, task: Any) -> None:
    """Raise ValueError if a model has a pointer but its data has two dictionaries."""
    if str(config.pointer) != "none":
        check_one_dictionary(f"--pointer {config.pointer}", task)


def check_words(state_dict: Any, side: str, part: Any) -> None:
    """Raise ValueError if weights belong to a model with another number of known words.

    Args:
        state_dict: weights of a model.
        side: "source" or "target".
        part: encoder or decoder into which to load the weights.
    """
    name = "encoder" if side == "source" else "decoder"
    words, rows = state_dict.get(f"{name}.embed_tokens.weight"), part.embed_tokens.num_embeddings
    if words is not None and len(words) != rows:
        raise ValueError(
            f"the {side} dictionary has {rows} known words, but the checkpoint was trained with {len(words)}: use "
            "the data folder (DATA) that contains the dict.*.txt of its training"
        )


def position_limit(limit: Optional[int], task: Any, side: str, learnt: bool = True) -> int:
    """Return the number of positions for documents or summaries, which suffices for the task's truncation length.

    Args:
        limit: value of --max-source-positions or --max-target-positions.
        task: the task.
        side: "source" for documents or "target" for summaries.
        learnt: whether position vectors are learned.

    Raises:
        ValueError: the options, or the checkpoint being loaded, allow fewer positions.
    """
    needed, trained = task.max_positions()[side == "target"], task.trained_positions()[side == "target"]
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


def check_positions(state_dict: Any, side: str, part: Any) -> None:
    """Raise ValueError if weights belong to a model with another number of learned positions.

    The arguments are the same as in :func:`check_words`.
    """
    name = "encoder" if side == "source" else "decoder"
    positions = state_dict.get(f"{name}.embed_positions.weight")
    if positions is not None and len(positions) != len(part.embed_positions.weight):
        limit = len(positions) - part.embed_positions.padding_idx - 1
        raise ValueError(
            f"the checkpoint has {limit} learned positions, but this model has {part.max_positions()}: use "
            f"--truncate-{side} {limit - 1} or --max-{side}-positions {limit}, as in its training"
        )


def check_padding(task: Any) -> None:
    """Raise ValueError if summaries are padded on the left, because a convolutional decoder would read the padding."""
    if task.cfg.left_pad_target:
        raise ValueError(
            "--left-pad-target does not work with a convolutional decoder, because its convolutions would read the "
            "padding before a summary: leave it out"
        )
