"""Named architectures: numbers of parameters, options, and configurations for ``fairseq-hydra-train``.

Used by ``etads-models``. ``fairseq-train --help`` does not show these options, because it prints its help and exits
before it parses ``--arch`` and ``--task``.
"""

import argparse
import shlex
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import ARCH_MODEL_REGISTRY
from omegaconf import DictConfig, OmegaConf

from .. import systems
from ..files.outputs import write_text
from ..models import rnn, transformer_options
from ..text.words import SENTENCE_MARK
from ..training.options import SummarizationConfig
from ..training.task import SummarizationTask
from ..vocabulary.dictionary import limit_known_words

PRESETS: Dict[str, Dict[str, Any]] = {**transformer_options.PRESETS, **rnn.PRESETS}
"""Mapping from the names of all architectures to the options that they change and the values of these options."""
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
    take half a second.

    Raises:
        omegaconf.errors.OmegaConfBaseException: the model does not have an option in ``changes`` or does not accept its
            value.
    """
    options = OmegaConf.structured(getattr(ARCH_MODEL_REGISTRY[arch], "__dataclass")())
    options.merge_with({"_name": arch, **changes})
    composed = OmegaConf.to_container(OmegaConf.create({"model": options}), resolve=True, enum_to_str=True)
    model = OmegaConf.create(composed).model
    OmegaConf.set_struct(model, True)
    return model


def count_parameters(arch: str, vocabulary: int, target_vocabulary: Optional[int] = None) -> Optional[int]:
    """Count the parameters of an architecture with its default options. Shared parameters are counted only once.

    Args:
        arch: name of the architecture, one of the keys of ``PRESETS``.
        vocabulary: number of entries in the source dictionary, including special symbols.
        target_vocabulary: number of entries in the target dictionary, which is ``vocabulary`` by default. If the
            architecture requires a shared dictionary, this is the number of its entries that summaries can contain.

    Returns:
        The number of parameters, or None if the architecture requires a shared dictionary but ``target_vocabulary`` is
        larger than ``vocabulary``.
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
        changed = " ".join(_format_option(option, value) for option, value in changes.items())
        count = count_parameters(arch, vocabulary, target_vocabulary)
        yield arch, "one dictionary" if count is None else f"{count:,}", changed or "the defaults"


def _format_option(option: str, value: Any) -> str:
    """Format an option and its value as they appear on a command line."""
    name = option.replace("_", "-")
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    return f"--{name} {shlex.quote(str(value))}"


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
            default = f"--{default[8:-1].replace('_', '-')}"
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
}
"""Comments about inputs that an architecture requires for training in addition to the data."""
_SIZES = (
    *("encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_hidden_size", "attention_dim", "encoder_attention_heads"),
    *("encoder_layers", "decoder_layers", "dropout", "pointer"),
)
"""Model options that are written to every file, so that users can find and change them easily."""

_COMMON: Dict[str, Any] = {
    "common": {"user_dir": "fairseq_etads", "seed": 1, "log_format": "simple", "log_interval": 100},
    "task": {"_name": "summarization", "data": "???", "truncate_source": 400, "truncate_target": 100},
    "criterion": {"_name": "summarization_nll"},
    "checkpoint": {"save_interval_updates": 1000, "keep_interval_updates": 1, "no_epoch_checkpoints": True},
}
# These settings are the same as in etads-train (ETADS, section 4.1).
_TRANSFORMER: Dict[str, Any] = {
    "optimizer": {"_name": "adam", "adam_betas": "(0.9, 0.998)", "adam_eps": 1e-8},
    "lr_scheduler": {"_name": "inverse_sqrt", "warmup_updates": 8000},
    "optimization": {"lr": [4.94e-4], "clip_norm": 2.0, "max_update": 200000},
    "dataset": {"max_tokens": 4096},
}
# These settings are the same as train_recurrent and ADADELTA in scripts/common.sh (Nallapati et al. 2016, section 4).
_RECURRENT: Dict[str, Any] = {
    "task": {"sort_within": 10},
    "optimizer": {"_name": "lazy_adadelta", "adadelta_rho": 0.95, "adadelta_eps": 1e-6},
    "lr_scheduler": {"_name": "fixed"},
    "optimization": {"lr": [1.0], "clip_norm": 1.0, "max_epoch": 15},
    "dataset": {"batch_size": 50, "required_batch_size_multiple": 1},
}


def _make_plateau_scheduler_sections(rate: float, patience: int) -> Dict[str, Any]:
    return {
        "optimizer": {"adam_betas": "(0.9, 0.999)"},
        "lr_scheduler": {
            "_name": "reduce_lr_on_plateau",
            "lr_shrink": 0.5,
            "lr_patience": patience,
            "warmup_updates": 0,
        },
        "optimization": {"lr": [rate]},
    }


def _make_ras_training_sections(rate: float) -> Dict[str, Any]:
    return {
        "task": {"truncate_source": 200, "truncate_target": 30},
        "optimizer": {"_name": "nag", "momentum": 0.0},  # plain gradient descent, because sgd has no Hydra options
        "lr_scheduler": {"_name": "reduce_lr_on_plateau", "lr_shrink": 0.5},
        "optimization": {"lr": [rate], "clip_norm": 2.0},
        "dataset": {"batch_size": 32, "validate_interval_updates": -1},
    }


_GATED = {
    **_make_plateau_scheduler_sections(1e-3, 0),
    "task": {"truncate_source": 100, "truncate_target": 50},
    "dataset": {"batch_size": 64, "validate_interval_updates": -1},
}
_GIGAWORD = {"task": {"truncate_source": 200, "truncate_target": 30}}
_BART: Dict[str, Any] = {  # task.init_from=/path/to/model.pt initialises the model from BART
    "task": {"truncate_source": 1023, "truncate_target": 1023},
    "criterion": {"label_smoothing": 0.1},
    "optimizer": {"adam_betas": "(0.9, 0.999)", "weight_decay": 0.01},
    "lr_scheduler": {"_name": "polynomial_decay", "warmup_updates": 500, "total_num_update": 20000},
    "optimization": {"lr": [3e-5], "clip_norm": 0.1, "max_update": 20000, "update_freq": [4]},
    "dataset": {"max_tokens": 2048},
}
_SEE: Dict[str, Any] = {  # the same truncation lengths as in the last training stage of see2017_cnndm.sh
    "task": {"sort_within": 100, "no_end_if_cut": True},
    "criterion": {"length_normalised": True},
    "optimizer": {"_name": "lazy_adagrad", "initial_accumulator": 0.1},
    "optimization": {"lr": [0.15], "clip_norm": 2.0, "max_update": 230000},
    "dataset": {"batch_size": 16},
}
_SELECTION = {**_SEE, "criterion": {**_SEE["criterion"], "selection_loss": 0.2}}
_OWN: Dict[str, Dict[str, Any]] = {
    **dict.fromkeys(("etads_bart_base", "etads_bart_large"), _BART),
    "aggregation_transformer": {
        **_make_plateau_scheduler_sections(1e-4, 1),
        "task": {"truncate_source": 500, "truncate_target": 120},
    },
    "es_transformer": _GATED,
    "gated_es_transformer": _GATED,
    **dict.fromkeys(("words_lvt2k", "words_lvt5k", "words_lvt2k_hieratt", "feats_lvt2k", "feats_lvt2k_ptr"), _GIGAWORD),
    "words_lvt2k_temp_att": {"task": {"truncate_source": 800}, "optimization": {"max_epoch": 35}},
    "ras_elman": _make_ras_training_sections(0.5),
    "ras_lstm": _make_ras_training_sections(0.1),
    "pointer_generator": _SEE,
    "pointer_generator_coverage": {
        **_SEE,
        "criterion": {**_SEE["criterion"], "coverage_loss": 1.0},
        "optimization": {**_SEE["optimization"], "max_update": 3000},
    },
    # task.init_from and task.extractor initialise the two parts of the model, as in
    # scripts/reproduce/inconsistency_cnndm.sh.
    "unified_summarizer": {
        **_SEE,
        "task": {**_SEE["task"], "truncate_source": 600},
        "criterion": {
            **_SEE["criterion"],
            **{"coverage_loss": 1.0, "extraction_loss": 5.0, "inconsistency_loss": 1.0},
        },
        "optimization": {**_SEE["optimization"], "lr": [0.01], "max_update": 80000},
        "dataset": {"batch_size": 8},
    },
    "explicit_selection": _SELECTION,
    "pg_coverage": {
        "criterion": {"coverage_loss": 1.0, "coverage_loss_start": 230000},
        "optimizer": {"_name": "lazy_adagrad", "initial_accumulator": 0.1},
        "optimization": {"lr": [0.15], "clip_norm": 2.0, "max_update": 233000},
        "dataset": {"batch_size": 16},
    },
}
"""Settings in the papers that differ from the defaults, as in ``scripts/reproduce/``.

An optimiser with a different name replaces the default optimiser. Other systems define their settings in ``TRAINING``
(for all their architectures) and in ``TRAININGS`` (for single architectures).
"""
for _system in systems.import_installed_systems():
    PRESETS.update(getattr(_system, "PRESETS", {}))
    _OWN.update(getattr(_system, "TRAININGS", {}))
    _NEEDS.update(getattr(_system, "TRAINING_NEEDS", {}))


def _merge_sections(*parts: Dict[str, Any]) -> Dict[str, Any]:
    """Merge the sections of all parts in order. A section with a different ``_name`` replaces earlier sections."""
    merged: Dict[str, Any] = {}
    for part in parts:
        for section, values in part.items():
            before = merged.get(section, {})
            other = "_name" in values and before.get("_name", values["_name"]) != values["_name"]
            merged[section] = {**({} if other else before), **values}
    return merged


def make_configuration(arch: str) -> Dict[str, Any]:
    """Return the configuration for training an architecture as in its paper, as a dictionary of sections.

    The value of ``task.data`` is "???", because the user must specify it.
    """
    preset: Any = getattr(ARCH_MODEL_REGISTRY[arch], "__dataclass")()
    model: Dict[str, Any] = {"_name": arch}
    for option in dict.fromkeys((*_SIZES, *PRESETS[arch])):
        value = getattr(preset, option, None)
        if value is not None and not str(value).startswith("${"):
            model[option] = value if isinstance(value, (bool, int, float)) else str(value)
    family = _RECURRENT if arch in rnn.PRESETS else _TRANSFORMER
    for system in systems.import_installed_systems():
        if arch in getattr(system, "PRESETS", {}):
            family = getattr(system, "TRAINING", family)
    sections = _merge_sections(_COMMON, {"model": model}, family, _OWN.get(arch, {}))
    order = (
        "common",
        "task",
        "model",
        "criterion",
        "optimizer",
        "lr_scheduler",
        "optimization",
        "dataset",
        "checkpoint",
    )
    return {section: sections[section] for section in order}


def write_configurations(folder: Path) -> List[Path]:
    """Write a file ARCH.yaml for each architecture to a folder. The folder is created if necessary.

    Returns the paths of all files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for arch in PRESETS:
        path = folder / f"{arch}.yaml"
        text = OmegaConf.to_yaml(OmegaConf.create(make_configuration(arch)))
        needs = f"# {_NEEDS[arch]}\n" if arch in _NEEDS else ""
        write_text(path, _HEADER.format(arch=arch, folder=folder.name) + needs + text)
        written.append(path)
    return written
