"""Create the search space, which consists of the decoding options to tune and a short list of values for each."""

import math
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from ..platform.errors import InputError
from ..platform.option_checks import format_option_name
from ..search.options import CALL, DECLARED, LARGEST, check_values, format_unknown_option, get_type, get_value

SEARCHED = ("lenpen", "coverage_penalty", "no_repeat_ngram_size", "min_len", "max_len")
"""Decoding options that are searched by default."""
_MOST_VALUES = 1000
_STEPS = 20


class Parameter(NamedTuple):
    """A decoding option to tune."""

    name: str  # one of :data:`~fairseq_etads.search.options.CALL`
    values: Tuple[Any, ...]  # values to try; numbers are in ascending order

    @property
    def is_ordered(self) -> bool:
        """Return whether the values of the parameter are numbers."""
        return get_type(self.name) in (int, float)


def make_search_space(
    names: Sequence[str], ranges: Dict[str, str], decoding: Dict[str, Any], lengths: Sequence[int]
) -> List[Parameter]:
    """Return the parameters of a search, in the order in which their values are chosen.

    Args:
        names: names of the options to search, with hyphens or underscores (default: :data:`SEARCHED`).
        ranges: values to try by names of options, as in :func:`parse_values`. These options are also searched.
        decoding: default values of the decoding options.
        lengths: number of tokens in each reference summary.

    Raises:
        InputError: an option does not exist, cannot be searched, has impossible values, or has no effect.
    """
    asked = [_find_option(name, "--search") for name in (names or SEARCHED)]
    given = {_find_option(name, "--range"): text for name, text in ranges.items()}
    values = {
        name: parse_values(name, given[name])
        if name in given
        else _choose_default_values(name, get_value(name, decoding), lengths)
        for name in dict.fromkeys([*asked, *given])
    }
    space = _remove_impossible_lengths([*map(Parameter, values, values.values())], decoding)
    # The possible values of min_len depend on the other options, so min_len comes last.
    return sorted(space, key=lambda parameter: parameter.name == "min_len")


def _find_option(name: str, option: str) -> str:
    known = name.strip().lstrip("-").replace("-", "_")
    if known not in CALL:
        raise InputError(format_unknown_option(known, CALL))
    if not DECLARED[known].metadata.get("tunable", True):
        shown = format_option_name(known)
        raise InputError(f"{option} {name}: {shown} cannot be searched; set it in etads-export or etads-summarize")
    return known


def parse_values(name: str, text: str) -> Tuple[Any, ...]:
    """Parse values of the form ``LOW:HIGH``, ``LOW:HIGH:STEP`` or ``A,B,C``, or raise InputError."""
    kind, where = get_type(name), f"--range {name.replace('_', '-')}={text}"
    bounds = text.split(":")
    if len(bounds) in (2, 3) and kind in (int, float):
        low, high, *step = (_parse_value(part, kind, where) for part in bounds)
        if low > high:
            raise InputError(f"{where}: the lowest value comes first: {bounds[1]}:{bounds[0]}")
        if step and step[0] <= 0:
            raise InputError(f"{where}: choose a step above 0")
        values = _make_grid(low, high, step[0] if step else _choose_step(high - low, kind), where)
    elif len(bounds) == 1 and text.strip():
        values = list(dict.fromkeys(_parse_value(part.strip(), kind, where) for part in text.split(",")))
        values = sorted(values) if kind in (int, float) else values
    else:
        raise InputError(f"{where}: choose LOW:HIGH, LOW:HIGH:STEP or values separated by commas")
    for value in values:
        try:
            check_values({name: value}, in_call=True)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
    return tuple(values)


def _parse_value(text: str, kind: type, where: str) -> Any:
    if kind is str:
        return text
    try:
        value = {"true": True, "false": False}[text.lower()] if kind is bool else kind(text)
        if not abs(value) <= LARGEST:  # this is also true for NaN
            raise ValueError
        return value
    except (KeyError, ValueError):
        what = {int: "a whole number", float: "a number", bool: "true or false"}[kind]
        raise InputError(f"{where}: {text.strip()!r} is not {what}") from None


def _choose_step(width: float, kind: type) -> Any:
    """Return the smallest step of the form 1, 2 or 5 times a power of ten that produces at most 21 values."""
    least = width / _STEPS
    power = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))
    return max(1, round(step)) if kind is int else step


def _make_grid(low: Any, high: Any, step: Any, where: str) -> List[Any]:
    """Return values from ``low`` to ``high``. ``high`` is always included, so the last step may be shorter."""
    count = (high - low) / step + 1e-9
    if count >= _MOST_VALUES:
        raise InputError(f"{where}: has more than {_MOST_VALUES:,} values; choose a larger step")
    values = [low + number * step for number in range(int(count) + 1)]
    values = [value if isinstance(value, int) else round(value, 10) for value in values]
    return values if values[-1] == high else [*values, high]


def _choose_default_values(name: str, present: Any, lengths: Sequence[int]) -> Tuple[Any, ...]:
    """Return the values to try for an option if the user has not specified any. They include the current value."""
    metadata = DECLARED[name].metadata
    if get_type(name) is bool:
        return (False, True)
    if "choices" in metadata:
        return tuple(metadata["choices"])
    middle, longest = np.percentile(lengths, [50, 99], method="nearest").astype(int).tolist()
    if name == "min_len":
        values: Sequence[Any] = _choose_about_ten_integers(min(1, present), max(1, middle))
    elif name == "max_len":
        values = _choose_about_ten_integers(max(1, middle), max(1, longest))
    elif "tuned" in metadata:
        values = metadata["tuned"]
    else:
        option = name.replace("_", "-")
        raise InputError(f"--search {option}: its range is missing; give --range {option}=LOW:HIGH")
    return tuple(sorted({*values, present}))


def _choose_about_ten_integers(low: int, high: int) -> List[int]:
    """Return about ten integers between ``low`` and ``high``."""
    return [*range(low, high, max(1, round((high - low) / 10))), high]


def _remove_impossible_lengths(space: Sequence[Parameter], decoding: Dict[str, Any]) -> List[Parameter]:
    """Remove values of min_len and max_len that are incompatible with all values of the other option."""
    values = {parameter.name: parameter.values for parameter in space}
    lengths = [name for name in ("min_len", "max_len", "max_len_a") if name in values]
    if lengths and ("exact_length" in values or get_value("exact_length", decoding)):
        raise InputError(f"--search {lengths[0].replace('_', '-')}: has no effect with --exact-length")
    if not lengths or "max_len_a" in values or get_value("max_len_a", decoding):
        return list(space)
    least = values.get("min_len", (get_value("min_len", decoding),))[0]
    most = values.get("max_len", (get_value("max_len", decoding),))[-1]
    if least > most:
        names = " or ".join(lengths).replace("_", "-")
        raise InputError(f"--min-len {least} is more than --max-len {most}: choose another --range of {names}")
    return [
        p._replace(values=tuple(value for value in p.values if least <= value <= most)) if p.name in lengths else p
        for p in space
    ]


def list_allowed_values(parameter: Parameter, chosen: Dict[str, Any], decoding: Dict[str, Any]) -> Tuple[Any, ...]:
    """Return the values of a parameter that go with those ``chosen`` before: min_len must not exceed max_len."""
    together = {**decoding, **chosen}
    if parameter.name != "min_len" or get_value("max_len_a", together):
        return parameter.values
    return tuple(value for value in parameter.values if value <= get_value("max_len", together))


def make_decoding_options(chosen: Dict[str, Any], defaults: Dict[str, Any]) -> Dict[str, Any]:
    """Return all decoding options for these values of parameters. Options without effect have general defaults."""
    decoding = {**defaults, **chosen}
    idle: List[Tuple[str, Any]] = []
    if not get_value("coverage_penalty", decoding):
        idle += [("coverage_penalty_type", "summary"), ("stepwise_coverage_penalty", False)]
    if get_value("length_penalty_type", decoding) == "avg":
        idle.append(("length_penalty_beta", get_value("length_penalty_beta", {})))
    return {**decoding, **{name: value for name, value in idle if name in decoding}}
