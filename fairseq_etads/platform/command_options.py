"""Options of commands, declared as the fields of a dataclass. The parser of the command is made from the fields.

    @dataclass
    class Options(DeviceOption):
        folder: Path = argument("FOLDER", "model folder to tune")
        nbest: Optional[int] = option(None, "beam size", bounds=SIZE, needs=("--mert",))
        mert: bool = option(False, "tune weights")

    @options_command("etads-tune", Options, description="Find good decoding options.")
    def main(options: Options) -> None: ...

An option is named like its field and has the field's type. Its values and combinations are checked after parsing, as
described in :mod:`fairseq_etads.platform.option_checks`. Further metadata of a field:

- ``metavar``, ``choices``, ``nargs``, ``const``, ``required``: as in argparse. The metavar depends on the type.
- ``short``: a second name, such as "-o".
- ``flag``: the name of the option, if it differs from the field's.
- ``parse``: a function that converts the text to the value.
- ``group``: the title of a group of options in the help.
- ``add`` and ``read``: functions that add several options to a parser, and read them, as one field.

The help ends with the default value, unless it explains the default itself. torch and fairseq are not imported.
"""

import argparse
import functools
import logging
import os
from dataclasses import Field, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Tuple, Type, Union, get_type_hints

from .console import Parser, command
from .errors import InputError
from .option_checks import SIZE, check_options, format_option_name, get_default, option

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
