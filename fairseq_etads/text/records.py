"""Read records from JSON lines, CSV and TSV files, for all commands that read documents or pairs."""

import csv
import itertools
import re
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, List, NamedTuple, Sequence, Tuple, Union

from ..files.inputs import BOM, DECOMPRESSORS, get_display_name, is_valid_utf8, read_beginning
from ..platform.errors import InputError
from .cleaning import REPLACED_CONTROLS
from .documents import BadDocumentError, ExcludedDocumentError, parse_json_record

COLUMNS = (
    ("article", "highlights"),
    ("article", "abstract"),
    ("article_text", "abstract_text"),
    ("document", "summary"),
    ("dialogue", "summary"),
    ("text", "summary"),
    ("source", "target"),
    ("src", "tgt"),
    ("report", "summary"),
    ("text", "headline"),
    ("document", "title"),
    ("article", "references"),
)
"""Known pairs of names for the document column and the summary column, some of them from Hugging Face datasets.

If a table contains several of these pairs, the first one in this list is used.
"""
SOURCE, TARGET = 0, 1
"""Positions of the document and the summary in COLUMNS and OPTIONS."""
OPTIONS = ("--source-column", "--target-column")
SUFFIXES = {"jsonl": "jsonl", "json": "jsonl", "csv": "csv", "tsv": "tsv", "parquet": "parquet", "ndjson": "jsonl"}
"""Mapping from file name suffixes (without the dot) to file formats."""
DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
"""Mapping from the separators that can be detected without --delimiter to their names in messages."""
LONGEST_CELL = 1 << 26
"""Maximum number of characters in a cell. Longer cells usually result from an unclosed quotation mark."""
BLANK = "blank lines between records"
NO_QUOTES = "--no-quotes treats quotes as ordinary characters"
NO_QUOTES_HELP = "treat quotation marks in CSV and TSV files as ordinary characters"

_RECORDS_SEARCHED = 100
"""Maximum number of records to search for known names, if unreadable ones are allowed."""
_LONE_CR = re.compile(r"\r(?!\n)")
_JSON = re.compile(r"""[\s\ufeff]*(\{\s*(["'}]|$)|\[\s*(\{|$))""", re.MULTILINE)
_BY_RECORDS = "jq -c 'map_values([.[]]) | range(first(.[]) | length) as $i | map_values(.[$i])'"


def detect_record_format(path: Path) -> str:
    """Return the format of a file or standard input, one of the values of SUFFIXES, or an empty string if unknown.

    It is determined from the name, ignoring a suffix .gz, .xz, .bz2 or .zst, or else from the first line with text.
    """
    suffixes = [suffix[1:].lower() for suffix in path.suffixes if suffix not in DECOMPRESSORS]
    if suffixes and suffixes[-1] in SUFFIXES:
        return SUFFIXES[suffixes[-1]]
    beginning = read_beginning(path)
    return "parquet" if beginning.startswith("PAR1") else "jsonl" if _JSON.match(beginning) else ""


def choose_columns(
    names: Sequence[str], where: str, asked: Sequence[str] = ("", ""), sides: Sequence[int] = (SOURCE, TARGET)
) -> List[str]:
    """Choose the document column, the summary column, or both.

    Args:
        names: names of all columns.
        where: name of the file, for error messages.
        asked: names that the user has chosen for the two columns, or empty strings.
        sides: columns to return, SOURCE and TARGET. The same document column is chosen with and without summaries.

    Raises:
        InputError: no column is known or has the chosen name, or several columns have this name.
    """
    pairs = [pair for pair in COLUMNS if all(find_columns(name, names) for name in pair)]
    if len(sides) == 1:
        pairs += [pair for pair in COLUMNS if find_columns(pair[sides[0]], names)]
    known = pairs[0] if pairs else ("", "")
    kind = "pair of columns" if len(sides) > 1 else "column"
    has = f"no known {kind} in {where}; it has {', '.join(names) or 'none'}"
    if not any(known[side] or asked[side] for side in sides):
        needed = " and ".join(OPTIONS[side] for side in sides)
        raise InputError(f"{needed} {'are' if len(sides) > 1 else 'is'} needed: {has}")
    chosen = []
    for side in sides:
        found = find_columns(asked[side] or known[side], names)
        if not found:
            wrong = f"{asked[side]}: no such column{has[has.index(' in ') :]}" if asked[side] else f"is needed: {has}"
            raise InputError(f"{OPTIONS[side]} {wrong}")
        if len(found) > 1:
            raise InputError(f"{where}: {len(found)} columns are named {' or '.join(sorted(set(found)))}")
        chosen += found
    return chosen


def find_columns(wanted: str, names: Sequence[str]) -> List[str]:
    """Return all names that are equal to ``wanted``, or else those that are equal apart from case and white space."""
    exact = [name for name in names if name == wanted]
    return exact or [name for name in names if wanted and name.strip().casefold() == wanted.strip().casefold()]


def describe_columns(names: Sequence[str], chosen: Sequence[str], asked: str, where: str) -> str:
    """Return a message that names the document column if others have known names too, or else an empty string."""
    others = [name for source, _ in COLUMNS for name in find_columns(source, names) if name != chosen[SOURCE]]
    if asked or not others:
        return ""
    return f"{where}: the documents are in {chosen[SOURCE]}; --source-column {others[0]} takes {others[0]} instead"


def read_json_lines(lines: Iterable[str], path: Path, counts: Counter) -> Iterator[Tuple[int, str]]:
    """Yield the number and the text of each line with a JSON record. Blank lines are counted in ``counts``.

    Raises:
        InputError: the file contains a JSON array, indented JSON or a table by columns. The message has the remedy.
    """
    numbered = _skip_blank_lines(lines, counts)
    for number, line in itertools.islice(numbered, 1):
        text = line.lstrip(BOM).strip()
        following = list(itertools.islice(numbered, 1)) if (by_columns := _is_table_by_columns(text)) else []
        jq = ""
        if text.startswith("[") or (text.startswith("{") and text.endswith(("{", "[", ",", ":"))):
            jq = "jq -c '.[]'" if text.startswith("[") else "jq -c ."
        elif by_columns and not following:
            jq = _BY_RECORDS
        if jq:
            what = "a table by columns" if by_columns else "not JSON lines"
            where = f"{get_display_name(path)}, line {number}"
            raise InputError(f"{where}: {what}; each record must be one line: {jq} FILE makes it so")
        yield number, line
        yield from following
    yield from numbered


def _skip_blank_lines(lines: Iterable[str], counts: Counter) -> Iterator[Tuple[int, str]]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, line
        else:
            counts[BLANK] += 1


def _is_table_by_columns(line: str) -> bool:
    """Return whether a record consists of several lists (or objects, as pandas writes them) of one length above 1."""
    try:
        values = list(parse_json_record(line).values())
    except BadDocumentError:
        return False
    sizes = {len(value) if isinstance(value, (list, dict)) else 0 for value in values}
    return len(values) > 1 and len(sizes) == 1 and sizes.pop() > 1


def choose_json_columns(
    lines: Iterator[Tuple[int, str]], path: Path, choose: Callable[[List[str]], List[str]], skip_bad: bool
) -> Tuple[List[str], List[Tuple[int, str]]]:
    """Choose the columns of JSON lines from the first record or, with ``skip_bad``, from the first suitable record.

    Returns the columns, and the lines that have been read. Both are empty if there is no record.

    Raises:
        InputError: the first record has no suitable columns. With ``skip_bad``, none of the first 100 has.
    """
    read: List[Tuple[int, str]] = []
    first = None
    for number, line in itertools.islice(lines, _RECORDS_SEARCHED if skip_bad else 1):
        read.append((number, line))
        try:
            if skip_bad and not is_valid_utf8(line):
                raise BadDocumentError("not UTF-8")
            return choose(list(parse_json_record(line))), read
        except BadDocumentError as error:
            first = first or InputError(f"{get_display_name(path)}, line {number}: {error}")
        except InputError as error:
            first = first or error
    if first:
        raise first
    return [], []


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
        advice = f"; {NO_QUOTES}" if quotes else ""
        raise InputError(f"{get_display_name(path)}, line {rows.line_num}: not {kind} ({error}){advice}") from None


def _replace_unreadable_characters(lines: Iterator[str], path: Path, counts: Counter) -> Iterator[str]:
    """Replace characters that the csv module cannot read."""
    for number, line in enumerate(lines, 1):
        line = line[line.startswith(BOM) :]  # if several files were concatenated, each may begin with a mark
        counts[REPLACED_CONTROLS] += line.count("\0")
        line, found = _LONE_CR.subn(" ", line.replace("\0", " "))
        if found and number == 1:
            reason = "a carriage return inside the header; lines must end in newlines"
            raise InputError(f"{get_display_name(path)}, line 1: {reason}")
        counts["carriage returns replaced by spaces"] += found
        yield line


Row = Union[List[str], BadDocumentError]
"""Cells of a row, an empty list for a blank line, or the reason why the row is no record."""


class Table(NamedTuple):
    """A CSV or TSV file whose header has been read.

    Attributes:
        names: names of the columns.
        columns: names of the columns that have been chosen.
        delimiter: separator of the cells.
        rows: iterator over the number of each row after the header, counted from 1 for the first line, and the row.
    """

    names: List[str]
    columns: List[str]
    delimiter: str
    rows: Iterator[Tuple[int, Row]]


def open_table(
    lines: Iterable[str],
    path: Path,
    choose: Callable[[List[str]], List[str]],
    counts: Counter,
    warn: Callable[[str], Any],
    tabs: bool,
    delimiter: str = "",
    quotes: bool = True,
) -> Table:
    """Read the header of a CSV or TSV file, and choose its separator and its columns.

    Args:
        lines: lines of the file, including their line endings. They are read once.
        path: path of the file, for messages.
        choose: function that chooses columns from the names in the header, and raises InputError if there are none.
        counts: counter to which the numbers of blank lines and replaced characters are added.
        warn: function that is called with a message about another separator, and about quotes that hold whole rows.
        tabs: whether tabs are the usual separator, as in TSV, rather than commas.
        delimiter: separator of the cells, or an empty string to try those in DELIMITERS.
        quotes: whether cells can be enclosed in quotation marks.

    Raises:
        InputError: there are no suitable columns with any separator. The error is that of the most probable separator.
    """
    head: List[str] = []
    lines = iter(lines)
    usual = "\t" if tabs else ","
    failures: List[Tuple[int, InputError]] = []
    for candidate in [delimiter] if delimiter else sorted(DELIMITERS, key=lambda known: known != usual):
        names: List[str] = []
        try:
            rows = read_rows(itertools.chain(head[:], _record(lines, head)), path, candidate, quotes, Counter())
            names = next(filter(None, rows), [])
            columns = choose(names)
        except InputError as error:
            failures.append((-len(names), error))
            continue
        if candidate != (delimiter or usual):
            warn(f"{get_display_name(path)}: cells are separated by {DELIMITERS[candidate]}")
        numbered = enumerate(read_rows(itertools.chain(head, lines), path, candidate, quotes, counts), 1)
        header = next(number for number, row in numbered if row)
        counts[BLANK] += header - 1
        return Table(names, columns, candidate, _check_rows(numbered, names, path, candidate, quotes, warn))
    raise min(failures, key=lambda failure: failure[0])[1]


def _record(lines: Iterator[str], read: List[str]) -> Iterator[str]:
    for line in lines:
        read.append(line)
        yield line


def _check_rows(
    rows: Iterable[Tuple[int, List[str]]],
    names: List[str],
    path: Path,
    delimiter: str,
    quotes: bool,
    warn: Callable[[str], Any],
) -> Iterator[Tuple[int, Row]]:
    """Yield each row, or the reason why it is no record. The first quoted cell that holds whole rows is warned of."""
    checked: Row
    for number, row in rows:
        checked = row
        if row and len(row) != len(names):
            checked = BadDocumentError(f"{len(row)} cells, but the header has {len(names)}")
        elif row == names:  # if several tables were concatenated, the header occurs several times
            checked = ExcludedDocumentError("the header again")
        elif quotes:
            for place, cell in enumerate(row):
                if "\n" in cell and _holds_rows(cell, place, len(names), delimiter):
                    quotes = False  # one warning is enough
                    where = f"{get_display_name(path)}, record {number}"
                    name = DELIMITERS.get(delimiter, delimiter)
                    warn(
                        f"{where}: a quoted cell holds line breaks and {name}, as if it were several rows; {NO_QUOTES}"
                    )
        yield number, checked


def _holds_rows(cell: str, place: int, width: int, delimiter: str) -> bool:
    """Return whether the separators in the lines of a cell are those of the end of a row, rows, and a beginning."""
    if cell.count(delimiter) == cell.count(f"{delimiter} "):  # commas in prose
        return False
    found = [line.count(delimiter) for line in cell.split("\n") if line.strip()]
    return width > 1 and len(found) > 1 and found == [width - 1 - place, *[width - 1] * (len(found) - 2), place]
