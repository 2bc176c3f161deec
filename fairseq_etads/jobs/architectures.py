"""List the named architectures with their numbers of parameters and their options, for ``etads-models``.

``fairseq-train --help`` does not show these options, because it prints its help and exits before it parses ``--arch``
and ``--task``.
"""

import argparse
import shlex
from typing import Any, Dict, Iterator, Optional, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import ARCH_MODEL_REGISTRY
from omegaconf import DictConfig, OmegaConf

from .. import systems
from ..models import rnn, transformer_options
from ..text.words import SENTENCE_MARK
from ..training.options import SummarizationConfig
from ..training.task import SummarizationTask
from ..vocabulary.dictionary import limit_known_words

PRESETS: Dict[str, Dict[str, Any]] = {**transformer_options.PRESETS, **rnn.PRESETS}
for _system in systems.import_installed_systems():
    PRESETS.update(getattr(_system, "PRESETS", {}))
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
