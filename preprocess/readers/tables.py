"""Read tables with a document column and a summary column (JSON lines, CSV, TSV and Parquet), and SciTLDR."""

import argparse
import functools
import re
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

from fairseq_etads.files import SPLITS
from fairseq_etads.files.inputs import get_display_name
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.documents import BadDocumentError, Document, parse_json_record
from fairseq_etads.text.records import (
    BLANK,
    COLUMNS,
    NO_QUOTES_HELP,
    SUFFIXES,
    Table,
    choose_columns,
    choose_json_columns,
    describe_columns,
    detect_record_format,
    open_table,
    parse_delimiter,
    read_json_lines,
)

from .base import Reader, check_path_exists, find_first_existing
from .split_shares import add_input_options, parse_input_options

FORMATS = ("jsonl", "csv", "tsv", "parquet")
_SENTENCE = re.compile(r"\s*<S>\s*(.*?)\s*</S>\s*", re.DOTALL)
"""A sentence in the abstracts of arXiv and PubMed (Cohan et al. 2018)."""
Item = Tuple[str, int, Any]
"""Key in TableReader.paths, number of the line or record, and a line of JSON, a pair of cells or a BadDocumentError."""


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
    """Return ``args`` with options for :class:`TableReader` to read JSON lines with the keys "source" and "target"."""
    columns = {"source_column": "source", "target_column": "target", "target_list": target_list, "no_quotes": False}
    not_given = dict.fromkeys((*SPLITS, "input", "shares", "split_seed", "format", "delimiter"))
    return argparse.Namespace(**{**vars(args), **not_given, **files, **columns})


def detect_table_format(path: Path) -> str:
    """Return a table's format: CSV if unknown and without a suffix, as standard input. Raises InputError otherwise."""
    found = detect_record_format(path) or ("" if path.suffix else "csv")
    if not found:
        raise InputError(
            f"{path}: unknown format; choose a name that ends in .{', .'.join(SUFFIXES)}, or give --format"
        )
    return found


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
        self.shares = parse_input_options(args)
        paths = {key: getattr(args, key) for key in (*SPLITS, "input") if getattr(args, key)}
        self.paths: Dict[str, Path] = {key: check_path_exists(f"--{key}", path) for key, path in paths.items()}
        self.files = {key: [path] for key, path in self.paths.items()}
        self.formats = {key: args.format or detect_table_format(path) for key, path in self.paths.items()}
        for option, given in ((f"--delimiter {args.delimiter}", self.delimiter), ("--no-quotes", args.no_quotes)):
            if given and not {"csv", "tsv"}.intersection(self.formats.values()):
                raise InputError(f"{option}: applies only to CSV and TSV")
        self.delimiters: Dict[str, str] = {}
        self.columns = {key: self._find_columns(key) for key in self.paths}
        self.counts.clear()  # these lines will be read, counted and warned of again later

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
        add("--no-quotes", action="store_true", help=NO_QUOTES_HELP)

    def _find_columns(self, key: str) -> List[str]:
        """Return the names of the document and summary columns, based on the header or first record of a file."""
        path = self.paths[key]
        if self.formats[key] == "parquet":
            return self._choose_columns(path, list(_open_parquet(path).schema_arrow.names))
        if self.formats[key] in ("csv", "tsv"):
            table = self._open_table(key)
            self.delimiters[key] = table.delimiter
            return table.columns
        lines = read_json_lines(self.iterate_lines(path), path, self.counts)
        columns, _ = choose_json_columns(lines, path, functools.partial(self._choose_columns, path), self.skip_bad)
        if not columns:
            raise InputError(f"{get_display_name(path)}: empty")
        return columns

    def _open_table(self, key: str) -> Table:
        path = self.paths[key]
        lines, choose = self.iterate_lines(path, ends=True), functools.partial(self._choose_columns, path)
        delimiter, tabs = self.delimiters.get(key, self.delimiter), self.formats[key] == "tsv"
        return open_table(lines, path, choose, self.counts, self._note, tabs, delimiter, self.quotes)

    def _note(self, text: str) -> None:
        """Add a message to the report, unless an earlier reading of the same file has added it."""
        if text not in self.notes:
            self.notes.append(text)

    def _choose_columns(self, path: Path, names: List[str]) -> List[str]:
        """Choose the document column and the summary column."""
        where = get_display_name(path)
        chosen = choose_columns(names, where, self.asked_columns)
        said = describe_columns(names, chosen, self.asked_columns[0], where)
        if said:
            self._note(said)
        return chosen

    def count_raw_documents(self, split: str) -> Optional[int]:
        key = "input" if self.shares else split
        return int(_open_parquet(self.paths[key]).metadata.num_rows) if self.formats[key] == "parquet" else None

    def iterate_raw_documents(self, split: str) -> Iterator[Item]:
        key = "input" if self.shares else split
        path = self.paths[key]
        if self.formats[key] == "parquet":
            rows = _read_parquet_rows(path, list(self.columns[key]))
            yield from ((key, number, row) for number, row in enumerate(rows, 1))
        elif self.formats[key] == "jsonl":
            lines = read_json_lines(self.iterate_lines(path), path, self.counts)
            yield from ((key, number, line) for number, line in lines)
        else:
            table = self._open_table(key)
            places = [table.names.index(column) for column in self.columns[key]]
            for number, cells in table.rows:
                if isinstance(cells, BadDocumentError):
                    yield key, number, cells
                elif cells:
                    try:
                        self.check_utf8(*cells)
                        yield key, number, tuple(cells[place] for place in places)
                    except BadDocumentError as error:
                        yield key, number, error
                else:
                    self.counts[BLANK] += 1

    def describe_location(self, item: Item) -> str:
        key, number, _ = item
        return f"{get_display_name(self.paths[key])}, {'line' if self.formats[key] == 'jsonl' else 'record'} {number}"

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
        are_references = self.lists_are_references or self.columns[key][1] == "references"
        are_references = are_references and isinstance(target, list)
        references = [_list_pieces(reference, "summary") for reference in (target if are_references else [target])]
        # A summary with several lines is treated as a list that has already been split into sentences.
        is_list = isinstance(target, list) and not are_references
        in_sentences = is_list or all(len(reference) > 1 for reference in references)
        return Document(_list_pieces(source, "document"), references, isinstance(source, list), in_sentences)


def _list_pieces(value: Any, what: str) -> List[str]:
    """Return the non-blank sentences in a list, or the non-blank lines of a string."""
    if isinstance(value, str):
        value = value.replace("\r\n", "\n").split("\n")
    if value is None or (isinstance(value, list) and all(isinstance(piece, str) for piece in value)):
        return [_SENTENCE.sub(r"\1", piece) for piece in value or () if piece.strip()]
    if isinstance(value, list):
        raise BadDocumentError(f"{what} is a list that contains something other than texts")
    raise BadDocumentError(f"{what} is of type {type(value).__name__}")


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


def _read_parquet_row(batch: Any) -> Any:
    """Return the only row in a batch, or an exception if the row cannot be decoded."""
    try:
        return batch.to_pylist()[0]
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
