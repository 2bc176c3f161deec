"""Named architectures: numbers of parameters, options, and configurations for ``fairseq-hydra-train``.

Used by ``etads-models``. ``fairseq-train --help`` does not show these options, because it prints its help and exits
before it parses ``--arch`` and ``--task``.
"""

import argparse
import functools
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.dataclass.configs import CheckpointConfig, CommonConfig, DatasetConfig, OptimizationConfig
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from omegaconf import DictConfig, OmegaConf

from .. import systems
from ..files.outputs import write_text
from ..models import rnn, transformer_options
from ..platform.command_options import format_option_name
from ..summarizer.folder.model_card import format_command_line_options
from ..text.words import SENTENCE_MARK
from ..training.options import SummarizationConfig
from ..training.task import SummarizationTask
from ..vocabulary.dictionary import limit_known_words
from .recipes import Plan, Training, list_recipes, load_recipe
from .training_settings import get_option

PRESETS: Dict[str, Dict[str, Any]] = {**transformer_options.PRESETS, **rnn.PRESETS}
"""Mapping from the names of all architectures to the options that they change and the values of these options."""
for _system in systems.import_installed_systems():
    PRESETS.update(getattr(_system, "PRESETS", {}))
FACTOR_VALUES = 50
"""Number of values that each source factor is assumed to have when parameters are counted."""


def make_numbered_dictionary(size: int) -> Dictionary:
    """Create a dictionary with ``size`` entries, for counting parameters and measuring speed.

    The entries are numbers, except for the special symbols.
    """
    dictionary = Dictionary()
    for number in range(size - len(dictionary)):
        dictionary.add_symbol(str(number))
    return dictionary


def make_architecture_config(arch: str, **changes: Any) -> DictConfig:
    """Return the options of an architecture as fairseq-train passes them to the model, after applying ``changes``.

    fairseq uses Hydra to combine the options of all components. This function does not use Hydra, because that would
    take half a second. Raises omegaconf.errors.OmegaConfBaseException if the model does not have an option in
    ``changes`` or does not accept its value.
    """
    options = OmegaConf.structured(getattr(ARCH_MODEL_REGISTRY[arch], "__dataclass")())
    options.merge_with({"_name": arch, **changes})
    composed = OmegaConf.to_container(OmegaConf.create({"model": options}), resolve=True, enum_to_str=True)
    model = OmegaConf.create(composed).model
    OmegaConf.set_struct(model, True)
    return model


def count_parameters(arch: str, vocabulary: int, target_vocabulary: Optional[int] = None) -> Optional[int]:
    """Count the parameters of an architecture with its default options. Shared parameters are counted only once.

    Returns None if the architecture requires a shared dictionary but ``target_vocabulary`` is larger than
    ``vocabulary``.

    Args:
        vocabulary: number of entries in the source dictionary, including special symbols.
        target_vocabulary: number of entries in the target dictionary, which is ``vocabulary`` by default. If the
            architecture requires a shared dictionary, this is the number of its entries that summaries can contain.
    """
    cfg = make_architecture_config(arch)
    source = target = make_numbered_dictionary(vocabulary - 1)
    source.add_symbol(SENTENCE_MARK)
    if target_vocabulary is not None and (getattr(cfg, "share_all_embeddings", False) or str(cfg.pointer) != "none"):
        if target_vocabulary > vocabulary:
            return None
        target = limit_known_words(source, target_vocabulary)
    elif target_vocabulary is not None:
        target = make_numbered_dictionary(target_vocabulary - 1)
        target.add_symbol("summary")  # instead of the sentence mark, so that the two dictionaries always differ
    task = SummarizationTask(SummarizationConfig(), source, target)
    task.factor_dictionaries = dict.fromkeys(("pos", "ner", "tf", "idf"), make_numbered_dictionary(FACTOR_VALUES))
    with torch.device("meta"):  # tensors on this device do not use memory
        model = ARCH_MODEL_REGISTRY[arch].build_model(cfg, task)
    return sum(parameter.numel() for parameter in model.parameters())


def describe_architectures(vocabulary: int, target_vocabulary: Optional[int] = None) -> Iterator[Tuple[str, str, str]]:
    """Yield the name, the number of parameters and the changed options of each architecture.

    See :func:`count_parameters` for the arguments.
    """
    for arch, changes in PRESETS.items():
        changed = format_command_line_options(changes) or "the defaults"
        count = count_parameters(arch, vocabulary, target_vocabulary)
        yield arch, "one dictionary" if count is None else f"{count:,}", changed


class _DefaultsHelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Help formatter that adds the default value to the help text of an option, unless the text mentions a default."""

    def _get_help_string(self, action: argparse.Action) -> Optional[str]:
        if action.default is None or "default" in (action.help or ""):
            return action.help
        return super()._get_help_string(action)


def make_options_parser(arch: str) -> argparse.ArgumentParser:
    """Create a parser that describes the options of the task and of one architecture, with their default values."""
    parser = argparse.ArgumentParser(
        prog=f"fairseq-train DATA --user-dir fairseq_etads --task summarization --arch {arch}",
        usage="%(prog)s [options below, and fairseq's own: fairseq-train --help]",
        formatter_class=_DefaultsHelpFormatter,
        add_help=False,
    )
    model = ARCH_MODEL_REGISTRY[arch]
    gen_parser_from_dataclass(parser.add_argument_group("summarization task"), SummarizationConfig())
    group = parser.add_argument_group(f"model {arch}")
    model.add_args(group)
    preset: Any = getattr(model, "__dataclass")()
    for action in group._group_actions:  # fairseq stores the default values only in the dataclass
        default = getattr(preset, action.dest)
        if str(default).startswith("${model."):
            default = format_option_name(default[8:-1])
        action.default = default
    return parser


_HEADER = """\
# {arch}: fairseq-hydra-train --config-dir {folder} --config-name {arch} task.data=/path/to/prepared/bin
# Made by: etads-models --configs {folder}. Hydra runs in a folder of its own (outputs/DATE/TIME): give absolute paths.
"""
_NEEDS = {
    "pointer_generator_coverage": "It starts from a trained pointer_generator: "
    "task.init_from=/path/to/checkpoint_best.pt",
    "explicit_selection": "It needs the labels of etads-labels DATA --kind distribution.",
    "entail_s2s": "It needs pairs of sentences: task.auxiliary_data=/path/to/pairs",
    "sentence_rewriter": "The data must be pairs of sentences: etads-labels DATA --pairs.",
}
"""Comments about inputs that an architecture requires for training in addition to the data."""
_SIZES = (
    *("encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_hidden_size", "attention_dim", "encoder_attention_heads"),
    *("encoder_layers", "decoder_layers", "dropout", "pointer"),
)
"""Model options that are written to every file, so that users can find and change them easily."""

_FIRST = ("etads_cnndm", "gated_gigaword", "nallapati_gigaword", "see2017_cnndm")
"""Recipes whose training settings are preferred where other papers train the same architectures."""


@functools.cache
def _collect_trainings() -> Dict[str, Sequence[str]]:
    """Map each architecture to the fairseq-train command of the first paper's recipe that trains it.

    If a run is trained in stages, this is the command of the last stage. All paths begin with "RUNS/".
    """
    found: Dict[str, Sequence[str]] = {}
    recipes = map(load_recipe, dict.fromkeys((*_FIRST, *list_recipes())))
    for recipe in (recipe for recipe in recipes if "paper" in recipe):
        trainings: Dict[str, Sequence[str]] = {}
        given = {key: "RUNS/" for key, option in recipe["options"].items() if {"prepare", "contains"} & {*option}}
        for action in Plan(recipe, given, list(recipe["rows"]), ["1"], Path("RUNS")).make().actions:
            if isinstance(action, Training):
                trainings[str(action.run_folder).partition("/stages/")[0]] = action.words
        for words in trainings.values():
            found.setdefault(str(get_option(words, "--arch")), words)
    return found


def make_configuration(arch: str) -> Dict[str, Any]:
    """Return the configuration for training an architecture as in its recipe, as a dictionary of sections.

    The value of ``task.data`` is "???", because the user must specify it.
    """
    preset: Any = getattr(ARCH_MODEL_REGISTRY[arch], "__dataclass")()
    model: Dict[str, Any] = {"_name": arch}
    for option in dict.fromkeys((*_SIZES, *PRESETS[arch])):
        value = getattr(preset, option, None)
        if value is not None and not str(value).startswith("${"):
            model[option] = value if isinstance(value, (bool, int, float)) else str(value)
    trainings = _collect_trainings()
    words = trainings.get("etads_bart_large" if arch == "etads_bart_base" else arch, trainings["etads"])
    options: Dict[str, Any] = {"common": CommonConfig(), "task": SummarizationConfig(), "model": None}
    sections: Dict[str, Any] = {"task": {"_name": "summarization", "data": "???"}, "model": model}
    for part in ("criterion", "optimizer", "lr_scheduler"):
        name = get_option(words, format_option_name(part)) or "fixed"
        # fairseq's sgd has no options for Hydra; nag without momentum is the same
        sections[part] = {"_name": "nag", "momentum": 0.0} if name == "sgd" else {"_name": name}
        options[part] = REGISTRIES[part]["dataclass_registry"][sections[part]["_name"]]()
    options.update(optimization=OptimizationConfig(), dataset=DatasetConfig(), checkpoint=CheckpointConfig())
    for section, defaults in options.items():
        parser = argparse.ArgumentParser(allow_abbrev=False, argument_default=argparse.SUPPRESS)
        if defaults is not None:
            gen_parser_from_dataclass(parser, defaults, delete_default=True)
        for name, value in vars(parser.parse_known_args(words)[0]).items():
            if name not in ("data", "_name") and "RUNS/" not in str(value):
                plain = isinstance(value, (bool, int, float, list))
                sections.setdefault(section, {})[name] = value if plain else str(value)
    return {section: sections[section] for section in options if section in sections}


def write_configurations(folder: Path) -> List[Path]:
    """Write a file ARCH.yaml for each architecture to a folder, which is created if necessary. Returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for arch in PRESETS:
        path = folder / f"{arch}.yaml"
        text = OmegaConf.to_yaml(OmegaConf.create(make_configuration(arch)))
        needs = f"# {_NEEDS[arch]}\n" if arch in _NEEDS else ""
        write_text(path, _HEADER.format(arch=arch, folder=folder.name) + needs + text)
        written.append(path)
    return written
