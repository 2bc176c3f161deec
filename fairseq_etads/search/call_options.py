"""Decoding options of a call, for model folders, ``Summarizer`` and commands; without torch and fairseq.

Model folders store them as defaults. :meth:`Summarizer.summarize` takes them by name; ``etads-summarize`` and
``etads-export`` take them as ``--name``. ``options.py`` declares them.
"""

import argparse
import difflib
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..platform.errors import InputError
from ..platform.option_checks import flag as flag
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
_SHORTLIST_HELP = "write only words of the folder's shortlist, which is faster with a large vocabulary"


class CallOption(NamedTuple):
    """An option of a call.

    Attributes:
        declared: the option's name in ``options.py``.
        setting: the option's name in :class:`SearchSettings`.
        kind: type of the value: int, float, bool or str.
        help: the text for ``--help``.
        choices: the values of a choice; None means "depends on the model and the other options".
        least: smallest value of a number.
    """

    declared: str
    setting: str
    kind: type
    help: str
    choices: Tuple[str, ...] = ()
    least: Optional[float] = None


def _call_option(name: str) -> CallOption:
    if name == "shortlist":  # the shortlist is a file in the folder; a call only decides whether to use it
        return CallOption("shortlist", "shortlist", bool, _SHORTLIST_HELP)
    declared = "max_len_b" if name == "max_len" else name
    metadata = DECLARED[declared].metadata
    bounds = metadata.get("bounds")
    least = metadata.get("least_in_call", None if bounds is None else bounds.at_least)
    setting, kind = options.setting_of(declared), options.kind_of(declared)
    return CallOption(declared, setting, kind, metadata["help"], metadata.get("choices", ()), least)


OPTIONS: Dict[str, CallOption] = {name: _call_option(name) for name in _NAMES}
"""Name -> option. On a command line the name has dashes for underscores. "shortlist" is not a setting of the search: a
model folder may have one.
"""

DEFAULTS: Dict[str, Any] = {"beam": 5, "min_len": 1, "max_len": 100, "lenpen": 1.0}
"""Defaults written into every model folder."""
BEAMS = {"content": 12, "hypothesis": 12, "none": DEFAULTS["beam"]}
"""Value of ``choose`` -> default of ``beam``."""


def default_of(name: str) -> Any:
    """Return the value of an option that neither a call nor its folder sets."""
    option = OPTIONS[name]
    return DEFAULTS.get(name, False if option.kind is bool else DECLARED[option.declared].default)


def present_value(name: str, decoding: Mapping[str, Any]) -> Any:
    """Return the current value of an option of a call.

    Args:
        decoding: options that are set; others have their defaults.
    """
    return decoding.get(name, default_of(name))


def check(given: Dict[str, Any]) -> Dict[str, Any]:
    """Return the options if each exists and has a possible value.

    Raises:
        InputError: the message names the option, the value and the choices.
    """
    for name, value in given.items():
        if name not in OPTIONS:
            raise InputError(_unknown(name))
        refused = _refusal(name, value)
        if refused:
            raise InputError(refused)
    return given


def _unknown(name: str) -> str:
    written = name if isinstance(name, str) else repr(name)
    close = difflib.get_close_matches(str(name), OPTIONS, n=1)
    meant = f"; did you mean {close[0]}?" if close else "."
    return f"there is no decoding option {written}{meant} Choose from {', '.join(OPTIONS)}"


def _refusal(name: str, value: Any) -> str:
    """Return the reason for refusing a value; empty if the value is possible."""
    option = OPTIONS[name]
    if name == "shortlist":
        return "" if isinstance(value, bool) else f"{flag(name)} {value!r}: choose True or False"
    refused = options.refusal(option.declared, value).replace(flag(option.declared), flag(name))
    if refused or option.choices or option.kind not in (int, float):
        return refused
    if not abs(value) <= LARGEST:
        return f"{flag(name)} {value}: choose a number of at most {LARGEST:,}"
    if option.least is not None and value < option.least:
        return f"{flag(name)} {value}: choose {option.least} or more"
    return ""


def search_settings(decoding: Dict[str, Any]) -> Dict[str, Any]:
    """Return checked options under the names of :class:`SearchSettings`, with :data:`DEFAULTS` for missing ones.

    Raises:
        InputError: see :func:`check`; or the shortest summary would be longer than the longest.
    """
    together = {**DEFAULTS, **check(decoding)}
    if not together.get("max_len_a") and not together.get("exact_length") and together["min_len"] > together["max_len"]:
        raise InputError(f"--min-len {together['min_len']}: choose at most --max-len, which is {together['max_len']}")
    return {OPTIONS[name].setting: value for name, value in together.items()}


def call_settings(
    folder: Mapping[str, Any], given: Dict[str, Any], has_pointer: Optional[bool] = None
) -> Dict[str, Any]:
    """Return the settings of a call, in the form of :func:`search_settings`.

    A call with another value of ``choose`` than the folder has the ``beam`` of :data:`BEAMS`, unless it gives one.

    Args:
        folder: the folder's defaults, which may hold options without effect.
        given: the call's own options.
        has_pointer: whether the model can copy; None: not yet known, and not checked.

    Raises:
        InputError: see :func:`search_settings`; or an option of the call has no effect.
    """
    together = {**folder, **given}
    # the call's maximum length also limits the folder's minimum length
    if "max_len" in check(given) and "min_len" not in given:
        together["min_len"] = min(present_value("min_len", together), given["max_len"])
    if present_value("choose", together) != present_value("choose", folder) and "beam" not in given:
        together["beam"] = BEAMS[together["choose"]]
    settings = search_settings(together)
    new = {
        name: value
        for name, value in given.items()
        if value != default_of(name) and not (name in folder and value == folder[name])
    }
    idle = options.without_effect(new, {name: present_value(name, together) for name in OPTIONS}, has_pointer)
    if idle:
        raise InputError(idle)
    return settings


class _Switch(argparse.Action):
    """A switch with a counterpart ``--no-…``; before Python 3.13, argparse's own writes SUPPRESS into the help."""

    def __init__(self, option_strings: Sequence[str], **kwargs: Any):
        (given,) = option_strings
        super().__init__([given, f"--no-{given[2:]}"], **kwargs)

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Optional[str] = None) -> None:
        setattr(namespace, self.dest, not str(option_string).startswith("--no-"))


def add_arguments(parser: argparse.ArgumentParser, title: str, without: Sequence[str] = ()) -> None:
    """Add the decoding options to a parser, in a separate group; options that are not given are left out.

    Args:
        without: options that the parser does not get.
    """
    group = parser.add_argument_group(title)
    for name, option in OPTIONS.items():
        if name in without:
            continue
        if option.kind is bool:
            group.add_argument(flag(name), action=_Switch, nargs=0, default=argparse.SUPPRESS, help=option.help)
        else:
            group.add_argument(
                flag(name),
                metavar=None if option.choices else {int: "N", float: "X", str: "TEXT"}[option.kind],
                type=option.kind,
                choices=option.choices or None,
                default=argparse.SUPPRESS,
                help=option.help,
            )


def given_on(args: argparse.Namespace) -> Dict[str, Any]:
    """Return the decoding options given on a command line, checked."""
    return check({name: getattr(args, name) for name in OPTIONS if hasattr(args, name)})
