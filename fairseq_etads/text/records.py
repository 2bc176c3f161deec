"""Read records from JSON lines, CSV, TSV and Parquet files, for all commands that read documents or pairs."""

import contextlib
import csv
import itertools
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Type, Union

from ..files.inputs import (
    BOM,
    DECOMPRESSORS,
    ESCAPE_INVALID,
    get_display_name,
    is_read_once,
    is_valid_utf8,
    open_binary,
    read_beginning,
    read_json,
    read_lines,
)
from ..platform.errors import InputError
from .cleaning import REPLACED_CONTROLS
from .documents import BadDocumentError, ExcludedDocumentError, parse_json_record

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
            if "\0" in line or "\r" in line:
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
            elif checks and not all(map(is_valid_utf8, row)):
                yield number, BadDocumentError("not UTF-8")
            else:
                for cell in row if quotes else ():
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
