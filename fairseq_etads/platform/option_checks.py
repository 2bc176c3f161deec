"""Options declared as dataclass fields: find the given ones, and check that they are possible and have an effect.

A field's metadata determines its checks:

- ``bounds``: the :class:`Bounds` of a number;
- ``choices``: the values of a text, for a field that is not an enumeration;
- ``needs``: options or mechanisms of the model, as on a command line ("--pointer switch"); one of them must be present,
  or the field has no effect.
"""

from dataclasses import fields
from enum import Enum
from typing import Any, Collection, Dict, Iterator, NamedTuple, Optional, Set, Tuple


class Bounds(NamedTuple):
    """Bounds of a numeric option.

    Attributes:
        at_least: the smallest value.
        below: an exclusive upper bound; None: no upper bound.
        what: the noun for messages: "tokens", or with ``below`` "a probability".
    """

    at_least: float
    below: Optional[float] = None
    what: str = ""

    def admit(self, value: float) -> bool:
        """Tell whether a value is possible; "not a number" never is."""
        return self.at_least <= value and (self.below is None or value < self.below)

    def __str__(self) -> str:
        if self.below is None:
            return f"{self.at_least:g} or more {self.what}".rstrip()
        return f"{self.what or 'a number'}, at least {self.at_least:g} and below {self.below:g}"


def shown(option: str, value: Any) -> str:
    """Format an option as on a command line."""
    flag = f"--{option.replace('_', '-')}"
    return flag if value is True else f"{flag} {value}"


def check_values(cfg: Any, config: type) -> None:
    """Raise ValueError for a value outside the bounds or choices of its option.

    Args:
        cfg: the values.
        config: the dataclass that declares the options.
    """
    for option in fields(config):
        bounds, choices = option.metadata.get("bounds"), option.metadata.get("choices")
        value = getattr(cfg, option.name, None) if bounds is not None or choices is not None else None
        if value is None:
            continue
        if bounds is not None and not bounds.admit(value):
            raise ValueError(f"{shown(option.name, value)}: choose {bounds}")
        if choices is not None and _plain(value) not in choices:
            raise ValueError(f"{shown(option.name, value)}: choose of {', '.join(choices)}")


def check_needs(cfg: Any, config: type, has: Collection[str] = (), skip: Collection[str] = ()) -> None:
    """Raise ValueError for a given option that needs something missing.

    Args:
        cfg: the values.
        config: the dataclass that declares the options.
        has: mechanisms of the model, and options that other dataclasses declare, as on a command line; the given
            options of ``config`` may be left out.
        skip: names of options that are not checked.
    """
    given = given_options(cfg, config)
    there = {*has, *_flags(given)}
    for option in fields(config):
        needs = option.metadata.get("needs", ())
        if option.name in given and option.name not in skip and needs and there.isdisjoint(needs):
            raise ValueError(f"{shown(option.name, given[option.name])} has no effect without {' or '.join(needs)}")


def given_options(cfg: Any, config: type) -> Dict[str, Any]:
    """Options with values other than the default, and their values.

    An explicitly given default does not count.
    """
    return {name: getattr(cfg, name) for name, default in defaults_of(config) if _is_given(cfg, name, default)}


def defaults_of(config: type) -> Iterator[Tuple[str, Any]]:
    """Name and default of each option declared here, not taken from another part of fairseq's options."""
    for option in fields(config):
        if not option.name.startswith("_") and not str(option.default).startswith("${"):
            yield option.name, option.default


def _is_given(cfg: Any, name: str, default: Any) -> bool:
    value = getattr(cfg, name, default)
    if isinstance(default, (bool, int, float)) or value is None or default is None:
        return bool(value != default)
    return str(_plain(value)) != str(_plain(default))  # enumerations are compared by value


def _flags(given: Dict[str, Any]) -> Set[str]:
    """Each option that is on, with and without its value: "--pointer", "--pointer soft"."""
    on = {name: _plain(value) for name, value in given.items() if value not in (False, 0, "")}
    return {shown(name, True) for name in on} | {shown(name, value) for name, value in on.items()}


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value
