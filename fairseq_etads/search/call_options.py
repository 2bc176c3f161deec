"""Decoding options for model folders, calls of ``Summarizer`` and commands.

This module imports neither torch nor fairseq.

The options are declared in ``options.py``. Model folders store default values, :meth:`Summarizer.summarize` accepts the
options as keyword arguments, and ``etads-summarize`` and ``etads-export`` accept them as ``--name``.
"""

import argparse
import difflib
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..platform.errors import InputError
from ..platform.option_checks import format_option_name as format_option_name
from . import options
from .options import DECLARED, LARGEST

_NAMES = (
    "beam",
    "min_len",
    "max_len",
    "max_len_a",
    "exact_length",
    "min_sentences",
    "lenpen",
    "length_penalty_type",
    "length_penalty_beta",
    "unnormalized",
    "coverage_penalty",
    "coverage_penalty_type",
    "stepwise_coverage_penalty",
    "no_repeat_ngram_size",
    "ngram_ignore_tokens",
    *options.SYSTEMS,
    "recombine",
    "early_stopping",
    "temperature",
    "allow_unk",
    "replace_unknown",
    "unkpen",
    "infer_dtype",
    "shortlist",
    "choose",
    "choose_words",
    "content_weight",
)
_SHORTLIST_HELP = (
    "restrict generation to words in the model folder's shortlist, which is faster with a large vocabulary"
)


class PerCallOption(NamedTuple):
    """A decoding option that can be set in a call.

    Attributes:
        declared: the name of the option in ``options.py``.
        setting: the name of the corresponding field in :class:`.settings.SearchSettings`.
        kind: the type of the value: int, float, bool or str.
        help: the help text of the option.
        choices: the allowed values, or an empty tuple if the values are not limited to a list. The value None means
            that the model and the other options determine the choice.
        least: the smallest allowed number, or None if there is no lower bound.
    """

    declared: str
    setting: str
    kind: type
    help: str
    choices: Tuple[str, ...] = ()
    least: Optional[float] = None


def _make_call_option(name: str) -> PerCallOption:
    if name == "shortlist":  # the shortlist is a file in the folder, and a call only chooses whether to use it
        return PerCallOption("shortlist", "shortlist", bool, _SHORTLIST_HELP)
    declared = "max_len_b" if name == "max_len" else name
    metadata = DECLARED[declared].metadata
    bounds = metadata.get("bounds")
    least = metadata.get("least_in_call", None if bounds is None else bounds.at_least)
    setting, kind = options.get_setting_name(declared), options.get_option_type(declared)
    return PerCallOption(declared, setting, kind, metadata["help"], metadata.get("choices", ()), least)


OPTIONS: Dict[str, PerCallOption] = {name: _make_call_option(name) for name in _NAMES}
"""A dictionary from option names to options.

On the command line, the names contain dashes instead of underscores. "shortlist" refers to a file in the model folder
and is not a search setting.
"""

DEFAULTS: Dict[str, Any] = {"beam": 5, "min_len": 1, "max_len": 100, "lenpen": 1.0}
"""Default values that are written to every model folder."""
BEAMS = {"content": 12, "hypothesis": 12, "none": DEFAULTS["beam"]}
"""A dictionary from the values of ``choose`` to the default values of ``beam``."""


def get_option_default(name: str) -> Any:
    """Return the value that an option has if neither the call nor the folder sets it."""
    option = OPTIONS[name]
    return DEFAULTS.get(name, False if option.kind is bool else DECLARED[option.declared].default)


def get_value(name: str, decoding: Mapping[str, Any]) -> Any:
    """Return the value of an option if it is set in ``decoding``, and otherwise the default value.

    Args:
        name: the option name.
        decoding: the values of the options that are set, keyed by option name.
    """
    return decoding.get(name, get_option_default(name))


def check_options(given: Dict[str, Any]) -> Dict[str, Any]:
    """Check that all options exist and have valid values, and return them unchanged.

    Raises:
        InputError: an option does not exist or has an invalid value. The message lists the valid choices.
    """
    for name, value in given.items():
        if name not in OPTIONS:
            raise InputError(_format_unknown_option(name))
        refused = _find_value_error(name, value)
        if refused:
            raise InputError(refused)
    return given


def _format_unknown_option(name: str) -> str:
    written = name if isinstance(name, str) else repr(name)
    close = difflib.get_close_matches(str(name), OPTIONS, n=1)
    meant = f"; did you mean {close[0]}?" if close else "."
    return f"there is no decoding option {written}{meant} Choose from {', '.join(OPTIONS)}"


def _find_value_error(name: str, value: Any) -> str:
    """Return the error message for an invalid value, or an empty string if the value is valid."""
    option = OPTIONS[name]
    if name == "shortlist":
        return "" if isinstance(value, bool) else f"{format_option_name(name)} {value!r}: choose True or False"
    refused = options.format_value_error(option.declared, value).replace(
        format_option_name(option.declared), format_option_name(name)
    )
    if refused or option.choices or option.kind not in (int, float):
        return refused
    if not abs(value) <= LARGEST:
        return f"{format_option_name(name)} {value}: choose a number of at most {LARGEST:,}"
    if option.least is not None and value < option.least:
        return f"{format_option_name(name)} {value}: choose {option.least} or more"
    return ""


def make_search_settings(decoding: Dict[str, Any]) -> Dict[str, Any]:
    """Check decoding options, and convert them to a dictionary of search settings.

    The keys of this dictionary are the field names of :class:`.settings.SearchSettings`. Options that are missing are
    added with the values in :data:`DEFAULTS`.

    Raises:
        InputError: an option is invalid (see :func:`check_options`), or the minimum length exceeds the maximum length.
    """
    together = {**DEFAULTS, **check_options(decoding)}
    if not together.get("max_len_a") and not together.get("exact_length") and together["min_len"] > together["max_len"]:
        raise InputError(f"--min-len {together['min_len']}: choose at most --max-len, which is {together['max_len']}")
    return {OPTIONS[name].setting: value for name, value in together.items()}


def make_call_settings(
    folder: Mapping[str, Any], given: Dict[str, Any], has_pointer: Optional[bool] = None
) -> Dict[str, Any]:
    """Return the search settings for a call, in the same format as :func:`make_search_settings`.

    If the call sets ``choose`` to a value that differs from the folder's but does not set ``beam``, the beam size is
    taken from :data:`BEAMS`.

    Args:
        folder: the default options of the model folder, which may include options that have no effect.
        given: the options that the call sets.
        has_pointer: whether the model can copy words, or None if this is not known yet. With None, options that depend
            on it are not checked.

    Raises:
        InputError: an option is invalid (see :func:`make_search_settings`), or an option that the call sets has no
            effect.
    """
    together = {**folder, **given}
    # a maximum length passed to the call also limits the minimum length stored in the model folder
    if "max_len" in check_options(given) and "min_len" not in given:
        together["min_len"] = min(get_value("min_len", together), given["max_len"])
    if get_value("choose", together) != get_value("choose", folder) and "beam" not in given:
        together["beam"] = BEAMS[together["choose"]]
    settings = make_search_settings(together)
    new = {
        name: value
        for name, value in given.items()
        if value != get_option_default(name) and not (name in folder and value == folder[name])
    }
    exact = get_value("exact_length", together)
    for name in ("max_len", "max_len_a"):
        # fairseq's commands accept these options together, because scripts add a maximum length to every search.
        if exact and name in new:
            raise InputError(
                f"{format_option_name(name)} {new[name]} has no effect with --exact-length {exact}: choose one"
            )
    idle = options.find_option_without_effect(new, {name: get_value(name, together) for name in OPTIONS}, has_pointer)
    if idle:
        raise InputError(idle)
    return settings


class _BooleanAction(argparse.Action):
    """A boolean option with a ``--no-…`` counterpart.

    Before Python 3.13, the corresponding class of argparse prints SUPPRESS in the help.
    """

    def __init__(self, option_strings: Sequence[str], **kwargs: Any):
        (given,) = option_strings
        super().__init__([given, f"--no-{given[2:]}"], **kwargs)

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Optional[str] = None) -> None:
        setattr(namespace, self.dest, not str(option_string).startswith("--no-"))


def add_decoding_arguments(parser: argparse.ArgumentParser, title: str, without: Sequence[str] = ()) -> None:
    """Add a group of decoding options to a parser. The parsed arguments contain only options that the user set.

    Args:
        parser: the argument parser.
        title: the title of the group in the help.
        without: the names of the options to leave out.
    """
    group = parser.add_argument_group(title)
    for name, option in OPTIONS.items():
        if name in without:
            continue
        if option.kind is bool:
            group.add_argument(
                format_option_name(name), action=_BooleanAction, nargs=0, default=argparse.SUPPRESS, help=option.help
            )
        else:
            group.add_argument(
                format_option_name(name),
                metavar=None if option.choices else {int: "N", float: "X", str: "TEXT"}[option.kind],
                type=option.kind,
                choices=option.choices or None,
                default=argparse.SUPPRESS,
                help=option.help,
            )


def get_given_options(args: argparse.Namespace) -> Dict[str, Any]:
    """Return the decoding options that were set on the command line, after checking them."""
    return check_options({name: getattr(args, name) for name in OPTIONS if hasattr(args, name)})
