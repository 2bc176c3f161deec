"""Read documents for summarisation from lines of text, JSON lines, CSV, folders or files.

This module also defines the options of ``etads-summarize`` for the format of its input.
"""

import argparse
import contextlib
import itertools
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..platform.console import print_message
from ..platform.errors import InputError
from .compression import DECOMPRESSORS
from .csv_rows import COLUMNS, DELIMITERS, read_rows
from .documents import BadDocumentError, parse_json_record
from .files import ESCAPE_INVALID, STANDARD_INPUT, get_display_name, is_valid_utf8, read_lines

FORMATS = ("lines", "jsonl", "csv", "folder", "file")
SOURCE_COLUMNS = tuple(dict.fromkeys(source for source, _ in COLUMNS))
"""Names of fields that may contain the document, in order of priority. ``etads-corpus table`` uses the same names."""

_RECORDS_SEARCHED = 100
"""Number of JSON records to search for a field with a known name."""


class InputDocument(NamedTuple):
    """A document to summarise.

    Attributes:
        name: name of the file, or id or number of the record. :func:`read_documents` describes the names of documents
            from several inputs.
        text: raw text, with one paragraph per line.
        problem: reason why the document cannot be read, or an empty string if it can be read.
    """

    name: str
    text: str
    problem: str = ""


def choose_input_format(files: Sequence[str], given: Optional[str]) -> str:
    """Return the format of the input files.

    If the user has not specified a format, it is guessed from the names and the content of the files.

    Raises:
        InputError: a file is missing, the files have different formats, or a file does not have the specified format.
    """
    paths = [Path(name) for name in files]
    for path in paths:
        if str(path) != STANDARD_INPUT and not path.exists():
            raise InputError(f"FILE {path}: no such file or folder")
        if path.is_dir() and given not in (None, "folder"):
            raise InputError(f"FILE {path}: is a folder, but --input-format is {given}")
        if given == "folder" and not path.is_dir():
            raise InputError(f"FILE {path}: is not a folder, but --input-format is folder")
    if given:
        return given
    return _detect_standard_input_format() if list(map(str, paths)) == [STANDARD_INPUT] else guess_input_format(paths)


def add_input_format_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that specify the format of the input: --input-format, --lines and --source-column."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--input-format",
        choices=FORMATS,
        help="format of the input, which determines what counts as one document: each line (lines), each record "
        "(jsonl, csv), each file in a folder (folder) or each input file (file) (default: detected from the file "
        "names and the first line; a text file is one document, and standard input contains one document per line)",
    )
    group.add_argument(
        "--lines",
        dest="input_format",
        action="store_const",
        const="lines",
        help="treat each line as a document; short for --input-format lines",
    )
    parser.add_argument(
        "--source-column",
        metavar="NAME",
        default="",
        help="name of the field that contains the document in JSON lines or CSV input (default: article, document, "
        "text or another common name)",
    )


def describe_document_unit(kind: str, files: Sequence[str], given: Optional[str]) -> str:
    """Return a message that states what is treated as one document, and which option changes this.

    Args:
        kind: format of the input files, one of FORMATS.
        files: names of the input files.
        given: format that the user has specified, or None.
    """
    said = f"every {get_document_unit_name(kind)} is a document"
    if given or kind not in ("lines", "file"):
        return said
    if kind == "lines":
        return f"{said}; --input-format file reads a whole file as one document"
    if len(files) == 1 and _has_multiple_lines(Path(files[0])):
        said = f"{files[0]} is one document with all its lines (up to version 0.1, every line was one)"
    return f"{said}; --lines reads every line as one document"


def _has_multiple_lines(path: Path) -> bool:
    """Return whether at least two lines of a file contain text."""
    with contextlib.suppress(InputError):  # the reader will report unreadable files with a better message
        texts = (line for line in read_lines(path, "replace") if line.strip())
        return len(list(itertools.islice(texts, 2))) > 1
    return False


def _detect_standard_input_format() -> str:
    if sys.stdin is not None and sys.stdin.isatty():
        print("== reading from the terminal, one document per line; Ctrl-D ends it", file=sys.stderr)
    return _detect_file_format(Path(STANDARD_INPUT)) or "lines"


def guess_input_format(paths: Sequence[Path], text: str = "file") -> str:
    """Guess the format of the input files from their names and first lines.

    Args:
        text: format to return for plain text files.

    Raises:
        InputError: the input files have different formats.
    """
    found = {_detect_file_format(path) or text for path in paths}
    if len(found) > 1:
        raise InputError(
            "folders, JSON lines, CSV and text files cannot be mixed; give inputs of one format (--input-format)"
        )
    (kind,) = found
    return kind


def _detect_file_format(path: Path) -> str:
    """Return the format of an input file or of standard input, or an empty string for plain text."""
    if str(path) == STANDARD_INPUT:  # it can be read only once
        if sys.stdin is None or sys.stdin.isatty():
            return ""
        stream: Any = sys.stdin.buffer
        return "jsonl" if re.match(rb"[\s\xef\xbb\xbf]*(\{|\[\s*(\{|$))", stream.peek(1)) else ""
    if path.is_dir():
        return "folder"
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix not in DECOMPRESSORS]
    if suffixes[-1:] in ([".jsonl"], [".json"], [".ndjson"]):
        return "jsonl"
    if suffixes[-1:] in ([".csv"], [".tsv"]):
        return "csv"
    first = next((line for line in read_lines(path, "replace") if line.strip()), "")
    try:
        return "jsonl" if isinstance(json.loads(first), dict) else ""
    except (ValueError, RecursionError):
        return ""


def read_documents(paths: Sequence[Path], kind: str, column: str, fallback: str) -> Iterator[InputDocument]:
    """Yield all documents in the input files, in order.

    If there are several inputs, the names of documents would be ambiguous. For this reason, file names then include
    the folder, and the numbers of lines and records follow the name of the input (FILE:NUMBER). The ids of records are
    not changed.

    Args:
        kind: format of the input files, one of FORMATS.
        column: name of the field that contains the document in JSON lines and CSV. If empty, the first known name is
            used.
        fallback: treatment of lines that are not valid UTF-8 (see :func:`read_lines`). With ESCAPE_INVALID, unreadable
            documents are returned with a ``problem``.

    Raises:
        InputError: one of the input files cannot be read.
    """
    if column and kind not in ("jsonl", "csv"):
        raise InputError(
            f"--source-column {column}: applies only to JSON lines and CSV, but here every "
            f"{get_document_unit_name(kind)} is a document"
        )
    for path in paths:
        prefix = f"{get_display_name(path)}:" if len(paths) > 1 else ""
        if kind == "lines":
            for number, line in enumerate(read_lines(path, fallback), 1):
                name, where = f"{prefix}{number}", f"{get_display_name(path)}, line {number}"
                yield _check_utf8(InputDocument(name, line), where)
        elif kind == "jsonl":
            yield from _read_json_documents(path, column, fallback, prefix)
        elif kind == "csv":
            yield from _read_csv_documents(path, column, fallback, prefix)
        else:
            for file in _list_files(path) if kind == "folder" else [path]:
                is_name_enough = kind == "folder" and len(paths) == 1
                yield _read_file_as_document(file, file.name if is_name_enough else str(file), fallback)


def get_document_unit_name(kind: str) -> str:
    """Return the name of the unit that is read as one document in a format, such as "line" or "record"."""
    return {"lines": "line", "jsonl": "record", "csv": "row"}.get(kind, "file")


def _detect_delimiter(path: Path, header: str) -> str:
    """Detect the cell separator of a table from its name, also with a suffix of compression, or its header line."""
    return "\t" if ".tsv" in str(path).lower()[-8:] else max(DELIMITERS, key=header.count)


def read_column_names(path: Path, kind: str) -> List[str]:
    """Return the field names of the first record in a JSON lines file, or the column names of a CSV file.

    The column names of a CSV file are converted to lower case.
    """
    for number, line in enumerate(read_lines(path, ends=True), 1):
        if not line.strip():
            continue
        if kind == "csv":
            row = next(read_rows(iter([line]), path, _detect_delimiter(path, line), quotes=True, counts=Counter()), [])
            return [name.strip().lower() for name in row]
        try:
            return list(parse_json_record(line))
        except BadDocumentError as error:
            raise InputError(f"{get_display_name(path)}, line {number}: {error}") from None
    raise InputError(f"{get_display_name(path)}: empty")


def _check_utf8(document: InputDocument, where: str, other_name: Optional[str] = None) -> InputDocument:
    """Check whether a document that was read with ESCAPE_INVALID is valid UTF-8."""
    is_named = other_name is None or is_valid_utf8(document.name)
    if is_named and is_valid_utf8(document.text):
        return document
    return InputDocument(document.name if is_named else str(other_name), "", f"{where}: not UTF-8")


def _read_file_as_document(file: Path, name: str, fallback: str) -> InputDocument:
    try:
        return _check_utf8(InputDocument(name, "\n".join(read_lines(file, fallback))), str(file))
    except InputError as error:
        if fallback != ESCAPE_INVALID:
            raise
        return InputDocument(name, "", str(error))


def _list_files(folder: Path) -> List[Path]:
    """Return the files in a folder except hidden files, sorted by name. Raises InputError if there are none."""
    entries = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    files = [path for path in entries if path.is_file()]
    if not files:
        raise InputError(f"{folder}: contains no file")
    if len(files) < len(entries):
        print_message(f"{folder}: {len(entries) - len(files)} subfolders are ignored")
    return files


def _read_json_documents(path: Path, column: str, fallback: str, prefix: str) -> Iterator[InputDocument]:
    lines: Iterator[Tuple[int, str]] = (
        numbered for numbered in enumerate(read_lines(path, fallback), 1) if numbered[1].strip()
    )
    if not column:
        column, read = _find_json_source_field(lines, path)
        lines = itertools.chain(read, lines)
    for number, line in lines:
        numbered = name = f"{prefix}{number}"
        where = f"{get_display_name(path)}, line {number}"
        try:
            record = parse_json_record(line)
            if isinstance(record.get("id"), (str, int)):
                name = str(record["id"])
            column = column or _find_known_column(list(record), where)
            document = InputDocument(name, "\n".join(_get_paragraphs_or_sentences(record, column)))
            # In a valid line, "\\udc80" is an escape that stands for a lone surrogate, which cleaning replaces later.
            is_escaped = fallback != ESCAPE_INVALID or is_valid_utf8(line)
            yield document if is_escaped else _check_utf8(document, where, numbered)
        except BadDocumentError as error:
            yield InputDocument(name, "", f"{where}: {error}")


def _find_json_source_field(lines: Iterator[Tuple[int, str]], path: Path) -> Tuple[str, List[Tuple[int, str]]]:
    """Find the first record that contains a field with a known name."""
    read: List[Tuple[int, str]] = []
    others: List[Tuple[List[str], str]] = []
    for number, line in itertools.islice(lines, _RECORDS_SEARCHED):
        if not read and (line.lstrip("\ufeff ")[:1] == "[" or line.rstrip()[-1] in "{[,:"):
            where = f"{get_display_name(path)}, line {number}"
            raise InputError(f"{where}: not JSON lines; each record must be one line: jq -c '.[]' FILE makes it so")
        read.append((number, line))
        with contextlib.suppress(BadDocumentError):
            names = list(parse_json_record(line))
            if any(column in names for column in SOURCE_COLUMNS):
                return _find_known_column(names, ""), read
            others.append((names, f"{get_display_name(path)}, line {number}"))
    return _find_known_column(*others[0]) if others else "", read


def _read_csv_documents(path: Path, column: str, fallback: str, prefix: str) -> Iterator[InputDocument]:
    """Yield a document for each row of a CSV file. The first row contains the column names in upper or lower case."""
    lines = read_lines(path, fallback, ends=True)
    header = next(lines, "")
    delimiter = _detect_delimiter(path, header)
    rows = read_rows(itertools.chain([header], lines), path, delimiter, quotes=True, counts=Counter())
    names = [name.strip() for name in next(rows, [])]
    lower = [name.lower() for name in names]
    wanted = (column or _find_known_column(lower, f"{get_display_name(path)}, line 1")).lower()
    if wanted not in lower:
        raise InputError(f"--source-column {column}: {get_display_name(path)} has the columns {', '.join(names)}")
    if lower.count(wanted) > 1:
        raise InputError(f"{get_display_name(path)}: {lower.count(wanted)} columns are named {wanted}")
    place = lower.index(wanted)
    has_blank_rows = len(names) == 1  # in a table with one column, a blank line represents an empty cell
    for number, row in enumerate((row or [""] for row in rows if row or has_blank_rows), 1):
        numbered, where = f"{prefix}{number}", f"{get_display_name(path)}, row {number}"
        if len(row) != len(names):
            yield InputDocument(numbered, "", f"{where}: {len(row)} cells; {len(names)} expected")
        else:
            name = row[lower.index("id")] if "id" in lower else numbered
            yield _check_utf8(InputDocument(name, row[place]), where, numbered)


def _find_known_column(names: Sequence[str], where: str) -> str:
    """Return the document column, by the same pair of columns as ``etads-corpus table``, or else by its name alone."""
    for column in (*(source for source, target in COLUMNS if {source, target} <= {*names}), *SOURCE_COLUMNS):
        if column in names:
            return column
    raise InputError(f"{where}: no field is known to contain documents; choose --source-column from {', '.join(names)}")


def _get_paragraphs_or_sentences(record: Dict[str, Any], column: str) -> List[str]:
    """Return the paragraphs of a string or the sentences in a list. Raises BadDocumentError for other types."""
    if column not in record:
        raise BadDocumentError(f'no field "{column}"')
    value = record[column]
    if value is None or isinstance(value, str):
        return (value or "").split("\n")
    if isinstance(value, list) and all(isinstance(piece, str) for piece in value):
        return value
    raise BadDocumentError(f'"{column}" is neither a text nor a list of texts')
