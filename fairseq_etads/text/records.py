"""Read records from lines of text, JSON lines, CSV, TSV, Parquet and folders, for all commands that read them."""

import contextlib
import csv
import glob
import itertools
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Type, Union

from ..files.inputs import (
    BOM,
    DECOMPRESSORS,
    ESCAPE_INVALID,
    STANDARD_INPUT,
    get_display_name,
    is_read_once,
    is_valid_utf8,
    open_binary,
    read_beginning,
    read_json,
    read_lines,
)
from ..platform.command_options import option
from ..platform.console import print_message
from ..platform.errors import InputError
from .documents import (
    JOIN_LINES_HELP,
    REPLACED_CONTROLS,
    BadDocumentError,
    ExcludedDocumentError,
    join_printed_lines,
    parse_json_record,
    strip_html,
)

_PAIRS = """
article/highlights article/abstract article_text/abstract_text document/summary dialogue/summary text/summary
source/target src/tgt report/summary text/headline document/title article/references
"""
COLUMNS = [tuple(pair.split("/")) for pair in _PAIRS.split()]
"""Known pairs of names for the document column and the summary column. Of several in a table, the first is used."""
SOURCE, TARGET = 0, 1
"""Positions of the document and the summary in COLUMNS and OPTIONS."""
OPTIONS = ("--source-column", "--target-column")
SUFFIXES = {"jsonl": "jsonl", "json": "jsonl", "csv": "csv", "tsv": "tsv", "parquet": "parquet", "ndjson": "jsonl"}
"""Mapping from file name suffixes (without the dot) to file formats."""
DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
"""Mapping from the separators that can be detected without --delimiter to their names in messages."""
ARROW, ARROW_SPLITS = "state.json", "dataset_dict.json"
"""Files in a folder that Hugging Face's datasets has saved: of a data set, and of one that consists of splits."""
LONGEST_CELL = 1 << 26
"""Maximum number of characters in a cell. Longer cells usually result from an unclosed quotation mark."""
BLANK = "blank lines between records"
NO_QUOTES = "--no-quotes treats quotes as ordinary characters"
NO_QUOTES_HELP = "treat quotation marks in CSV and TSV files as ordinary characters"

_RECORDS_SEARCHED = 100
"""Maximum number of records to search for known names, if unreadable ones are allowed."""
_SENTENCE = re.compile(r"\s*<S>\s*(.*?)\s*</S>\s*", re.DOTALL)
"""A sentence in the abstracts of arXiv and PubMed (Cohan et al. 2018)."""
_LONE_CR = re.compile(r"\r(?!\n)")
_JSON = re.compile(r"""[\s\ufeff]*(\{\s*(["'}]|$)|\[\s*(\{|$))""", re.MULTILINE)
_WRAPPED = re.compile(r'\{\s*"([^"\\]*)"\s*:\s*\[\s*\{.*\}\s*\]\s*\}$')
"""A JSON object that holds nothing but a list of records."""
_ARRAY = re.compile(r"\[\s*([{\]]|$)")
_GLUED = re.compile(r'\}\s*\{\s*"[^"\\]*"\s*:')
_EACH = "jq -c '.[]'"
_BY_COLUMNS = "jq -c 'map_values([.[]]) | range(first(.[]) | length) as $i | map_values(.[$i])'"


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
    names: Sequence[str],
    where: str,
    warn: Callable[[str], Any],
    asked: Sequence[str] = ("", ""),
    sides: Sequence[int] = (SOURCE, TARGET),
) -> List[str]:
    """Choose the document column, the summary column, or both, as ``sides`` says, from the ``names`` of all columns.

    ``asked`` are the names that the user has chosen for the two columns, or empty strings. The same document column is
    chosen with and without summaries; ``warn`` is called with a message if others can hold the documents. Raises
    InputError, which names the file (``where``), if no column is known or has the chosen name, or several have it.
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
    if SOURCE in sides and not asked[SOURCE]:
        others = [name for source, _ in COLUMNS for name in find_columns(source, names) if name != chosen[SOURCE]]
        if others:
            warn(
                f"{where}: the documents are in {chosen[SOURCE]}; --source-column {others[0]} takes {others[0]} instead"
            )
    return chosen


def find_columns(wanted: str, names: Sequence[str]) -> List[str]:
    """Return all names that are equal to ``wanted``, or else those that are equal apart from case and white space."""
    exact = [name for name in names if name == wanted]
    return exact or [name for name in names if wanted and name.strip().casefold() == wanted.strip().casefold()]


def parse_delimiter(text: str) -> str:
    """Return the separator that --delimiter specifies ("tab" is a tab), or an empty string if it is not set.

    Raises InputError if the value cannot be used as a separator.
    """
    delimiter = "\t" if text.lower() in ("tab", "\\t") else text
    if len(delimiter) > 1 or delimiter in ('"', "\r", "\n", "\0", "\ufeff"):
        raise InputError(f'--delimiter "{text}": choose one character, such as ; or | or tab')
    return delimiter


Record = Union[str, Dict[str, Any], BadDocumentError]
"""A line of JSON, the values of a row by column, or the reason why there are none. :func:`parse_record` parses it."""


@dataclass(frozen=True)
class ReadingOptions:
    """Options for reading documents. With ESCAPE_INVALID, unreadable documents are returned with a ``problem``."""

    fallback: str = ESCAPE_INVALID  # treatment of lines that are not valid UTF-8 (see :func:`read_lines`)
    delimiter: str = ""  # separator of the cells in CSV and TSV, or an empty string to try those in DELIMITERS
    quotes: bool = True  # whether cells can be enclosed in quotation marks
    skip_bad: bool = True  # whether the first records may be unreadable
    checks_rows: bool = False  # whether a row of cells is unreadable if any cell is not valid UTF-8
    column: str = ""  # column of the documents, or an empty string to find it
    side: int = SOURCE  # SOURCE to read documents, TARGET to read summaries
    join_lines: bool = False  # whether to join the lines of printed pages


class Records(NamedTuple):
    """A table of records whose header, or first record, has been read. The rest of it is read once."""

    columns: List[str]  # names of the columns that have been chosen, or an empty list if there is no record
    rows: Iterator[Tuple[int, Record]]  # records, with the numbers of their lines in JSON, or else of their rows from 1
    size: Optional[int] = None  # number of records, if known
    delimiter: str = ""  # separator of the cells in CSV and TSV


@dataclass
class Table:
    """A table of records in a file."""

    path: Path
    kind: str  # one of the values of SUFFIXES
    choose: Callable[[List[str]], List[str]]  # chooses columns from all names, or raises InputError if there are none
    options: ReadingOptions
    counts: Counter  # to which the numbers of blank lines, replaced characters and replaced lines are added
    warn: Callable[[str], Any]  # called with a message about another separator, and about quotes that hold whole rows

    def open(self) -> Records:
        """Read the header or the first records, and choose the columns.

        Raises InputError if there are no suitable columns, or the file is damaged or of another format.
        """
        self.where = get_display_name(self.path)
        if self.kind == "parquet":
            return self._open_parquet()
        lines = read_lines(self.path, self.options.fallback, self.counts, ends=self.kind != "jsonl")
        return self._open_json_lines(lines) if self.kind == "jsonl" else self._open_cells(lines)

    def _open_json_lines(self, lines: Iterable[str]) -> Records:
        """Choose the columns from the first record or, with ``skip_bad``, from the first suitable record."""
        numbered = self._read_json_lines(lines)
        read: List[Tuple[int, Record]] = []
        first = None
        for number, line in itertools.islice(numbered, _RECORDS_SEARCHED if self.options.skip_bad else 1):
            read.append((number, line))
            try:
                if self.options.skip_bad and not is_valid_utf8(line):
                    raise BadDocumentError("not UTF-8")
                return Records(self.choose(list(parse_json_record(line))), itertools.chain(read, numbered))
            except (BadDocumentError, InputError) as error:
                where = f"{self.where}, line {number}: " if isinstance(error, BadDocumentError) else ""
                first = first or InputError(f"{where}{error}")
        if first:
            raise first
        return Records([], iter(()))

    def _read_json_lines(self, lines: Iterable[str]) -> Iterator[Tuple[int, str]]:
        """Yield numbered lines that are not blank. JSON other than a record per line is an error with the remedy."""
        numbered = self._skip_blank_lines(lines)
        for number, line in itertools.islice(numbered, 1):
            text = line.lstrip(BOM).strip()
            jq = _make_records_of_table(text)
            following = list(itertools.islice(numbered, 1)) if jq else []
            if text.endswith("},"):
                jq = "sed 's/},$/}/'"
            elif _ARRAY.match(text):
                jq = _EACH
            elif text.startswith("{") and (text.endswith(("{", "[", ",", ":")) or _GLUED.search(text)):
                jq = "jq -c ."
            elif following:  # two documents, each a list of sentences
                jq = ""
            elif found := _WRAPPED.match(text):
                jq = f"jq -c '.[\"{found.group(1)}\"][]'"
            if jq:
                what = "a table by columns" if jq == _BY_COLUMNS else "not JSON lines"
                remedy = f"each record must be one line: {jq} FILE makes it so"
                raise InputError(f"{self.where}, line {number}: {what}; {remedy}")
            yield number, line
            yield from following
        yield from numbered

    def _skip_blank_lines(self, lines: Iterable[str]) -> Iterator[Tuple[int, str]]:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield number, line
            else:
                self.counts[BLANK] += 1

    def _open_cells(self, lines: Iterator[str]) -> Records:
        """Read the header of a CSV or TSV file, and choose its columns and its separator, the one with most columns."""
        given, usual = self.options.delimiter, "\t" if self.kind == "tsv" else ","
        failures: List[Tuple[int, str]] = []
        for delimiter in [given] if given else sorted(DELIMITERS, key=lambda known: known != usual):
            names: List[str] = []
            lines, tried = itertools.tee(lines)
            try:
                names = next(filter(None, self._read_rows(tried, delimiter, Counter())), [])
                columns = self.choose(names)
                break
            except InputError as error:
                failures.append((-len(names), str(error)))
        else:
            raise InputError(min(failures, key=lambda failure: failure[0])[1])
        if delimiter != (given or usual):
            self.warn(f"{self.where}: cells are separated by {DELIMITERS[delimiter]}")
        del tried  # lines that have been read are not kept
        rows = enumerate(self._read_rows(lines, delimiter, self.counts), 1)
        header = next(number for number, row in rows if row)
        self.counts[BLANK] += header - 1
        return Records(columns, self._check_rows(rows, names, columns, delimiter), delimiter=delimiter)

    def _read_rows(self, lines: Iterator[str], delimiter: str, counts: Counter) -> Iterator[List[str]]:
        """Yield all rows of a table, with its header. A blank line yields an empty row. Lines have their endings."""
        csv.field_size_limit(LONGEST_CELL)
        how = {"strict": True} if self.options.quotes else {"quoting": csv.QUOTE_NONE}
        rows = csv.reader(self._replace_unreadable_characters(lines, counts), delimiter=delimiter, **how)
        try:
            yield from rows
        except csv.Error as error:
            kind = "TSV" if delimiter == "\t" else "CSV"
            advice = f"; {NO_QUOTES}" if self.options.quotes else ""
            raise InputError(f"{self.where}, line {rows.line_num}: not {kind} ({error}){advice}") from None

    def _replace_unreadable_characters(self, lines: Iterator[str], counts: Counter) -> Iterator[str]:
        """Replace characters that the csv module cannot read."""
        for number, line in enumerate(lines, 1):
            line = line[line.startswith(BOM) :]  # if several files were concatenated, each may begin with a mark
            if "\0" in line or line.count("\r") > line.endswith("\r\n"):
                counts[REPLACED_CONTROLS] += line.count("\0")
                line, found = _LONE_CR.subn(" ", line.replace("\0", " "))
                if found and number == 1:
                    reason = "a carriage return inside the header; lines must end in newlines"
                    raise InputError(f"{self.where}, line 1: {reason}")
                counts["carriage returns replaced by spaces"] += found
            yield line

    def _check_rows(
        self, rows: Iterable[Tuple[int, List[str]]], names: List[str], columns: List[str], delimiter: str
    ) -> Iterator[Tuple[int, Record]]:
        """Yield each row as a record. A blank line is counted or, in a table with one column, is an empty cell."""
        places = [(column, names.index(column)) for column in columns]
        quotes, checks, counts = self.options.quotes, self.options.checks_rows, self.counts
        for number, row in rows:
            if not row:
                if len(names) == 1:
                    yield number, {names[0]: ""}
                else:
                    counts[BLANK] += 1
            elif len(row) != len(names):
                yield number, BadDocumentError(f"{len(row)} cells, but the header has {len(names)}")
            elif row == names:  # if several tables were concatenated, the header occurs several times
                yield number, ExcludedDocumentError("the header again")
            elif checks and not is_valid_utf8("".join(row)):
                yield number, BadDocumentError("not UTF-8")
            else:
                for cell in row if quotes and "\n" in "".join(row) else ():
                    if "\n" in cell and _holds_rows(cell, row.index(cell), len(row), delimiter):
                        quotes = False  # one warning is enough
                        held = f"line breaks and {DELIMITERS.get(delimiter, delimiter)}, as if it were several rows"
                        self.warn(f"{self.where}, record {number}: a quoted cell holds {held}; {NO_QUOTES}")
                yield number, {column: row[place] for column, place in places}

    def _open_parquet(self) -> Records:
        """Open a Parquet file, or a folder of Arrow files that datasets has saved, with pyarrow."""
        try:
            import pyarrow
            import pyarrow.ipc
            import pyarrow.parquet
        except ImportError:
            raise InputError(f"{self.where}: Parquet needs pyarrow: pip install pyarrow") from None
        path, size = self.path, None
        try:
            if path.is_dir():
                listed = read_json(path / ARROW, "save the data set again")["_data_files"]
                files = [pyarrow.ipc.open_stream(pyarrow.memory_map(str(path / each["filename"]))) for each in listed]
                columns = self.choose(list(files[0].schema.names))
                batches = (batch.select(columns) for file in files for batch in file)
            else:
                pipe = open_binary(path) if is_read_once(path) else contextlib.nullcontext()
                with pipe as stream:
                    file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(stream.read()) if stream else path)
                columns, size = self.choose(list(file.schema_arrow.names)), int(file.metadata.num_rows)
                batches = file.iter_batches(batch_size=256, columns=columns)
        except (OSError, LookupError, TypeError, pyarrow.ArrowException) as error:
            reason = (str(error).splitlines() or [""])[0]
            raise InputError(f"{self.where}: not Parquet or Arrow ({reason})") from None
        return Records(columns, enumerate(self._read_batches(batches, pyarrow.ArrowException), 1), size)

    def _read_batches(self, batches: Iterable[Any], arrow_error: Type[Exception]) -> Iterator[Record]:
        try:
            for batch in batches:
                yield from _list_rows(batch)
        except (OSError, ValueError, KeyError, OverflowError, arrow_error) as error:
            reason = (str(error).splitlines() or [""])[0]
            raise InputError(f"{self.where}: damaged ({reason})") from None


def parse_record(record: Record) -> Dict[str, Any]:
    """Return the values of a record by column. Raises BadDocumentError if it has none."""
    if isinstance(record, BadDocumentError):
        raise record
    return parse_json_record(record) if isinstance(record, str) else record


def get_value(values: Dict[str, Any], column: str) -> Any:
    """Return the value of a record in a column. Raises BadDocumentError if it is missing."""
    if column not in values:
        raise BadDocumentError(f'no "{column}"')
    return values[column]


def list_pieces(value: Any, what: str) -> List[str]:
    """Return the non-blank sentences in a list, or the non-blank lines of a string.

    Raises BadDocumentError, which names ``what`` the value is, for other types.
    """
    if isinstance(value, str):
        value = value.replace("\r\n", "\n").split("\n") if "\n" in value else [value]
    elif not isinstance(value, (list, type(None))):
        raise BadDocumentError(f"{what} is of type {type(value).__name__}")
    elif not all(isinstance(piece, str) for piece in value or ()):
        raise BadDocumentError(f"{what} is a list that contains something other than texts")
    return [_SENTENCE.sub(r"\1", piece) if "<S>" in piece else piece for piece in value or () if piece.strip()]


def _make_records_of_table(line: str) -> str:
    """Return a command that divides a record of several lists or objects of one length above 1, or an empty string."""
    try:
        values = list(parse_json_record(line).values())
    except BadDocumentError:
        return ""
    sizes = {len(value) if isinstance(value, (list, dict)) else 0 for value in values}
    if len(values) < 2 or len(sizes) > 1 or sizes.pop() < 2:
        return ""
    names = [*values[0]] if isinstance(values[0], dict) else []
    return _EACH if any(find_columns(name, names) for pair in COLUMNS for name in pair) else _BY_COLUMNS


def _holds_rows(cell: str, place: int, width: int, delimiter: str) -> bool:
    """Return whether the separators in the lines of a cell are those of the end of a row, rows, and a beginning."""
    if cell.count(delimiter) == cell.count(f"{delimiter} "):  # commas in prose
        return False
    found = [line.count(delimiter) for line in cell.split("\n") if line.strip()]
    return width > 1 and len(found) > 1 and found == [width - 1 - place, *[width - 1] * (len(found) - 2), place]


def _list_rows(batch: Any) -> List[Record]:
    try:
        return list(batch.to_pylist())
    except UnicodeDecodeError:
        each = (batch.slice(number, 1) for number in range(len(batch)))
        return [BadDocumentError("not UTF-8")] if len(batch) == 1 else [row for one in each for row in _list_rows(one)]


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
    no_quotes: bool = option(False, NO_QUOTES_HELP)
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
    if (path / ARROW_SPLITS).is_file():
        raise InputError(f"FILE {path}: is a data set with splits; name one of them, such as {path / 'test'}")
    if not path.is_dir() and {".source", ".target"} & set(path.suffixes):  # text that etads-corpus has written
        return "lines"
    if path.is_dir():
        return "parquet" if (path / ARROW).is_file() else "folder"
    return {"tsv": "csv"}.get(found := detect_record_format(path), found)


def read_documents(paths: Sequence[Path], kind: str, options: ReadingOptions) -> Iterator[InputDocument]:
    """Yield all documents in the input files, whose format is one of FORMATS, in order.

    With several inputs, file names include the folder, and the numbers of lines and records follow the name of the
    input (FILE:NUMBER). The ids of records are not changed. Raises InputError if an input file cannot be read.
    """
    unit = f"but here every {get_document_unit_name(kind)} is a document"
    if options.column and kind not in TABLES:
        asked = f"{OPTIONS[options.side]} {options.column}"
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
    tabs = kind == "csv" and detect_record_format(path) == "tsv"
    source = get_display_name(path)

    def choose(names: List[str]) -> List[str]:
        """Choose the columns of the text and, if there is one, of the id. Others that are known are reported."""
        asked = ("", options.column) if options.side else (options.column, "")
        chosen = choose_columns(names, source, print_message, asked, [options.side])
        if chosen == ["references"]:
            raise InputError(f"{source}: has lists of references; etads-corpus table makes a file of each")
        return [*chosen, *find_columns("id", names)[:1]]

    opened = Table(path, "tsv" if tabs else kind, choose, options, Counter(), print_message).open()
    rows = ((number, record) for number, record in opened.rows if not isinstance(record, ExcludedDocumentError))
    for row, (line, record) in enumerate(rows, 1):
        unit, number = ("line", line) if kind == "jsonl" else ("row", row)
        numbered = name = f"{prefix}{number}"
        where = f"{source}, {unit} {number}"
        try:
            values = parse_record(record)
            known = values.get((*opened.columns, "id")[1])
            name = str(known) if isinstance(known, (str, int)) else numbered
            text = get_value(values, opened.columns[0])
            text = text if isinstance(text, str) else "\n".join(list_pieces(text, "document"))
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
