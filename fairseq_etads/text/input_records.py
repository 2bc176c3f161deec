"""Read documents for summarisation from lines of text, tables, folders or files, and options for their format."""

import contextlib
import glob
import itertools
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence

from ..files.inputs import ESCAPE_INVALID, STANDARD_INPUT, get_display_name, is_read_once, is_valid_utf8, read_lines
from ..platform.command_options import option
from ..platform.console import print_message
from ..platform.errors import InputError
from . import records
from .cleaning import JOIN_LINES_HELP, join_printed_lines
from .documents import BadDocumentError, ExcludedDocumentError, strip_html
from .records import ReadingOptions as ReadingOptions

TABLES = ("jsonl", "csv", "parquet")
FORMATS = ("lines", *TABLES, "folder", "file")
_OTHER_FORMATS = {
    "%PDF-": "PDF is not read; pdftotext makes text of it, whose lines --join-lines joins",
    "PK\x03\x04": "ZIP is not read; pandoc -t plain makes text of documents of Word, LibreOffice and EPUB",
    "{\\rtf": "RTF is not read; pandoc -t plain makes text of it",
}
"""Mapping from the beginnings of files of other formats to advice."""
_HTML = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?(<(?:!doctype\s+html|html)\b)", re.IGNORECASE)


class InputDocument(NamedTuple):
    """A document to summarise."""

    name: str  # of the file, or id or number of the record; :func:`read_documents` tells those of several inputs
    text: str  # raw text, with one paragraph per line
    problem: str = ""  # reason why the document cannot be read, or an empty string


def choose_input_format(files: Sequence[str], given: Optional[str]) -> str:
    """Return the format of the input files: the ``given`` one, or one guessed from their names and content.

    Raises InputError if a file is missing, the files have different formats, or one does not have the given format.
    """
    paths = [Path(name) for name in files]
    for path in paths:
        if str(path) != STANDARD_INPUT and not path.exists():
            raise InputError(f"FILE {path}: no such file or folder")
        if path.is_dir() and given not in (None, "folder", "parquet"):
            raise InputError(f"FILE {path}: is a folder, but --input-format is {given}")
        if given == "folder" and not path.is_dir():
            raise InputError(f"FILE {path}: is not a folder, but --input-format is folder")
    if given:
        return given
    is_stream = list(map(str, paths)) == [STANDARD_INPUT]
    if is_stream and sys.stdin is not None and sys.stdin.isatty():
        print_message("reading from the terminal, one document per line; Ctrl-D ends it")
    return guess_input_format(paths, "lines" if is_stream else "file")


@dataclass
class InputFormatOptions:
    """Options for the format of the input."""

    input_format: Optional[str] = option(
        None,
        "format of the input, which determines what counts as one document: each line (lines), each record (jsonl, "
        "csv, parquet), each file in a folder (folder) or each input file (file) (default: detected from the file "
        "names and the first line; a text file is one document, an HTML file too, without its tags, and standard input "
        "contains one document per line)",
        choices=FORMATS,
    )
    lines: bool = option(
        False,
        "treat each line as a document; short for --input-format lines",
        excludes={"--input-format": "choose one"},
    )
    source_column: str = option(
        "",
        "name of the field that contains the document in JSON lines or CSV input (default: article, document, text or "
        "another common name)",
        metavar="NAME",
    )
    no_quotes: bool = option(False, records.NO_QUOTES_HELP)
    join_lines: bool = option(False, JOIN_LINES_HELP)

    @property
    def format(self) -> Optional[str]:
        """The format that the user has specified, or None."""
        return "lines" if self.lines else self.input_format


def describe_document_unit(kind: str, files: Sequence[str], given: Optional[str]) -> str:
    """Return a message that states what one document is in files of a ``kind``, and which option changes this.

    ``given`` is the kind that the user has specified, or None.
    """
    said = f"every {get_document_unit_name(kind)} is a document"
    if given or kind not in ("lines", "file"):
        return said
    if kind == "lines":
        return f"{said}; --input-format file reads a whole file as one document"
    if len(files) == 1 and not is_read_once(Path(files[0])):
        with contextlib.suppress(InputError):  # the reader will report unreadable files with a better message
            texts = (line for line in read_lines(Path(files[0]), "replace") if line.strip())
            if len(list(itertools.islice(texts, 2))) > 1:
                said = f"{files[0]} is one document with all its lines"
    return f"{said}; --lines reads every line as one document"


def guess_input_format(paths: Sequence[Path], text: str = "file") -> str:
    """Return the format of input files, guessed from their names and first lines, or ``text`` for plain text files.

    Raises InputError if the files have different formats.
    """
    found = {_detect_file_format(path) or text for path in paths}
    if len(found) > 1:
        inputs = "folders, JSON lines, CSV and text files cannot be mixed"
        raise InputError(f"{inputs}; give inputs of one format (--input-format)")
    (kind,) = found
    return kind


def _detect_file_format(path: Path) -> str:
    """Return the format of an input file or of standard input, or an empty string for plain text."""
    if str(path) == STANDARD_INPUT and (sys.stdin is None or sys.stdin.isatty()):
        return ""  # the reader explains the problem, or reads what is typed line by line
    if (path / records.ARROW_SPLITS).is_file():
        raise InputError(f"FILE {path}: is a data set with splits; name one of them, such as {path / 'test'}")
    if not path.is_dir() and {".source", ".target"} & set(path.suffixes):  # text that etads-corpus has written
        return "lines"
    if path.is_dir():
        return "parquet" if (path / records.ARROW).is_file() else "folder"
    return {"tsv": "csv"}.get(found := records.detect_record_format(path), found)


def read_documents(paths: Sequence[Path], kind: str, options: ReadingOptions) -> Iterator[InputDocument]:
    """Yield all documents in the input files, whose format is one of FORMATS, in order.

    With several inputs, file names include the folder, and the numbers of lines and records follow the name of the
    input (FILE:NUMBER). The ids of records are not changed. Raises InputError if an input file cannot be read.
    """
    unit = f"but here every {get_document_unit_name(kind)} is a document"
    if options.column and kind not in TABLES:
        asked = f"{records.OPTIONS[options.side]} {options.column}"
        raise InputError(f"{asked}: applies only to JSON lines and CSV, {unit}")
    if not options.quotes and kind != "csv":
        raise InputError(f"--no-quotes: applies only to CSV and TSV, {unit}")
    if options.join_lines and kind == "lines":
        raise InputError(f"--join-lines: has no effect, {unit}")
    for path in paths:
        prefix = f"{get_display_name(path)}:" if len(paths) > 1 else ""
        if kind == "lines":
            for number, line in enumerate(read_lines(path, options.fallback), 1):
                name, where = f"{prefix}{number}", f"{get_display_name(path)}, line {number}"
                yield _check_utf8(InputDocument(name, line), where)
        elif kind in TABLES:
            yield from _read_table(path, kind, options, prefix)
        else:
            for file in _list_files(path) if kind == "folder" else [path]:
                is_name_enough = kind == "folder" and len(paths) == 1
                document = _read_file_as_document(file, file.name if is_name_enough else str(file), options.fallback)
                yield document._replace(text=join_printed_lines(document.text)) if options.join_lines else document


def get_document_unit_name(kind: str) -> str:
    """Return the name of the unit that is read as one document in a format, such as "line" or "record"."""
    return {"lines": "line", "jsonl": "record", "csv": "row", "parquet": "row"}.get(kind, "file")


def _check_utf8(document: InputDocument, where: str) -> InputDocument:
    """Check whether the text of a document that was read with ESCAPE_INVALID is valid UTF-8."""
    return document if is_valid_utf8(document.text) else InputDocument(document.name, "", f"{where}: not UTF-8")


def _read_file_as_document(file: Path, name: str, fallback: str) -> InputDocument:
    try:
        text = "\n".join(read_lines(file, fallback))
        for beginning, advice in _OTHER_FORMATS.items():
            if text.startswith(beginning):
                raise InputError(f"{file}: {advice}")
        if page := _HTML.match(text):
            text = strip_html(text[page.start(1) :], Counter())
        return _check_utf8(InputDocument(name, text), str(file))
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


def _read_table(path: Path, kind: str, options: ReadingOptions, prefix: str) -> Iterator[InputDocument]:
    """Yield a document for each record. It is named by its id, or by the number of its line or row."""
    tabs = kind == "csv" and records.detect_record_format(path) == "tsv"
    source = get_display_name(path)

    def choose(names: List[str]) -> List[str]:
        """Choose the columns of the text and, if there is one, of the id. Others that are known are reported."""
        asked = ("", options.column) if options.side else (options.column, "")
        chosen = records.choose_columns(names, source, print_message, asked, [options.side])
        if chosen == ["references"]:
            raise InputError(f"{source}: has lists of references; etads-corpus table makes a file of each")
        return [*chosen, *records.find_columns("id", names)[:1]]

    opened = records.Table(path, "tsv" if tabs else kind, choose, options, Counter(), print_message).open()
    rows = ((number, record) for number, record in opened.rows if not isinstance(record, ExcludedDocumentError))
    for row, (line, record) in enumerate(rows, 1):
        unit, number = ("line", line) if kind == "jsonl" else ("row", row)
        numbered = name = f"{prefix}{number}"
        where = f"{source}, {unit} {number}"
        try:
            values = records.parse_record(record)
            known = values.get((*opened.columns, "id")[1])
            name = str(known) if isinstance(known, (str, int)) else numbered
            text = records.get_value(values, opened.columns[0])
            text = text if isinstance(text, str) else "\n".join(records.list_pieces(text, "document"))
            text = join_printed_lines(text) if options.join_lines else text
            # In a valid line, "\\udc80" is an escape that stands for a lone surrogate, which cleaning replaces later.
            is_escaped = isinstance(record, str) and (options.fallback != ESCAPE_INVALID or is_valid_utf8(record))
            if not is_escaped and not is_valid_utf8(name + text):
                name = name if is_valid_utf8(name) else numbered
                raise BadDocumentError("not UTF-8")
            yield InputDocument(name, text)
        except BadDocumentError as error:
            yield InputDocument(name, "", f"{where}: {error}")


def find_files_by_id(path: Path) -> Dict[str, Path]:
    """Map ids to files: names in a folder, or the parts of names that match ``*`` in a pattern like ``out/*.dec``.

    They are sorted. The dictionary is empty for the path of a file or table. Raises InputError if there are no files.
    """
    if path.is_dir() and guess_input_format([path]) == "folder":
        return {file.name: file for file in _list_files(path)}
    if "*" not in path.name or path.exists():
        return {}
    before, _, after = path.name.partition("*")
    files = [file for file in path.parent.glob(f"{glob.escape(before)}*{glob.escape(after)}") if file.is_file()]
    if not files:
        raise InputError(f"{path}: no such files")
    return dict(sorted((file.name[len(before) : len(file.name) - len(after)], file) for file in files))


def read_texts(path: Path, side: int, column: str = "") -> List[str]:
    """Read all documents or summaries in a table, a file with one text per line, or files with a text each.

    ``path`` may also be ``-``, a folder or a pattern (see :func:`find_files_by_id`); for the others, see
    :class:`ReadingOptions`. Raises InputError if the file or a record cannot be read.
    """
    if files := find_files_by_id(path):
        documents: Iterable[InputDocument] = (_read_file_as_document(file, name, "") for name, file in files.items())
    else:
        kind = guess_input_format([path], "lines")
        documents = read_documents([path], kind, ReadingOptions("", column=column, side=side))
    texts = []
    for document in documents:
        if document.problem:
            raise InputError(document.problem)
        texts.append(document.text)
    return texts
