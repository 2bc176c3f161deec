"""Options declared as dataclass fields: find given options, and check that they are valid and have an effect.

This module needs neither torch nor fairseq, so that ``--help`` is fast. The metadata of a field determines its checks:

- ``bounds``: the :class:`Bounds` of a number;
- ``choices``: the valid values of a text, for a field that is not an enumeration;
- ``needs``: options or mechanisms of the model, as on a command line ("--pointer switch"). If none of them is present,
  the field has no effect. ``without`` replaces the end of the message, "without --pointer switch";
- ``excludes``: option or mechanism -> reason why the field cannot be given together with it. If the reason is empty,
  the message states that the field has no effect with it.

:func:`conflict` applies ``needs`` and ``excludes`` for training and for decoding; ``docs/rules.md`` lists them.
"""

import math
from dataclasses import fields
from enum import Enum
from typing import Any, Collection, Dict, Iterator, Mapping, NamedTuple, Optional, Sequence, Set, Tuple


class Bounds(NamedTuple):
    """Bounds of a numeric option.

    Attributes:
        at_least: the smallest value; None for no lower bound.
        below: an exclusive upper bound; None for no upper bound.
        what: noun or remark for messages: "tokens", "(0: off)", or with ``below`` "a probability".
        above: an exclusive lower bound, instead of ``at_least``.
        most: the largest value, instead of ``below``.
    """

    at_least: Optional[float] = None
    below: Optional[float] = None
    what: str = ""
    above: Optional[float] = None
    most: Optional[float] = None

    def admit(self, value: float) -> bool:
        """Tell whether a value is valid. NaN is never valid, and infinity only if there are no bounds."""
        low = -math.inf if self.at_least is None else self.at_least
        high = math.inf if self.most is None else self.most
        return (
            low <= value <= high
            and (self.below is None or value < self.below)
            and (self.above is None or self.above < value < math.inf)
        )

    def __str__(self) -> str:
        low = [] if self.at_least is None else [f"at least {self.at_least:g}"]
        low += [] if self.above is None else [f"above {self.above:g}"]
        high = [] if self.below is None else [f"below {self.below:g}"]
        high += [] if self.most is None else [f"at most {self.most:g}"]
        if self.at_least is not None and self.most is not None:
            return f"{self.what or 'a number'} from {self.at_least:g} to {self.most:g}"
        if high:
            return f"{self.what or 'a number'}, {' and '.join(low + high)}" if low else f"a number {high[0]}"
        text = f"more than {self.above:g}" if self.above is not None else f"{self.at_least:g} or more"
        return f"{text} {self.what}".rstrip()


PROBABILITY = Bounds(0, 1, "a probability")
"""Bounds of a dropout probability or a share below 1."""
SIZE = Bounds(1)
"""Bounds of a width or another number that is at least 1."""
NOT_NEGATIVE = Bounds(0)
"""Bounds of a weight or another number that can be 0."""


def flag(name: str) -> str:
    """Format an option as on a command line."""
    return f"--{name.replace('_', '-')}"


def shown(option: str, value: Any) -> str:
    """Format an option with its value as on a command line."""
    return flag(option) if value is True else f"{flag(option)} {_plain(value)}"


def listed(choices: Sequence[str]) -> str:
    """Format choices as a list in a sentence."""
    return f"{', '.join(choices[:-1])} or {choices[-1]}" if len(choices) > 1 else choices[0]


def check_values(cfg: Any, config: Any) -> None:
    """Raise ValueError for a value outside the bounds or choices of its option.

    Args:
        cfg: the values of the options.
        config: the dataclass that declares the options.
    """
    for option in fields(config):
        bounds, choices = option.metadata.get("bounds"), option.metadata.get("choices")
        value = getattr(cfg, option.name, None) if bounds is not None or choices is not None else None
        if value is None:
            continue
        if bounds is not None and not bounds.admit(value):
            raise ValueError(f"{flag(option.name)} {value}: choose {bounds}")
        if choices is not None and _plain(value) not in choices:
            raise ValueError(f"{shown(option.name, value)}: choose from {', '.join(choices)}")


def check_needs(cfg: Any, config: Any, has: Collection[str] = (), skip: Collection[str] = ()) -> None:
    """Raise ValueError if a requirement of a given option is missing, or the option excludes one that is present.

    Args:
        cfg: the values of the options.
        config: the dataclass that declares the options.
        has: mechanisms of the model, and options declared by other dataclasses, as on a command line; the options of
            ``config`` need not be listed.
        skip: names of options that are not checked.
    """
    present = {option.name: getattr(cfg, option.name, option.default) for option in fields(config)}
    given = {name: value for name, value in given_options(cfg, config).items() if name not in skip}
    declared = {option.name: option.metadata for option in fields(config)}
    found = conflict(given, declared, {*has, *flags(present)})
    if found:
        raise ValueError(found)


def conflict(given: Mapping[str, Any], declared: Mapping[str, Mapping[str, Any]], there: Collection[str]) -> str:
    """Return why one of the given options has no effect or excludes another option; empty if there is no conflict.

    Args:
        given: options that differ from their defaults, and their values.
        declared: name -> metadata of each option.
        there: options and mechanisms that are present, as on a command line; see :func:`flags`.
    """
    for name, value in given.items():
        metadata = declared.get(name, {})
        needs = metadata.get("needs", ())
        if needs and not any(needed in there for needed in needs):
            return f"{shown(name, value)} has no effect {metadata.get('without') or 'without ' + listed(needs)}"
        for other, reason in metadata.get("excludes", {}).items():
            if other in there and not reason:
                return f"{shown(name, value)} has no effect with {_with_value(other, there)}: choose one"
            if other in there:
                return f"{shown(name, value)} does not go with {_with_value(other, there)}: {reason}"
    return ""


def flags(present: Mapping[str, Any]) -> Set[str]:
    """Return all options that are on, both with and without their values: "--pointer", "--pointer soft".

    For an option with the value "none", only the second form is returned.
    """
    on = {name: _plain(value) for name, value in present.items() if is_on(value)}
    off = {shown(name, value) for name, value in present.items() if _plain(value) == "none"}
    return {flag(name) for name in on} | {shown(name, value) for name, value in on.items()} | off


def is_on(value: Any) -> bool:
    """Tell whether an option with this value is on; fairseq's --diverse-beam-groups is -1 if off."""
    plain = _plain(value)
    # An unresolved OmegaConf interpolation refers to an option in another part of the configuration.
    return plain not in (None, False, 0, -1, "", "none") and not str(plain).startswith("${")


def given_options(cfg: Any, config: Any) -> Dict[str, Any]:
    """Return the options with values other than the default, and their values.

    An option that is explicitly set to its default is not included.
    """
    return {name: getattr(cfg, name) for name, default in defaults_of(config) if _is_given(cfg, name, default)}


def defaults_of(config: Any) -> Iterator[Tuple[str, Any]]:
    """Yield the name and default of each option, except options taken from other parts of fairseq's configuration."""
    for option in fields(config):
        if not option.name.startswith("_") and not str(option.default).startswith("${"):
            yield option.name, option.default


def _with_value(other: str, there: Collection[str]) -> str:
    """Return an option with its value if the value is known."""
    return next((shown for shown in sorted(there) if shown.startswith(f"{other} ")), other)


def _is_given(cfg: Any, name: str, default: Any) -> bool:
    value = getattr(cfg, name, default)
    if isinstance(default, (bool, int, float)) or value is None or default is None:
        return bool(value != default)
    return str(_plain(value)) != str(_plain(default))  # enumerations are compared by value


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value
