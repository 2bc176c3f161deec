"""Read the rows of CSV and TSV files, including files with carriage returns or NULs inside cells."""

import csv
import re
from collections import Counter
from pathlib import Path
from typing import Iterator, List

from ..platform.errors import InputError
from .cleaning import REPLACED_CONTROLS
from .files import name_of

LONGEST_CELL = 1 << 26
"""Maximum number of characters in a cell. A longer cell is usually the result of a quote that was never closed."""

DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
"""Separators that can be detected automatically if --delimiter is not given, with their names."""

_LONE_CR = re.compile(r"\r(?!\n)")


def parse_delimiter(text: str) -> str:
    """Return the character specified by --delimiter, or an empty string if the option is not given.

    The values "tab" and "\\\\t" denote a tab.

    Raises:
        InputError: the character cannot be used as a separator.
    """
    delimiter = "\t" if text.lower() in ("tab", "\\t") else text
    if len(delimiter) > 1 or delimiter in ('"', "\r", "\n", "\0", "\ufeff"):
        raise InputError(f'--delimiter "{text}": choose one character, such as ; or | or tab')
    return delimiter


def read_rows(lines: Iterator[str], path: Path, delimiter: str, quotes: bool, counts: Counter) -> Iterator[List[str]]:
    """Yield all rows of a table, including the header. A blank line results in an empty row.

    Args:
        lines: lines of the file, including their line endings.
        path: path of the file, for messages.
        quotes: whether quotation marks can enclose cells.
        counts: counter to which the numbers of replaced characters are added.

    Raises:
        InputError: the file is not valid CSV. The message contains the file and the line.
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
    """Replace characters that the csv module does not accept.

    These are carriage returns inside cells and, before Python 3.11, NULs.
    """
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
"""Known names of the document column and the summary column, such as those in Hugging Face data sets.

If a table contains several of these pairs, the first one is used.
"""
