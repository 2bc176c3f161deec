"""Command lines in the documentation, and the real parsers that read them."""

import argparse
import ast
import importlib
import itertools
import re
import shlex
from pathlib import Path
from typing import Iterator, List, NamedTuple, Optional

import pytest

from fairseq_etads.commands.etads import find_commands

ROOT = Path(__file__).parents[1]
ENTRIES = {f"etads-{name}": each.module for name, each in find_commands().items() if each.is_installed}
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
SCRIPTS = sorted(ROOT.glob("scripts/**/*.sh"))
MODULES = sorted([*ROOT.glob("fairseq_etads/**/*.py"), *ROOT.glob("preprocess/**/*.py"), *ROOT.glob("benchmarks/*.py")])

_FENCED = re.compile(r"^```.*?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"(?<=\n\n)(?:^ {4}.*\n)+", re.MULTILINE)
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_COMMAND = re.compile(r"(?:scripts/|etads-|fairseq-|pip |git )")
_OURS = re.compile(r"(?:scripts/[\w/]+\.(?:sh|py)|etads-[a-z]+|fairseq-[a-z]+(?:-[a-z]+)*)(?= |$)")


def blocks(text: str) -> List[str]:
    """Code blocks of a page, with continued lines joined."""
    found = [*_FENCED.findall(text), *_INDENTED.findall(_FENCED.sub("", text))]
    return [re.sub(r"\\\n\s*", " ", block) for block in found]


def spans(text: str) -> List[str]:
    """Code between backticks, outside of code blocks."""
    return [" ".join(code.split()) for _, code in _SPAN.findall(_FENCED.sub("", text))]


def commands_of(text: str) -> List[str]:
    """Commands of a page: lines of its shell blocks, and code spans that call a command of the project."""
    shell = [block for block in blocks(text) if re.search(rf"^\s*{_COMMAND.pattern}", block, re.MULTILINE)]
    lines = [re.sub(r"(^|\s)#.*", "", line).strip() for block in shell for line in block.splitlines()]
    lines += [code for code in spans(text) if re.match(r"(?:etads-|scripts/)\S+ ", code)]
    return [part for line in lines if line for part in re.split(r" && | \| ", line)]


def header(script: Path) -> str:
    """The comment at the head of a script, with continued lines joined."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), script.read_text(encoding="utf-8").splitlines()[1:])
    return re.sub(r"\\\n\s*", " ", "\n".join(line[2:] for line in lines))


class Documented(NamedTuple):
    """A command line, and its file."""

    where: str
    line: str


def _without_remark(line: str) -> str:
    """Drop a remark far to the right of a command, but keep further arguments."""
    return re.split(r"\s{3,}(?!--|\[|\d)", line)[0]


def in_pages() -> Iterator[Documented]:
    """Commands in README.md, docs/, CONTRIBUTING.md and the sample corpus's page."""
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "preprocess" / "sample" / "README.md"]:
        for command in commands_of(page.read_text(encoding="utf-8")):
            yield Documented(str(page.relative_to(ROOT)), _without_remark(command))


def in_lines(where: str, text: str) -> Iterator[Documented]:
    """Commands in lines of plain text: a command with arguments begins the line or follows a colon."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        match = re.search(rf"(?:^\s+|:\s\s)({_OURS.pattern}(?: +[a-z]+)?(?: +(?:-|\[|\S*[/.]).*)?)$", line)
        if match:
            yield Documented(where, _without_remark(match[1]))


def in_scripts() -> Iterator[Documented]:
    """Commands in the headers of scripts, which serve as their help."""
    for script in SCRIPTS:
        yield from in_lines(str(script.relative_to(ROOT)), header(script))


def texts_of(module: Path) -> Iterator[str]:
    """Texts in a module's code; computed parts are replaced by {}."""
    inside = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            inside.update(map(id, node.values))
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


def in_modules() -> Iterator[Documented]:
    """Commands on separate lines in the texts of Python modules: examples of --help, docstrings."""
    for module in MODULES:
        for text in texts_of(module):
            yield from in_lines(str(module.relative_to(ROOT)), text)


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


def variants(line: str) -> Iterator[List[str]]:
    """A documented line as words to parse: without the parts in [brackets], and with them.

    ``[options]`` and similar placeholders are left out; ``soft|switch`` becomes the first choice.
    """
    optional = re.compile(r"\[([^][]*)\]")
    named = re.compile(r"^(?:\.\.\.|…|(?:-- )?options.*)$")
    without, with_all = line, line
    while optional.search(with_all):
        without = optional.sub("", without)
        with_all = optional.sub(lambda match: "" if named.match(match[1].strip()) else match[1], with_all)
    for text in dict.fromkeys((without, with_all)):
        words = [re.sub(r"^([\w-]+)(\|[\w-]+)+$", r"\1", word) for word in shlex.split(text)]
        # dots after an option stand for its value, others for more arguments
        yield [w for before, w in zip(["", *words], words) if w not in ("...", "…") or before.startswith("--")]


def is_incomplete(line: str) -> bool:
    """Tell whether a documented line omits arguments that the command needs."""
    return re.search(r"(?<![\w\[])(?:\.\.\.|…)(?!\w)", line) is not None


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
