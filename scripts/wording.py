#!/usr/bin/env python3
"""Find wording that slows readers down in the docstrings, comments and messages of Python files and shell scripts.

  scripts/wording.py [FILE ...]

Without arguments, the script checks all such files that git tracks. It prints a line for each hit and exits with 1 if
there are any. Names between backticks, and names that look like code, are not checked. The script requires only Python.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import Any, Iterable, Iterator, List, NamedTuple, Tuple

ROOT = Path(__file__).resolve().parents[1]
PATTERNS = (Path(__file__).name, "test_wording.py")
"""Files that are not checked because they contain the patterns."""
OPENING = re.compile(r"(What|How|Which|Those|That|As|Who|Whose|Where|Why)\b")
"""Words that begin a clause, whereas a docstring should begin with a verb phrase or a noun phrase."""
PHRASES = {
    r"[Tt]hose of|[Tt]hat of": "repeat the noun, or use a possessive",
    r"[Bb]eside": "with, or next to",
    r"(?:go|goes|going|went|gone) on": "continue",
    r"anew": "again",
    r"so many": "the number, or N",
    r"whose": "with, or two sentences",
    r"of which|of whom": "two sentences",
    r"hands? (?:\w+ )?(?:to|on|over|back)|handed (?:to|on|over|back)": "pass, or return",
    r"(?<!such )[Aa]s fairseq's": "fairseq's ... with ...",
    r"rooms?|floors|houses?": "package, layer or project",
    r"likeliest|likelier": "most probable, more probable",
    r"at hand": "available",
    r"(?:take|takes|taking|took) turns": "alternate",
    r"end(?:s|ed)? without words|in words what": "a message, or explain",
    r"the other way round": "or vice versa",
}
"""Mapping from patterns to advice."""
SPELLINGS = {
    r"learnt": "learned",
    r"abstracters?": "abstractor",
    r"center(?:s|ed)?": "centre",
    r"colors?|colored": "colour",
    r"behaviors?": "behaviour",
    r"gray": "grey",
    r"labeled": "labelled",
    r"(\w*(?:summar|token|normal|initial|optim|quant|penal|recogn|serial|organ|minim|maxim|factor|emphas|util|random))"
    r"iz(?:e[sdr]?|ers|ing|ations?|able)": "-ise, as elsewhere",
}
"""Mapping from other spellings to the spellings that the project uses in prose."""
CODE = re.compile(
    r"``.*?``|`[^`]*`|:\w+:|https?://\S+|\{[^}]*\}"  # literals, links and fields of formatted strings
    r"|(?<!\w)--?[A-Za-z][\w-]*(?: summarization)?|etads (?:summarize|export)"  # options, commands
    r"|\S*\w[_/=.(]\w\S*|\w+\(|<[^>]*>|\b\w*[a-z][A-Z]\w*|\w+(?:-\w+)+"  # names, paths, tags, compounds
    r"|\b\w+(?:, \w+)*:(?= )|\"[A-Z][^\"]{20,}\""  # arguments in a docstring, titles
)
NOT_PROSE = re.compile(
    r"outside lower center|attention beside these|pipeline_tag: summarization"  # matplotlib, a checkpoint, the Hub
    r"|no room in any split|[^ ]*\|[^ ]*"  # report.json, regular expressions
)
"""Pattern for strings that contain a few words but are only read by programs, such as regular expressions."""
WORDS = re.compile(r"[A-Za-z]{2,}")
ADVICE = {**PHRASES, **SPELLINGS}
ANY = re.compile(rf"\b(?:{'|'.join(ADVICE)})\b")
"""Combination of all patterns, which quickly shows whether a text contains any hit. Most texts contain none."""


class Passage(NamedTuple):
    """A docstring, comment or message, with the line on which it begins."""

    line: int
    text: str
    docstring: bool = False


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def iterate_docstrings(nodes: Iterable[ast.AST]) -> Iterator[ast.Constant]:
    """Yield the string that documents each module, class, function or constant among the nodes."""
    for node in nodes:
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if isinstance(statement, ast.Expr) and _is_string(statement.value):
                yield statement.value


def extract_python_prose(source: str, messages: bool = True) -> List[Passage]:
    """Collect the prose in a Python file.

    Args:
        messages: whether to include strings of three words or more, such as help texts and errors.
    """
    nodes: List[Any] = list(ast.walk(ast.parse(source)))
    documenting = {id(node): node for node in iterate_docstrings(nodes)}
    found = [Passage(node.lineno, " ".join(node.value.split()), True) for node in documenting.values()]
    if messages:
        formatted = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in nodes:
            if isinstance(node, ast.JoinedStr):
                text = "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            elif _is_string(node) and id(node) not in documenting and id(node) not in formatted:
                text = node.value
            else:
                continue
            if len(WORDS.findall(text)) > 2 and not NOT_PROSE.fullmatch(text):
                found.append(Passage(node.lineno, " ".join(text.split())))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            found.append(Passage(token.start[0], token.string.lstrip("#! ")))
    return sorted(found)


def extract_shell_prose(source: str) -> List[Passage]:
    """Collect the comments and the printed strings of a shell script."""
    found = []
    for number, line in enumerate(source.splitlines(), 1):
        comment = re.match(r"\s*#(?!!| shellcheck)\s?(.*)", line)
        if comment:
            found.append(Passage(number, comment[1]))
        elif re.search(r"\b(?:die|echo|say)\b", line):
            found += [
                Passage(number, string) for string in re.findall(r'"([^"]+)"', line) if len(WORDS.findall(string)) > 2
            ]
    return found


def find_wording_patterns(text: Passage) -> Iterator[Tuple[str, str]]:
    """Yield each pattern that occurs in a text, with advice on better wording."""
    if text.docstring and OPENING.match(text.text):
        yield OPENING.match(text.text)[0], "begin with a verb phrase or a noun phrase"
    prose = CODE.sub(" ", text.text)
    if not ANY.search(prose):
        return
    for pattern, advice in ADVICE.items():
        for hit in re.finditer(rf"\b(?:{pattern})\b", prose):
            yield hit[0], advice


def iterate_wording_hits(paths: Iterable[Path]) -> Iterator[str]:
    """Yield a line for each hit in the files. Strings in tests are data and are not checked."""
    for path in paths:
        name = path.relative_to(ROOT) if ROOT in path.parents else path
        source = path.read_text(encoding="utf-8")
        is_shell = path.suffix == ".sh"
        for text in (
            extract_shell_prose(source)
            if is_shell
            else extract_python_prose(source, messages="tests" not in name.parts)
        ):
            for words, advice in find_wording_patterns(text):
                yield f'{name}:{text.line}: "{words}" ({advice}): {text.text[:90]}'


def list_tracked_files() -> List[Path]:
    """Return all Python files and shell scripts of the project."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "*.py", "*.sh"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", metavar="FILE", nargs="*", type=Path, help="files to check (default: all)")
    paths = [path.resolve() for path in parser.parse_args().files] or list_tracked_files()
    found = list(iterate_wording_hits(path for path in paths if path.name not in PATTERNS and path.is_file()))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
