"""The command ``etads``: list all commands, or run a command by its short name."""

import functools
import importlib
import itertools
import re
import sys
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ..platform.console import USER_ERROR, escape_unprintable, find_closest_word, run_command
from ..version import get_version


class Command(NamedTuple):
    """Module, group and description of a command of this project."""

    module: str
    group: str
    summary: str
    is_installed: bool


GROUPS = ("summarise", "prepare data", "train", "use a trained model", "evaluate", "help")
"""Groups of commands, in the order of the overview."""
_DOCSTRING = re.compile(r'"""The command ``etads(-| )(\w+)`` \(([\w ]+)\): (.*?)\.?(?:""")?$')

OTHER_NAMES = {
    **dict.fromkeys(("generate", "predict", "infer", "translate", "interactive", "decode"), "summarize"),
    **dict.fromkeys(("evaluate", "eval", "score", "test"), "rouge, compare or analyse"),
    **dict.fromkeys(("serve", "server", "web"), "demo"),
    **dict.fromkeys(("preprocess", "binarise", "binarize", "tokenise", "tokenize"), "prepare"),
    **dict.fromkeys(("finetune", "fine-tune", "fit", "resume"), "train"),
    "validate": "likelihood",
}
"""Maps names that other tools give to commands to the commands meant."""


@functools.cache
def find_commands() -> Dict[str, Command]:
    """Return a dictionary that maps short names to commands, in the order of the overview.

    A module is a command if its docstring begins like that of ``commands/rouge.py``, with the group in parentheses. The
    modules are not imported. All commands except those of the form ``etads NAME`` are also installed as ``etads-NAME``.
    """
    found: Dict[str, Command] = {}
    for package in ("fairseq_etads.commands", "etads_preprocess"):
        for folder in importlib.import_module(package).__path__:
            for path in sorted(Path(folder).glob("*.py")):
                with open(path, encoding="utf-8") as file:
                    match = _DOCSTRING.match(file.readline().rstrip())
                if match:
                    joint, name, group, summary = match.groups()
                    found[name] = Command(f"{package}.{path.stem}", group, summary, joint == "-")
    return dict(sorted(found.items(), key=lambda item: (GROUPS.index(item[1].group), item[0])))


def load_main(name: str) -> Any:
    """Import the module of a command, and return its ``main`` function."""
    return importlib.import_module(find_commands()[name].module).main


def format_overview() -> str:
    """Format a list of all commands by group, with one line per command."""
    width = max(map(len, find_commands())) + 2
    lines = ["usage: etads COMMAND [OPTION ...]", ""]
    for group, commands in itertools.groupby(find_commands().items(), key=lambda item: item[1].group):
        lines += [f"{group.capitalize()}:", *(f"  {name:<{width}}{each.summary}" for name, each in commands), ""]
    lines += [
        "etads COMMAND --help explains a command. etads summarize … is the same as etads-summarize …, and likewise for "
        "all other commands.",
        'Try: echo "Vim is an almost compatible version of the UNIX editor Vi." | etads summarize debian',
    ]
    return "\n".join(lines)


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command ``etads``."""
    words: List[str] = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    if not words or words[0] in ("-h", "--help"):
        return run_command("etads", lambda: print(format_overview()))
    name = words[0][len("etads-") :] if words[0].startswith("etads-") else words[0]
    if name == "--version":
        return run_command("etads", lambda: print(f"etads {get_version()}"))
    if name not in find_commands():
        near = OTHER_NAMES.get(name) or find_closest_word(name, find_commands())
        advice = f"; did you mean {near}?" if near else ""
        print(f"etads: no command {escape_unprintable(name)}{advice}", file=sys.stderr)
        print(f"choose from {', '.join(find_commands())}", file=sys.stderr)
        return USER_ERROR
    return load_main(name)(words[1:])
