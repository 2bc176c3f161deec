#!/usr/bin/env python3
"""Draw random sentences of the project, so that people can judge how naturally they read.

  scripts/sample_sentences.py [--seed N] [--number 60] [--names]

Docstrings, pages, help texts and comments each provide a quarter of the sample. With --names, the script draws names of
modules, classes, functions and methods instead. For each sentence or name, it prints a number, the kind, the place and
the text. The same seed results in the same sample until the files change.
"""

import argparse
import ast
import io
import random
import re
import tokenize
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Tuple

ROOT = Path(__file__).resolve().parents[1]
CODE = ("fairseq_etads", "preprocess", "scripts", "benchmarks")
PAGES = ("README.md", "CONTRIBUTING.md", "benchmarks/README.md", "docs/*.md")
FEWEST_WORDS = 4
"""Minimum number of words in a sentence to judge, not counting code and links."""

_ENDS = re.compile(r"(?<=[.!?])(?<!\bal\.)(?<!e\.g\.)(?<!i\.e\.)\s+(?=[A-Z`*(\[\"])")
_NO_PROSE = re.compile(
    r"^```.*?^```$|^<!-- scripts/.*?^<!-- end|<!--.*?-->|^ {4}[^\n]*$|^\|[^\n]*$|^#[^\n]*$|!\[[^\]]*\]\([^)]*\)",
    re.DOTALL | re.MULTILINE,
)
_NO_WORDS = re.compile(r"``?[^`]+``?|\[[^\]]*\]\([^)]*\)")
_WORD = re.compile(r"[^\W\d_]{2,}")
_LIST_ITEM = re.compile(
    r"^ {0,3}(?:[-*]|\d+\.) |^(?:Args|Attributes|Returns|Yields|Raises):$|^ {4}(?=\*{0,2}\w+(?:, \*{0,2}\w+)*: )",
    re.MULTILINE,
)
"""Start of an item in a list, of a docstring's section, or of an entry in a section."""


class TextSample(NamedTuple):
    """A sentence or name, with its kind, its place (FILE:LINE) and its text."""

    kind: str
    place: str
    text: str


def split_into_sentences(text: str) -> Iterator[str]:
    """Split prose into sentences and normalise spaces. Sentences also end at empty lines and before list items."""
    for block in re.split(r"\n\s*\n", _LIST_ITEM.sub("\n\n", text)):
        for sentence in _ENDS.split(" ".join(block.split())):
            if len(_WORD.findall(_NO_WORDS.sub("", sentence))) >= FEWEST_WORDS:
                yield sentence


def list_modules() -> List[Path]:
    """Return the Python files from which sentences are drawn."""
    return sorted(path for folder in CODE for path in (ROOT / folder).rglob("*.py"))


def _get_relative_path(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _iterate_help_texts(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the help texts in a module.

    These are strings passed as ``help=`` or as the value of a key "help", and the descriptions and epilogs of parsers.
    """
    for node in ast.walk(tree):
        values = []
        if isinstance(node, ast.Call):
            values = [word.value for word in node.keywords if word.arg in ("help", "description", "epilog")]
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values)
            values = [value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "help"]
        for value in values:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value


def _iterate_comments(text: str) -> Iterator[Tuple[int, str]]:
    """Yield the line and the text of each comment, with consecutive comment lines joined."""
    begun, last = 0, (0, 0)
    parts: List[str] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or re.match(r"#(?:!| ?(?:type|noqa|fmt|ruff)\b)", token.string):
            continue
        line, column = token.start
        alone = not token.line[:column].strip()
        if not (alone and last == (line - 1, column)):
            if parts:
                yield begun, " ".join(parts)
            begun, parts = line, []
        parts.append(token.string.lstrip("# "))
        last = (line, column) if alone else (0, 0)
    if parts:
        yield begun, " ".join(parts)


def iterate_module_sentences(path: Path) -> Iterator[TextSample]:
    """Yield the sentences in the docstrings, help texts and comments of a module."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            line = getattr(node, "lineno", 1)
            for sentence in split_into_sentences(ast.get_docstring(node) or ""):
                yield TextSample("docstring", f"{_get_relative_path(path)}:{line}", sentence)
    for value in _iterate_help_texts(tree):
        for sentence in split_into_sentences(value.value):
            yield TextSample("help", f"{_get_relative_path(path)}:{value.lineno}", sentence)
    for line, comment in _iterate_comments(text):
        for sentence in split_into_sentences(comment):
            yield TextSample("comment", f"{_get_relative_path(path)}:{line}", sentence)


def iterate_page_sentences(path: Path) -> Iterator[TextSample]:
    """Yield the sentences of a page, without code, tables, headings and pictures."""
    text = path.read_text(encoding="utf-8")
    words = [(word, number) for number, line in enumerate(text.splitlines(), 1) for word in line.split()]
    places: Dict[str, List[int]] = {}
    for at, (word, _) in enumerate(words):
        places.setdefault(word, []).append(at)
    for sentence in split_into_sentences(_NO_PROSE.sub("", text)):
        parts = sentence.split()
        (at, *_) = [at for at in places[parts[0]] if [word for word, _ in words[at : at + len(parts)]] == parts] or [0]
        yield TextSample("page", f"{_get_relative_path(path)}:{words[at][1]}", sentence)


def iterate_names() -> Iterator[TextSample]:
    """Yield the names of modules, classes, functions and methods, except names that Python prescribes."""
    for path in list_modules():
        if path.stem != "__init__":
            yield TextSample("module", f"{_get_relative_path(path)}:1", path.stem)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("__"):
                kind = "class" if isinstance(node, ast.ClassDef) else "function"
                yield TextSample(kind, f"{_get_relative_path(path)}:{node.lineno}", node.name)


def collect_sentences() -> Dict[str, List[TextSample]]:
    """Collect the sentences of all files for each kind."""
    found: Dict[str, List[TextSample]] = {kind: [] for kind in ("docstring", "page", "help", "comment")}
    pieces = [piece for path in list_modules() for piece in iterate_module_sentences(path)]
    pieces += [
        piece for pattern in PAGES for path in sorted(ROOT.glob(pattern)) for piece in iterate_page_sentences(path)
    ]
    for piece in pieces:
        found[piece.kind].append(piece)
    return found


def draw_sample(seed: int, number: int, of_names: bool = False) -> List[TextSample]:
    """Draw ``number`` pieces without repetition, with about the same number for each kind."""
    draw = random.Random(seed)
    if of_names:
        return draw.sample(list(iterate_names()), number)
    kinds = collect_sentences()
    shares = [number // len(kinds) + (rank < number % len(kinds)) for rank in range(len(kinds))]
    return [piece for share, found in zip(shares, kinds.values()) for piece in draw.sample(found, share)]


def main() -> None:
    """Print the sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", metavar="N", type=int, default=1, help="random seed of the sample (default: 1)")
    parser.add_argument(
        "--number", metavar="N", type=int, help="number of sentences (default: 60) or names (default: 20) to draw"
    )
    parser.add_argument("--names", action="store_true", help="draw names instead of sentences")
    args = parser.parse_args()
    number = args.number or (20 if args.names else 60)
    for rank, piece in enumerate(draw_sample(args.seed, number, args.names), 1):
        print(f"{rank:3} {piece.kind:9} {piece.place}\n    {piece.text}")


if __name__ == "__main__":
    main()
