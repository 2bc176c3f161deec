"""Check that options are valid and have an effect. The options are declared as the fields of a dataclass.

This module does not require torch or fairseq, so ``--help`` is fast. Training, models, criterions, decoding and our
commands declare and check their options in this way. The metadata of a field can contain:

- ``bounds``: the :class:`Bounds` of a numeric option.
- ``choices``: the valid values of a string option that is not an enumeration.
- ``needs``: options or mechanisms of the model, written as on the command line ("--pointer switch"). If none of them is
  enabled, the option has no effect.
- ``without``: alternative end of the message for ``needs``, which is otherwise of the form "without --pointer switch".
- ``requires``: mapping from options, mechanisms or properties of the data to reasons. All of them must be enabled.
- ``excludes``: mapping from options or mechanisms to the reason why this option cannot be combined with them. If the
  reason is empty, the message states that this option has no effect in combination with the other one.
- ``of_values``: mapping from values of the option to metadata that apply only to this value.
- ``equal``: mapping from pairs of options, which must have equal values while this option is enabled, to a description
  of what this option needs.

:func:`check_options` checks the options of a dataclass, and :func:`describe_expected_value` and
:func:`find_option_conflict` check single options.
"""

import math
from dataclasses import MISSING, Field, field, fields
from enum import Enum
from numbers import Integral, Real
from typing import Any, Collection, Dict, Iterator, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from .errors import InputError


def option(default: Any, help: str, **metadata: Any) -> Any:
    """Declare an option as a field of a dataclass. See the module for ``metadata``."""
    how: Dict[str, Any] = {"default_factory": default.copy} if isinstance(default, list) else {"default": default}
    return field(metadata={"help": help, **metadata}, **how)


def get_default(each: "Field[Any]") -> Any:
    """Return the default value of a field."""
    return each.default if each.default_factory is MISSING else each.default_factory()


class Bounds(NamedTuple):
    """Bounds of the values of a numeric option."""

    at_least: Optional[float] = None  # smallest valid value
    below: Optional[float] = None  # exclusive upper bound
    what: str = ""  # noun or remark for messages, such as "tokens", "(0: off)" or, with ``below``, "a probability"
    above: Optional[float] = None  # exclusive lower bound, instead of ``at_least``
    most: Optional[float] = None  # largest valid value, instead of ``below``
    odd: bool = False  # whether the value must be odd

    def contains(self, value: float) -> bool:
        """Return whether a value is within the bounds. NaN is never valid, and ``above`` also excludes infinity."""
        return (
            value == value
            and (self.at_least is None or self.at_least <= value)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
            and (self.above is None or self.above < value < math.inf)
            and (value % 2 == 1 or not self.odd)
        )

    def __str__(self) -> str:
        low = [] if self.at_least is None else [f"at least {self.at_least:g}"]
        low += [] if self.above is None else [f"above {self.above:g}"]
        high = [] if self.below in (None, math.inf) else [f"below {self.below:g}"]
        high += [] if self.most is None else [f"at most {self.most:g}"]
        if self.at_least is not None and self.most is not None:
            return f"{self.what or 'a number'} from {self.at_least:g} to {self.most:g}"
        if high:
            return f"{self.what or 'a number'}, {' and '.join(low + high)}" if low else f"a number {high[0]}"
        text = f"more than {self.above:g}" if self.above is not None else f"{self.at_least:g} or more"
        text = f"an odd number, {text}" if self.odd else text
        return f"{text} {self.what}".rstrip()


PROBABILITY = Bounds(0, 1, "a probability")
"""Bounds of a dropout probability or a fraction less than 1."""
SIZE = Bounds(1)
NOT_NEGATIVE = Bounds(0)

_KINDS = {int: "a whole number", float: "a number", bool: "True or False", str: "a text"}


def format_option_name(name: str) -> str:
    """Format the name of an option as it is written on a command line."""
    return f"--{name.replace('_', '-')}"


def format_option(option: str, value: Any) -> str:
    """Format an option and its value as they are written on a command line."""
    written = " ".join(str(_unwrap_enum(each)) for each in _list_values(value))
    return format_option_name(option) if value is True else f"{format_option_name(option)} {written}"


def join_choices(choices: Sequence[str]) -> str:
    """Format a list of choices as part of a sentence."""
    return f"{', '.join(choices[:-1])} or {choices[-1]}" if len(choices) > 1 else choices[0]


def check_option_choice(option: str, value: str, choices: Tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``choices``, or raise InputError, which lists the choices of the option."""
    if value not in choices:
        raise InputError(f'{option} "{value}": choose {join_choices(choices)}')
    return value


def describe_expected_value(value: Any, metadata: Mapping[str, Any], kind: Any = None) -> str:
    """Return a description of the valid values of an option, or an empty string if ``value`` is valid.

    The value can be a member of an enumeration. Types (``kind``) other than int, float, bool and str are not checked.
    """
    choices, bounds, value = metadata.get("choices"), metadata.get("bounds"), _unwrap_enum(value)
    if choices:
        return "" if value in choices else join_choices(choices)
    is_number = isinstance(value, Real) and not isinstance(value, bool) and value == value  # false for NaN
    fits = is_number if kind in (int, float) else kind not in _KINDS or isinstance(value, kind)
    if not fits or (kind is int and not isinstance(value, Integral)):
        return _KINDS[kind]
    return "" if bounds is None or bounds.contains(value) else str(bounds)


def format_value_error(name: str, value: Any, expected: str) -> str:
    """Return the message about an option whose value is not as expected."""
    written = f'"{value}"' if isinstance(value, str) else repr(value)
    return f"{format_option_name(name)} {written if len(written) <= 60 else f'{written[:57]}...'}: choose {expected}"


def check_option_values(cfg: Any, config: Any) -> None:
    """Raise InputError if a value in ``cfg`` is not within the bounds or choices that ``config`` declares."""
    for option in fields(config):
        for value in map(_unwrap_enum, _list_values(getattr(cfg, option.name, None))):
            expected = "" if value is None else describe_expected_value(value, option.metadata)
            if expected:
                raise InputError(format_value_error(option.name, value, expected))


def check_options(cfg: Any, config: Any, has: Collection[str] = (), skip: Collection[str] = ()) -> None:
    """Check the values of options (``cfg``) and their combinations, as the dataclass ``config`` declares them.

    ``has`` are mechanisms of the model, properties of the data, and options declared elsewhere, written as on the
    command line. Combinations of the options ``skip`` are not checked. Raises InputError if a value is invalid, or an
    option has no effect or cannot be combined with another one.
    """
    check_option_values(cfg, config)
    present = {option.name: getattr(cfg, option.name, option.default) for option in fields(config)}
    given = {name: value for name, value in get_given_options(cfg, config).items() if name not in skip}
    declared = {option.name: option.metadata for option in fields(config)}
    found = find_option_conflict(given, declared, {*has, *list_enabled_options(present)})
    if found:
        raise InputError(found)
    for name, metadata in declared.items():
        if not is_option_enabled(present[name]) or name in skip:
            continue
        for (first, second), wanted in metadata.get("equal", {}).items():
            if present[first] != present[second]:
                values = " and ".join(f"{format_option_name(each)} is {present[each]}" for each in (first, second))
                raise InputError(f"{format_option(name, present[name])} needs {wanted}, but {values}")


def find_option_conflict(
    given: Mapping[str, Any], declared: Mapping[str, Mapping[str, Any]], there: Collection[str]
) -> str:
    """Return a message about the first option that has no effect or cannot be combined with another one, or nothing.

    ``given`` are options with non-default values, ``declared`` is the metadata of the options by their names, and
    ``there`` are enabled options and mechanisms (:func:`list_enabled_options`).
    """
    for name, value in given.items():
        metadata = declared.get(name, {})
        if "of_values" in metadata:
            metadata = {**metadata, **metadata["of_values"].get(_unwrap_enum(value), {})}
        shown, needs = format_option(name, value), metadata.get("needs", ())
        if needs and not any(needed in there for needed in needs):
            return f"{shown} has no effect {metadata.get('without') or 'without ' + join_choices(needs)}"
        for other, reason in metadata.get("requires", {}).items():
            if other not in there:
                instead = _format_option_with_value(other.split(" ")[0], there)
                return f"{shown} needs {other}{f', not {instead}' if instead in there else ''}: {reason}"
        for other, reason in metadata.get("excludes", {}).items():
            if other in there:
                second = _format_option_with_value(other, there)
                if not reason:
                    return f"{shown} has no effect with {second}: choose one"
                return f"{shown} does not go with {second}: {reason}"
    return ""


def list_enabled_options(present: Mapping[str, Any]) -> Set[str]:
    """Return all enabled options, both with and without their values, such as "--pointer" and "--pointer soft".

    For options with the value "none", only the form with the value is returned. Parts between commas are also values.
    """
    on = {name: _unwrap_enum(value) for name, value in present.items() if is_option_enabled(value)}
    off = {format_option(name, value) for name, value in present.items() if _unwrap_enum(value) == "none"}
    written = {format_option(name, item) for name, value in on.items() for item in _list_values(value)}
    texts = {name: value for name, value in on.items() if isinstance(value, str)}
    written |= {format_option(name, part) for name, text in texts.items() for part in text.split(",")}
    return {format_option_name(name) for name in on} | written | off


def _list_values(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def is_option_enabled(value: Any) -> bool:
    """Return whether an option with this value is enabled. The value -1 disables fairseq's --diverse-beam-groups."""
    plain = _unwrap_enum(value)
    # A value that begins with "${" is an unresolved OmegaConf interpolation of an option in another part of the
    # configuration.
    return plain not in (None, False, 0, -1, "", "none", []) and not str(plain).startswith("${")


def get_given_options(cfg: Any, config: Any) -> Dict[str, Any]:
    """Return the names and values of all options whose values are not their defaults."""
    given = {}
    for name, default in iterate_defaults(config):
        value = getattr(cfg, name, default)
        is_plain = isinstance(default, (bool, int, float)) or value is None or default is None
        # Members of an enumeration are compared by their values.
        if value != default if is_plain else str(_unwrap_enum(value)) != str(_unwrap_enum(default)):
            given[name] = value
    return given


def iterate_defaults(config: Any) -> Iterator[Tuple[str, Any]]:
    """Yield the name and default of each option that does not refer to other parts of fairseq's configuration."""
    for option in fields(config):
        if not option.name.startswith("_") and not str(option.default).startswith("${"):
            yield option.name, get_default(option)


def _format_option_with_value(other: str, there: Collection[str]) -> str:
    """Return an option together with its value, or only the option if its value is not known."""
    return next((shown for shown in sorted(there) if shown.startswith(f"{other} ")), other)


def _unwrap_enum(value: Any) -> Any:
    """Return the value of a member of an enumeration, or of NumPy's boolean as one of Python."""
    if type(value).__name__ in ("bool", "bool_"):  # its name in NumPy 2 and 1
        return bool(value)
    return value.value if isinstance(value, Enum) else value
