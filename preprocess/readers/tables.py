"""Read tables with a document column and a summary column (JSON lines, CSV, TSV and Parquet), and SciTLDR."""

import argparse
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.compression import DECOMPRESSORS
from fairseq_etads.text.csv_rows import COLUMNS, DELIMITERS, parse_delimiter, read_rows
from fairseq_etads.text.documents import BadDocumentError, Document, ExcludedDocumentError, parse_json_record
from fairseq_etads.text.files import STANDARD_INPUT, get_display_name, open_binary
from fairseq_etads.text.json_files import SPLITS

from .base import Reader, check_path_exists, find_first_existing
from .split_shares import DEFAULT_SHARES, add_input_options, check_input_options, parse_shares

FORMATS = ("jsonl", "csv", "tsv", "parquet")
BOM = "\ufeff"
"""Byte order mark, with which some files begin."""
SUFFIXES = {"jsonl": "jsonl", "json": "jsonl", "csv": "csv", "tsv": "tsv", "parquet": "parquet", "ndjson": "jsonl"}
"""Mapping from file name suffixes (without the dot) to file formats."""

Item = Tuple[str, int, Any]
"""Key of the file in Table.files, number of the line or record, and content.

The content is a line of JSON, a pair of cells, or a BadDocumentError exception.
"""


def find_jsonl_files(folder: Path) -> Dict[str, Path]:
    """Find train.jsonl, dev.jsonl (or valid, validation, val) and test.jsonl in a folder, plain or compressed."""
    names = {"train": ["train"], "valid": ["dev", "valid", "validation", "val"], "test": ["test"]}
    found: Dict[str, Path] = {}
    for split, stems in names.items():
        there = [*filter(None, (find_first_existing([folder], [f"{stem}.jsonl"]) for stem in stems))]
        if len(there) > 1:
            raise InputError(f"{folder}: {there[0].name} and {there[1].name} are both {split}: remove one")
        if there:
            found[split] = there[0]
    return found


def make_jsonl_options(args: argparse.Namespace, files: Dict[str, Path], target_list: str) -> argparse.Namespace:
    """Return options with which :class:`TableReader` reads JSON lines with the keys "source" and "target".

    The values of shared options are copied from ``args``.
    """
    columns = {"source_column": "source", "target_column": "target", "target_list": target_list, "no_quotes": False}
    not_given = dict.fromkeys((*SPLITS, "input", "shares", "split_seed", "format", "delimiter"))
    return argparse.Namespace(**{**vars(args), **not_given, **files, **columns})


def detect_table_format(path: Path) -> str:
    """Determine the file format of a table.

    The format of a file is determined from its name, ignoring a suffix .gz, .xz, .bz2 or .zst. The format of standard
    input is determined from its first bytes.

    Raises:
        InputError: the file format is unknown.
    """
    if path.name == STANDARD_INPUT:
        with open_binary(path) as file:
            beginning = file.read(1 << 12).lstrip(b"\xef\xbb\xbf \t\r\n")
        return "parquet" if beginning.startswith(b"PAR1") else "jsonl" if beginning[:1] in (b"{", b"[") else "csv"
    suffixes = [suffix[1:].lower() for suffix in path.suffixes[-2:] if suffix not in DECOMPRESSORS]
    if suffixes and suffixes[-1] in SUFFIXES:
        return SUFFIXES[suffixes[-1]]
    raise InputError(f"{path}: unknown format; choose a name that ends in .{', .'.join(SUFFIXES)}, or give --format")


def add_column_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the columns, and --target-list, to a parser."""
    for side, content in (("source", "documents"), ("target", "summaries")):
        parser.add_argument(
            f"--{side}-column",
            metavar="NAME",
            default="",
            help=f"name of the column that contains the {content} (default: detected automatically)",
        )
    parser.add_argument(
        "--target-list",
        choices=("sentences", "references"),
        default="sentences",
        help="meaning of a list in the summary column: the sentences of one summary, or alternative reference "
        "summaries (default: %(default)s)",
    )


class TableReader(Reader):
    name = "table"
    summary = "JSON lines, CSV, TSV or Parquet with a document column and a summary column"
    description = f"""\
  etads-corpus table --train train.csv --valid valid.csv --test test.csv --out TEXT
  etads-corpus table --input all.jsonl --split 90/5/5 --out TEXT

The name of a file determines its format: .jsonl, .csv, .tsv (also .gz, .xz, .bz2, .zst) or .parquet; - is standard
input. The names of known columns, in upper or lower case, are {", ".join("/".join(pair) for pair in COLUMNS[:4])},
{", ".join("/".join(pair) for pair in COLUMNS[4:])}. Each
value is a text or a list of sentences. Each line of a document is a paragraph. If a summary consists of several lines,
each line is a sentence."""

    def __init__(self, args: argparse.Namespace):
        super().__init__(args)
        self.asked_columns: Tuple[str, str] = (args.source_column, args.target_column)
        self.lists_are_references = args.target_list == "references"
        self.quotes = not args.no_quotes
        self.skip_bad: bool = args.skip_bad
        self.delimiter = parse_delimiter(args.delimiter or "")
        files: Dict[str, Path] = {}
        if check_input_options(args):
            self.shares = parse_shares(args.shares or DEFAULT_SHARES, 1 if args.split_seed is None else args.split_seed)
            files["input"] = args.input
        files.update({split: getattr(args, split) for split in SPLITS if getattr(args, split)})
        self.files = {key: check_path_exists(f"--{key}", path) for key, path in files.items()}
        self.formats = {key: args.format or detect_table_format(path) for key, path in self.files.items()}
        if self.delimiter and not {"csv", "tsv"}.intersection(self.formats.values()):
            raise InputError(f"--delimiter {args.delimiter}: applies only to CSV and TSV")
        if args.no_quotes and not {"csv", "tsv"}.intersection(self.formats.values()):
            raise InputError("--no-quotes: applies only to CSV and TSV")
        self.delimiters: Dict[str, str] = {}
        self.columns = {key: self._find_columns(key) for key in self.files}
        self.counts.clear()  # these lines will be read and counted again later

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        add = parser.add_argument
        for split in SPLITS:
            add(f"--{split}", metavar="FILE", type=Path)
        add_input_options(parser, "FILE", "table with the pairs of all splits", several=False)
        add("--format", choices=FORMATS, help="format of all input files (default: determined from the file names)")
        add_column_options(parser)
        add(
            "--delimiter",
            metavar="CHAR",
            help='column separator of CSV and TSV files, either a single character or "tab" (default: comma, tab, '
            "semicolon or vertical bar, depending on the header)",
        )
        add(
            "--no-quotes", action="store_true", help="treat quotation marks in CSV and TSV files as ordinary characters"
        )

    def _find_columns(self, key: str) -> Tuple[str, str]:
        """Return the names of the document and summary columns, based on the header or first record of a file."""
        path = self.files[key]
        if self.formats[key] == "parquet":
            return self._choose_columns(path, list(_open_parquet(path).schema_arrow.names))
        if self.formats[key] in ("csv", "tsv"):
            return self._find_columns_in_header(key)
        first: Optional[InputError] = None
        for number, line in enumerate(self.iterate_lines(path), 1):
            if not line.strip():
                continue
            try:
                self.check_utf8(line)
                return self._choose_columns(path, list(parse_json_record(line)))
            except BadDocumentError as error:
                found = InputError(f"{get_display_name(path)}, line {number}: {error}{_suggest_json_lines(line)}")
            except InputError as error:
                found = error
            if not self.skip_bad:  # with --skip-bad, the first record with suitable columns is used
                raise found
            first = first or found
        raise first or InputError(f"{get_display_name(path)}: empty")

    def _find_columns_in_header(self, key: str) -> Tuple[str, str]:
        """Return the names of the document and summary columns in a CSV or TSV file."""
        path, usual = self.files[key], "\t" if self.formats[key] == "tsv" else ","
        failures: List[Tuple[int, InputError]] = []
        for delimiter in [self.delimiter] if self.delimiter else sorted(DELIMITERS, key=lambda d: d != usual):
            self.delimiters[key] = delimiter
            names: List[str] = []
            try:
                names = next((row for row in self._read_rows(key) if row), [])
                chosen = self._choose_columns(path, names)
            except InputError as error:
                failures.append((-len(names), error))
                continue
            if delimiter != (self.delimiter or usual):
                self.notes.append(f"{get_display_name(path)}: cells are separated by {DELIMITERS[delimiter]}")
            return chosen
        raise min(failures, key=lambda failure: failure[0])[1]

    def _choose_columns(self, path: Path, names: Sequence[str]) -> Tuple[str, str]:
        """Choose the document column and the summary column."""
        known = next(
            (pair for pair in COLUMNS if all(_find_matching_column_names(name, names) for name in pair)), ("", "")
        )
        chosen = []
        has = f"{get_display_name(path)}; it has {', '.join(names) or 'none'}"
        options = ("--source-column", "--target-column")
        if not any((*known, *self.asked_columns)):
            raise InputError(f"{' and '.join(options)} are needed: no known pair of columns in {has}")
        for asked, usual, option in zip(self.asked_columns, known, options):
            found = _find_matching_column_names(asked or usual, names)
            if not found:
                wrong = f"{asked}: no such column" if asked else "is needed: no known pair of columns"
                raise InputError(f"{option} {wrong} in {has}")
            if len(found) > 1:
                raise InputError(
                    f"{get_display_name(path)}: {len(found)} columns are named {' or '.join(sorted(set(found)))}"
                )
            chosen.append(found[0])
        return chosen[0], chosen[1]

    def list_splits(self) -> List[str]:
        return self.shares.splits if self.shares else [split for split in SPLITS if split in self.files]

    def map_splits_to_files(self) -> Dict[str, List[Path]]:
        return {key: [self.files[key]] for key in (*SPLITS, "input") if key in self.files}

    def count_raw_documents(self, split: str) -> Optional[int]:
        key = "input" if self.shares else split
        return int(_open_parquet(self.files[key]).metadata.num_rows) if self.formats[key] == "parquet" else None

    def iterate_raw_documents(self, split: str) -> Iterator[Item]:
        key = "input" if self.shares else split
        if self.formats[key] == "parquet":
            rows = _read_parquet_rows(self.files[key], list(self.columns[key]))
            yield from ((key, number, row) for number, row in enumerate(rows, 1))
        elif self.formats[key] in ("csv", "tsv"):
            yield from self._iterate_table_records(key)
        else:
            for number, line in enumerate(self.iterate_lines(self.files[key]), 1):
                if line.strip():
                    yield key, number, line
                else:
                    self.counts["blank lines between records"] += 1

    def _read_rows(self, key: str) -> Iterator[List[str]]:
        """Yield all rows of a CSV or TSV file, including the header. A blank line yields an empty row."""
        path = self.files[key]
        return read_rows(self.iterate_lines(path, ends=True), path, self.delimiters[key], self.quotes, self.counts)

    def _iterate_table_records(self, key: str) -> Iterator[Item]:
        """Yield an item for each record in a CSV or TSV file."""
        rows = enumerate(self._read_rows(key), 1)
        header, names = next((number, row) for number, row in rows if row)
        self.counts["blank lines between records"] += header - 1
        places = [names.index(column) for column in self.columns[key]]
        for number, row in rows:
            if not row:
                self.counts["blank lines between records"] += 1
            # If several tables were concatenated, the header occurs several times.
            elif row == names or [row[0].lstrip(BOM), *row[1:]] == names:
                yield key, number, ExcludedDocumentError("the header again")
            elif len(row) == len(names):
                try:
                    self.check_utf8(*row)
                    yield key, number, tuple(row[place] for place in places)
                except BadDocumentError as error:
                    yield key, number, error
            else:
                yield key, number, BadDocumentError(f"{len(row)} cells, but the header has {len(names)}")

    def describe_location(self, item: Item) -> str:
        key, number, _ = item
        return f"{get_display_name(self.files[key])}, {'line' if self.formats[key] == 'jsonl' else 'record'} {number}"

    def parse(self, item: Item) -> Document:
        key, _, content = item
        if isinstance(content, BadDocumentError):
            raise content
        if isinstance(content, str):
            self.check_utf8(content)
            record = parse_json_record(content)
            for column in self.columns[key]:
                if column not in record:
                    raise BadDocumentError(f'no "{column}"')
            content = tuple(record[column] for column in self.columns[key])
        source, target = content
        if self.lists_are_references and isinstance(target, list):
            references = [_list_nonblank_sentences(reference, "summary") for reference in target]
        else:
            references = [_list_nonblank_sentences(target, "summary")]
        # A summary with several lines is treated as a list that has already been split into sentences.
        is_list = isinstance(target, list) and not self.lists_are_references
        in_sentences = is_list or all(len(reference) > 1 for reference in references)
        return Document(
            _list_nonblank_sentences(source, "document"), references, isinstance(source, list), in_sentences
        )


def _find_matching_column_names(wanted: str, names: Sequence[str]) -> List[str]:
    """Return all names that are equal to ``wanted``."""
    exact = [name for name in names if name == wanted]
    return exact or [name for name in names if wanted and name.strip().casefold() == wanted.strip().casefold()]


def _list_nonblank_sentences(value: Any, what: str) -> List[str]:
    """Return the non-blank sentences in a list, or the non-blank lines of a string."""
    if value is None:
        return []
    if isinstance(value, str):
        return [line for line in value.replace("\r\n", "\n").split("\n") if line.strip()]
    if isinstance(value, list) and all(isinstance(piece, str) for piece in value):
        return [piece for piece in value if piece.strip()]
    kind = (
        "a list that contains something other than texts"
        if isinstance(value, list)
        else f"of type {type(value).__name__}"
    )
    raise BadDocumentError(f"{what} is {kind}")


def _suggest_json_lines(line: str) -> str:
    """Return advice to the user if a file contains a single JSON array instead of JSON lines."""
    begins_json = line.lstrip()[:1] in ("[", "{")
    return "; each record must be one line: jq -c '.[]' FILE makes it so of an array" if begins_json else ""


def _open_parquet(path: Path) -> Any:
    """Open a Parquet file with pyarrow. Raises InputError if the file is invalid or pyarrow is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(f"{get_display_name(path)}: Parquet needs pyarrow: pip install pyarrow") from None
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (OSError, pyarrow.ArrowException) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise InputError(f"{get_display_name(path)}: not Parquet ({reason})") from None


def _read_parquet_rows(path: Path, columns: List[str]) -> Iterator[Union[Tuple[Any, ...], BadDocumentError]]:
    """Yield the values in the given columns for each row, or an exception for rows that cannot be decoded."""
    from pyarrow import ArrowException

    file = _open_parquet(path)
    try:
        for batch in file.iter_batches(batch_size=256, columns=columns):
            try:
                rows = batch.to_pylist()
            except UnicodeDecodeError:
                rows = [_read_parquet_row(batch.slice(number, 1)) for number in range(batch.num_rows)]
            for row in rows:
                yield row if isinstance(row, BadDocumentError) else tuple(row[column] for column in columns)
    except (OSError, ValueError, KeyError, OverflowError, ArrowException) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise InputError(f"{get_display_name(path)}: damaged Parquet ({reason})") from None


def _read_parquet_row(batch: Any) -> Union[Dict[str, Any], BadDocumentError]:
    """Return the only row in a batch, or an exception if the row cannot be decoded."""
    try:
        row: Dict[str, Any] = batch.to_pylist()[0]
        return row
    except UnicodeDecodeError:
        return BadDocumentError("not UTF-8")


class SciTldrReader(TableReader):
    name = "scitldr"
    summary = "SciTLDR: train.jsonl, dev.jsonl and test.jsonl, with several references per document"
    description = """\
The JSON lines of Cachola et al. (2020) contain "source", a list of sentences, and "target", a list of references."""

    def __init__(self, args: argparse.Namespace):
        files = find_jsonl_files(check_path_exists("--data", args.data, directory=True))
        if not files:
            raise InputError(f"--data {args.data}: no train.jsonl, dev.jsonl or test.jsonl")
        super().__init__(make_jsonl_options(args, files, target_list="references"))

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--data",
            metavar="DIR",
            type=Path,
            required=True,
            help="folder containing one or more of train.jsonl, dev.jsonl and test.jsonl",
        )
