"""Pages of the documentation, and the real parsers of commands."""

import argparse
import importlib
import re
from pathlib import Path
from typing import List, Optional

import pytest

from fairseq_etads.commands.etads import find_commands

ROOT = Path(__file__).parents[1]
ENTRIES = {f"etads-{name}": each.module for name, each in find_commands().items() if each.is_installed}
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]


class _ParserFoundError(Exception):
    pass


def parser_of(main) -> argparse.ArgumentParser:
    """Argument parser of a command, caught when the command begins to parse its arguments."""

    def catch(self, *_, **__):
        raise _ParserFoundError(self)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(_ParserFoundError) as found:
        patch.setattr(argparse.ArgumentParser, "parse_known_args", catch)
        main([])
    return found.value.args[0]


def project_commands() -> dict:
    """Map each installed command to its function."""
    return {name: importlib.import_module(module).main for name, module in ENTRIES.items()}


def _filled_in(parser: argparse.ArgumentParser, words: List[str]) -> List[str]:
    """Replace each placeholder for a number or a choice, such as N, by a value."""
    actions = {name: action for action in parser._actions for name in action.option_strings}
    chosen = next((a for a in parser._actions if a.choices and not a.option_strings), None)  # KIND, ARCH
    filled: List[str] = []
    for word in words:
        action = actions.get(filled[-1]) if filled else chosen
        if action is not None and re.fullmatch(r"[A-Z]+", word):
            if action.choices:
                word = str(next(iter(action.choices)))
            elif isinstance(action.type, type) and issubclass(action.type, (int, float)):
                word = "1"
        filled.append(word)
    return filled


def complaint(parser: argparse.ArgumentParser, words: List[str], parse=None) -> Optional[str]:
    """A parser's complaint about the words; None if it accepts them.

    Args:
        parse: called with the words instead of the parser's own method.
    """

    class _RefusedError(Exception):
        pass

    def refuse(self, message):
        raise _RefusedError(message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "error", refuse)
        patch.setattr(type(parser), "error", refuse)
        try:
            (parse or parser.parse_args)(_filled_in(parser, words))
        except _RefusedError as refused:
            return str(refused)
        except SystemExit:  # --help and --version
            return None
    return None
