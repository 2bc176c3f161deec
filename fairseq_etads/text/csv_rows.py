"""Read the rows of CSV and TSV files, even if their cells contain carriage returns or NUL characters."""

import csv
import re
from collections import Counter
from pathlib import Path
from typing import Iterator, List

from ..platform.errors import InputError
from .cleaning import REPLACED_CONTROLS
from .files import get_display_name

LONGEST_CELL = 1 << 26
"""Maximum number of characters in a cell. Longer cells usually result from an unclosed quotation mark."""

DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
"""Mapping from the separators that can be detected without --delimiter to their names in messages."""

_LONE_CR = re.compile(r"\r(?!\n)")


def parse_delimiter(text: str) -> str:
    """Return the separator specified by --delimiter, or an empty string if the option is not set.

    The values "tab" and "\\\\t" denote a tab.

    Raises:
        InputError: the value of --delimiter cannot be used as a separator.
    """
    delimiter = "\t" if text.lower() in ("tab", "\\t") else text
    if len(delimiter) > 1 or delimiter in ('"', "\r", "\n", "\0", "\ufeff"):
        raise InputError(f'--delimiter "{text}": choose one character, such as ; or | or tab')
    return delimiter


def read_rows(lines: Iterator[str], path: Path, delimiter: str, quotes: bool, counts: Counter) -> Iterator[List[str]]:
    """Yield all rows of a table, including its header. A blank line yields an empty row.

    Args:
        lines: lines of the file, including their line endings.
        path: path of the file, for error messages.
        quotes: whether cells can be enclosed in quotation marks.
        counts: counter to which the numbers of replaced characters are added.

    Raises:
        InputError: the file is not a valid CSV file. The message names the file and the line.
    """
    csv.field_size_limit(LONGEST_CELL)
    how = {"strict": True} if quotes else {"quoting": csv.QUOTE_NONE}
    rows = csv.reader(_replace_unreadable_characters(lines, path, counts), delimiter=delimiter, **how)
    try:
        yield from rows
    except csv.Error as error:
        kind = "TSV" if delimiter == "\t" else "CSV"
        advice = "; --no-quotes treats quotes as ordinary characters" if quotes else ""
        raise InputError(f"{get_display_name(path)}, line {rows.line_num}: not {kind} ({error}){advice}") from None


def _replace_unreadable_characters(lines: Iterator[str], path: Path, counts: Counter) -> Iterator[str]:
    """Replace characters that the csv module cannot read."""
    for number, line in enumerate(lines, 1):
        counts[REPLACED_CONTROLS] += line.count("\0")
        line, found = _LONE_CR.subn(" ", line.replace("\0", " "))
        if found and number == 1:
            reason = "a carriage return inside the header; lines must end in newlines"
            raise InputError(f"{get_display_name(path)}, line 1: {reason}")
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
"""Known pairs of names for the document column and the summary column, some of them from Hugging Face datasets.

If a table contains several of these pairs, the first one in this list is used.
"""
