"""Convert model options to JSON and back. Only plain values of the declared types are allowed."""

import re
from dataclasses import fields
from typing import Any, Dict, List

from fairseq.models import ARCH_MODEL_REGISTRY

from ...models.common import SummarizationModel, convert_options_to_namespace
from ...models.convolutions import parse_convolutions
from ...models.selector import ContentSelectionModel, SentenceExtractor
from ...platform.errors import InputError
from ...platform.optional_parts import explain_missing_system, find_required_system, is_system_installed

_WORD = re.compile(r"(?!.*\d{7})[A-Za-z0-9_.,:+-]{0,200}")
"""Pattern that all string values of options must match.

fairseq evaluates some options as Python code, but a string that matches this pattern cannot call a function. The
pattern also excludes ``${…}``, which OmegaConf would interpolate.
"""
_WIDTH = re.compile(r"(?<!block)_(dim|size)$")
_COUNT = re.compile(r"(layers|heads|neighbours)$")
_FLAGS = re.compile(r"True|\[(True|False)(, ?(True|False)){0,999}\]")
_MOST_LAYERS, _MOST = 1_000, 1_000_000_000
_OUTSIDE = re.compile(r"_path$")
"""Pattern for names of options that refer to files outside the folder. These files are needed only for training."""


def list_architectures(extract: bool = False) -> List[str]:
    """Return the names of this project's summarisers, or of its extractors, that can be saved in a model folder."""
    ours = {name: model for name, model in ARCH_MODEL_REGISTRY.items() if issubclass(model, SummarizationModel)}
    if extract:
        return [name for name, model in ours.items() if issubclass(model, SentenceExtractor)]
    return [name for name, model in ours.items() if not issubclass(model, ContentSelectionModel)]


def _list_declared_options(architecture: str, extracts: bool) -> Dict[str, Any]:
    """Return the names and default values of an architecture's options, or raise InputError if it is not ours."""
    system = find_required_system(f"--arch {architecture}")
    if system is not None and not is_system_installed(system):
        raise InputError(explain_missing_system(f"--arch {architecture}", system))
    if architecture not in list_architectures(extracts):
        kind = "extractor architecture" if extracts else "architecture"
        raise InputError(
            f'"{architecture[:60]}" is not an {kind} of this version; choose from '
            f"{', '.join(list_architectures(extracts))}, or load the package that registers it (--user-dir)"
        )
    preset: Any = getattr(ARCH_MODEL_REGISTRY[architecture], "__dataclass")()
    return {option.name: getattr(preset, option.name) for option in fields(preset) if option.name != "_name"}


def to_plain_options(architecture: str, cfg: Any, extracts: bool = False) -> Dict[str, Any]:
    """Convert the model options in a checkpoint to plain values, without paths of files for training alone.

    ``extracts`` says whether the model is a sentence extractor. Raises InputError if the architecture is not part of
    this project, or an option does not have a plain value.
    """
    given = vars(convert_options_to_namespace(cfg))
    options = {name: None if _OUTSIDE.search(name) else value for name, value in given.items() if name != "_name"}
    check_model_options(architecture, options, _MOST, extracts)
    return options


def check_model_options(architecture: str, options: Dict[str, Any], largest: int, extracts: bool = False) -> None:
    """Check model options that come from an untrusted source.

    ``largest`` is the largest dimension of any weight in the model, which no layer size can exceed. Raises InputError
    if an option does not exist or has an invalid value.
    """
    declared = _list_declared_options(architecture, extracts)
    for name, value in options.items():
        if name not in declared:
            raise InputError(f"{architecture} has no option {name[:60]!r} in this version of fairseq-etads")
        if not _is_valid_value(name, value, declared[name], largest):
            raise InputError(f"the option {name} of {architecture} cannot be {str(value)[:60]!r}")


def _is_valid_value(name: str, value: Any, default: Any, largest: int) -> bool:
    if _OUTSIDE.search(name) or value is None:
        return value is None
    if name.startswith("extractor_") and value == default:
        return True  # the weights have these sizes only if the model has an extractor
    if isinstance(default, str) and name in ("encoder_layers", "decoder_layers"):
        return isinstance(value, str) and _are_valid_convolutions(value, largest)
    if name == "decoder_attention":
        return isinstance(value, str) and _FLAGS.fullmatch(value) is not None
    if isinstance(value, bool) or isinstance(default, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if isinstance(value, (int, float)):
        is_width, is_count = bool(_WIDTH.search(name)), bool(_COUNT.search(name))
        most = largest if is_width else _MOST_LAYERS if is_count else _MOST
        return abs(value) <= most and (isinstance(value, int) or not (is_width or is_count))
    if isinstance(value, list):
        return len(value) <= 100 and all(type(number) is int and 0 <= number <= _MOST for number in value)
    return isinstance(value, str) and _WORD.fullmatch(value) is not None


def _are_valid_convolutions(text: str, largest: int) -> bool:
    """Return whether a string, such as "[(512, 3)] * 20", describes convolutions with valid sizes."""
    try:
        return all(max(layer) <= largest for layer in parse_convolutions(text, ""))
    except ValueError:
        return False
