"""Read rows of CSV and TSV files: separators, quotes, carriage returns and NULs."""

import csv
import re
from collections import Counter
from pathlib import Path
from typing import Iterator, List

from ..platform.errors import InputError
from .cleaning import REPLACED_CONTROLS
from .files import name_of

LONGEST_CELL = 1 << 26
"""Maximum number of characters in a cell; longer cells result from a quote that was never closed."""

DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
"""Separators that are detected if --delimiter is not given, and their names."""

_LONE_CR = re.compile(r"\r(?!\n)")


def parse_delimiter(text: str) -> str:
    """Return the character that --delimiter names, where "tab" and "\\\\t" mean a tab; empty if it is not given.

    Raises:
        InputError: this character cannot separate cells.
    """
    delimiter = "\t" if text.lower() in ("tab", "\\t") else text
    if len(delimiter) > 1 or delimiter in ('"', "\r", "\n", "\0", "\ufeff"):
        raise InputError(f'--delimiter "{text}": choose one character, such as ; or | or tab')
    return delimiter


def read_rows(lines: Iterator[str], path: Path, delimiter: str, quotes: bool, counts: Counter) -> Iterator[List[str]]:
    """Yield all rows, including the header; a blank line is an empty row.

    Args:
        lines: the lines of the file with their ends.
        path: path of the file, for messages.
        quotes: whether a quote encloses a cell.
        counts: a counter to which the number of changed characters is added.

    Raises:
        InputError: the file is not CSV; the message names file and line.
    """
    csv.field_size_limit(LONGEST_CELL)
    how = {"strict": True} if quotes else {"quoting": csv.QUOTE_NONE}
    rows = csv.reader(_cleaned(lines, path, counts), delimiter=delimiter, **how)
    try:
        yield from rows
    except csv.Error as error:
        kind = "TSV" if delimiter == "\t" else "CSV"
        advice = "; --no-quotes treats quotes as ordinary characters" if quotes else ""
        raise InputError(f"{name_of(path)}, line {rows.line_num}: not {kind} ({error}){advice}") from None


def _cleaned(lines: Iterator[str], path: Path, counts: Counter) -> Iterator[str]:
    """Replace characters that the csv module refuses: carriage returns in cells and, before Python 3.11, NULs."""
    for number, line in enumerate(lines, 1):
        counts[REPLACED_CONTROLS] += line.count("\0")
        line, found = _LONE_CR.subn(" ", line.replace("\0", " "))
        if found and number == 1:
            reason = "a carriage return inside the header; lines must end in newlines"
            raise InputError(f"{name_of(path)}, line 1: {reason}")
        counts["carriage returns replaced by spaces"] += found
        yield line


COLUMNS = (
    ("article", "highlights"),
    ("article", "abstract"),
    ("document", "summary"),
    ("dialogue", "summary"),
    ("text", "summary"),
    ("source", "target"),
    ("src", "tgt"),
    ("report", "summary"),
    ("text", "headline"),
    ("document", "title"),
)
"""Pairs of column names, including the names in Hugging Face's data sets; the first pair in a table is used."""
