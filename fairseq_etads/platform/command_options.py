"""Options, declared as the fields of a dataclass: the parsers of commands, and checks that options have an effect.

    @dataclass
    class Options(DeviceOption):
        folder: Path = argument("FOLDER", "model folder to tune")
        nbest: Optional[int] = option(None, "beam size", bounds=SIZE, needs=("--mert",))
        mert: bool = option(False, "tune weights")

    @options_command("etads-tune", Options, description="Find good decoding options.")
    def main(options: Options) -> None: ...

An option is named like its field and has the field's type. Its values and combinations are checked after parsing.
Training, models, criterions and decoding declare and check their options in the same way. Metadata of a field:

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

Further metadata, for the parser of a command:

- ``metavar``, ``choices``, ``nargs``, ``const``, ``required``: as in argparse. The metavar depends on the type.
- ``short``: a second name, such as "-o".
- ``flag``: the name of the option, if it differs from the field's.
- ``parse``: a function that converts the text to the value.
- ``group``: the title of a group of options in the help.
- ``add`` and ``read``: functions that add several options to a parser, and read them, as one field.

The help ends with the default value, unless it explains the default itself. :func:`check_options` checks the options
of a dataclass, and :func:`describe_expected_value` and :func:`find_option_conflict` check single options. Neither torch
nor fairseq is imported, so ``--help`` is fast.
"""

import argparse
import functools
import logging
import math
import os
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from enum import Enum
from numbers import Integral, Real
from pathlib import Path
from typing import (
    Any,
    Callable,
    Collection,
    Dict,
    Iterator,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    Type,
    Union,
    get_type_hints,
)

from .console import Parser, command
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


MAX_TOKENS = 8000
"""Default value of --max-tokens in commands that run a model without training it."""
_METAVARS = {int: "N", float: "X", Path: "FILE", str: "TEXT"}


def argument(metavar: str, help: str, default: Any = None, **metadata: Any) -> Any:
    """Declare a positional argument. See the module for ``metadata``."""
    return option(default, help, metavar=metavar, is_positional=True, **metadata)


@dataclass
class UserDirOption:
    """The option --user-dir, as in fairseq's commands."""

    user_dir: Optional[str] = option(None, "package of your own that registers the model", metavar="DIR")


@dataclass
class DeviceOption(UserDirOption):
    """The option --device."""

    device: Optional[str] = option(
        None, "device, such as cpu or cuda:0 (default: a GPU if available, otherwise the CPU)", metavar="DEVICE"
    )


@dataclass
class JobsOption:
    """The option --jobs."""

    jobs: int = option(
        os.cpu_count() or 1, "number of processes (default: the number of processors, %(default)s)", bounds=SIZE
    )


@dataclass
class MaxTokensOption:
    """The option --max-tokens."""

    max_tokens: int = option(MAX_TOKENS, "maximum number of source tokens per batch", bounds=SIZE)


def iterate_options(config: type) -> Iterator[Tuple["Field[Any]", Any]]:
    """Yield the fields of a dataclass and their types: first its own fields, then those of its bases."""
    declared, kinds = {each.name: each for each in fields(config)}, get_type_hints(config)
    for part in filter(is_dataclass, config.__mro__):
        inherited = {each.name for base in part.__bases__ if is_dataclass(base) for each in fields(base)}
        for each in fields(part):
            if each.name not in inherited and each.name in declared:
                yield declared.pop(each.name), kinds[each.name]


def add_option(add: Callable[..., Any], name: str, kind: Any, default: Any, metadata: Mapping[str, Any]) -> None:
    """Add an option to a parser or group, whose method ``add_argument`` is ``add``.

    ``kind`` is a type such as ``Optional[int]`` or ``List[Path]``, and ``metadata`` is the field's. The default value
    can also be None or SUPPRESS. A boolean option without one has --option and --no-option.
    """
    is_list = False
    while getattr(kind, "__args__", ()):  # Optional[...] or List[...]
        is_list, kind = is_list or kind.__origin__ is list, kind.__args__[0]
    text, choices = metadata["help"], metadata.get("choices")
    has_default = default not in (None, "", [], argparse.SUPPRESS)
    if kind is not bool and has_default and "(default" not in text:
        text += " (default: %(default)s)"
    how: Dict[str, Any] = {"help": text}
    if kind is bool:
        how["action"] = "store_true" if has_default else argparse.BooleanOptionalAction
    else:
        how.update(type=metadata.get("parse", kind), choices=choices)
        how["metavar"] = metadata.get("metavar", None if choices else _METAVARS.get(kind))
        how.update({each: metadata[each] for each in ("nargs", "const", "required") if each in metadata})
        if is_list and "nargs" not in metadata and "parse" not in metadata:
            how["action"] = "append"
    if metadata.get("is_positional"):
        action = add(name, **how)
    else:
        flag = metadata.get("flag", format_option_name(name))
        action = add(*metadata.get("short", "").split(), flag, dest=name, **how)
    # The default is set afterwards, because some versions of argparse print the default of a BooleanOptionalAction.
    action.default = argparse.SUPPRESS if kind is bool and not has_default else default


def add_options(parser: argparse.ArgumentParser, config: type) -> None:
    """Add the options that a dataclass declares to a parser."""
    groups: Dict[str, Any] = {"": parser}
    for each, kind in iterate_options(config):
        if "add" in each.metadata:
            each.metadata["add"](parser)
        elif "help" in each.metadata:
            title = each.metadata.get("group", "")
            groups[title] = groups.get(title) or parser.add_argument_group(title)
            add_option(groups[title].add_argument, each.name, kind, get_default(each), each.metadata)


def options_command(
    prog: str,
    config: Union[type, Mapping[str, Tuple[str, type]]],
    *more: Type[Exception],
    make_parser: Callable[..., argparse.ArgumentParser] = Parser,
    **about: Any,
) -> Callable[[Callable[[Any], Any]], Callable[..., int]]:
    """Return a decorator that makes the ``main`` function of the command ``prog`` from a function of its options.

    ``config`` is the dataclass of its options, or a mapping from its subcommands to their help and options. For
    ``more``, see :func:`~fairseq_etads.platform.console.command`; ``about`` are further arguments of the parser. Of
    fairseq's and this project's log messages, the command shows only warnings.
    """

    def make() -> argparse.ArgumentParser:
        parser = make_parser(prog=prog, formatter_class=argparse.RawDescriptionHelpFormatter, **about)
        if isinstance(config, type):
            add_options(parser, config)
        else:
            commands = parser.add_subparsers(dest="command", required=True, metavar="|".join(config))
            for name, (text, of_command) in config.items():
                add_options(commands.add_parser(name, help=text), of_command)
        return parser

    def decorate(work: Callable[[Any], Any]) -> Callable[..., int]:
        @functools.wraps(work)
        def run(args: argparse.Namespace) -> Any:
            options = make_options(config if isinstance(config, type) else config[args.command][1], args)
            check_options(options, type(options))
            logging.basicConfig(format=f"{prog}: %(message)s")
            for name in ("fairseq", "fairseq_etads"):
                logging.getLogger(name).setLevel(logging.WARNING)
            if getattr(options, "user_dir", None):
                from fairseq.utils import import_user_module

                try:
                    import_user_module(options)
                except (ImportError, FileNotFoundError) as error:
                    raise InputError(f"--user-dir {options.user_dir}: cannot be imported: {error}") from None
            return work(options)

        return command(make, *more)(run)

    return decorate


def make_options(config: type, args: argparse.Namespace) -> Any:
    """Return the options that a parser has read as an instance of their dataclass."""
    values = {each.name: getattr(args, each.name) for each in fields(config) if hasattr(args, each.name)}
    values.update({each.name: each.metadata["read"](args) for each in fields(config) if "read" in each.metadata})
    return config(**values)
