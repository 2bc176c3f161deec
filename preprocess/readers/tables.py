"""Read tables with a document column and a summary column (JSON lines, CSV, TSV and Parquet), and SciTLDR."""

import argparse
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Dict, Iterator, List, Optional, Tuple

from fairseq_etads.files import SPLITS
from fairseq_etads.files.inputs import ESCAPE_INVALID, get_display_name
from fairseq_etads.platform.command_options import option
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text import records
from fairseq_etads.text.cleaning import JOIN_LINES_HELP, join_printed_lines
from fairseq_etads.text.documents import Document

from .base import INPUT_EXCLUDES, Reader, SharesOptions, check_path_exists, find_first_existing, parse_input_options

FORMATS = ("jsonl", "csv", "tsv", "parquet")
KNOWN_COLUMNS = ["/".join(pair) for pair in records.COLUMNS]
Item = Tuple[str, int, records.Record]
"""Key in TableReader.paths, number of the line or record, and the record."""


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


def make_jsonl_options(
    args: argparse.Namespace, files: Dict[str, Path], target_list: str, columns: Tuple[str, str] = ("source", "target")
) -> argparse.Namespace:
    """Return ``args`` with options for :class:`TableReader` to read JSON lines with the given keys."""
    known = {"source_column": columns[0], "target_column": columns[1], "target_list": target_list}
    not_given = dict.fromkeys((*SPLITS, "input", "shares", "split_seed", "format", "delimiter"))
    return argparse.Namespace(**{**vars(args), **not_given, **files, **known, "no_quotes": False, "join_lines": False})


def detect_table_format(path: Path) -> str:
    """Return a table's format: CSV if unknown and without a suffix, as standard input. Raises InputError otherwise."""
    found = records.detect_record_format(path) or ("" if path.suffix else "csv")
    if not found:
        raise InputError(
            f"{path}: unknown format; choose a name that ends in .{', .'.join(records.SUFFIXES)}, or give --format"
        )
    return found


@dataclass
class ColumnOptions:
    """Options that name the columns, and the option --target-list."""

    source_column: str = option(
        "", "name of the column that contains the documents (default: detected automatically)", metavar="NAME"
    )
    target_column: str = option(
        "", "name of the column that contains the summaries (default: detected automatically)", metavar="NAME"
    )
    target_list: str = option(
        "sentences",
        "meaning of a list in the summary column: the sentences of one summary, or alternative reference summaries",
        choices=("sentences", "references"),
    )


@dataclass
class TableReaderOptions(ColumnOptions, SharesOptions):
    """Options of ``etads-corpus table``."""

    train: Optional[Path] = option(None, "table with the training pairs")
    valid: Optional[Path] = option(None, "table with the validation pairs")
    test: Optional[Path] = option(None, "table with the test pairs")
    input: Optional[Path] = option(
        None, "table with the pairs of all splits, instead of --train, --valid and --test", excludes=INPUT_EXCLUDES
    )
    format: Optional[str] = option(
        None, "format of all input files (default: determined from the file names)", choices=FORMATS
    )
    delimiter: Optional[str] = option(
        None,
        'column separator of CSV and TSV files, either a single character or "tab" (default: comma, tab, semicolon or '
        "vertical bar, depending on the header)",
        metavar="CHAR",
    )
    no_quotes: bool = option(False, records.NO_QUOTES_HELP)
    join_lines: bool = option(False, JOIN_LINES_HELP)


class TableReader(Reader):
    name = "table"
    summary = "JSON lines, CSV, TSV or Parquet with a document column and a summary column"
    description = f"""\
  etads-corpus table --train train.csv --valid valid.csv --test test.csv --out TEXT
  etads-corpus table --input all.jsonl --split 90/5/5 --out TEXT

The name of a file determines its format: .jsonl, .csv, .tsv (also .gz, .xz, .bz2, .zst) or .parquet; - is standard
input. The names of known columns, in upper or lower case, are {", ".join(KNOWN_COLUMNS[:4])},
{", ".join(KNOWN_COLUMNS[4:])}. Each
value is a text or a list of sentences. Each line of a document is a paragraph. If a summary consists of several lines,
each line is a sentence."""
    options: ClassVar[type] = TableReaderOptions
    joins_lines = False

    def __init__(self, args: argparse.Namespace):
        super().__init__(args)
        self.asked_columns: Tuple[str, str] = (args.source_column, args.target_column)
        self.lists_are_references = args.target_list == "references"
        self.quotes, self.joins_lines = not args.no_quotes, args.join_lines
        self.skip_bad: bool = args.skip_bad
        self.delimiter = records.parse_delimiter(args.delimiter or "")
        self.shares = parse_input_options(args)
        paths = {key: getattr(args, key) for key in (*SPLITS, "input") if getattr(args, key)}
        self.paths: Dict[str, Path] = {key: check_path_exists(f"--{key}", path) for key, path in paths.items()}
        self.files = {key: [path] for key, path in self.paths.items()}
        self.formats = {key: args.format or detect_table_format(path) for key, path in self.paths.items()}
        for written, given in ((f"--delimiter {args.delimiter}", self.delimiter), ("--no-quotes", args.no_quotes)):
            if given and not {"csv", "tsv"}.intersection(self.formats.values()):
                raise InputError(f"{written}: applies only to CSV and TSV")
        self.delimiters: Dict[str, str] = {}
        self.sizes: Dict[str, Optional[int]] = {}
        for key, path in self.paths.items():
            opened = self._open(key)
            if not opened.columns:
                raise InputError(f"{get_display_name(path)}: empty")
            self.columns[key], self.sizes[key], self.delimiters[key] = opened.columns, opened.size, opened.delimiter
        self.counts.clear()  # these lines will be read, counted and warned of again later

    def _open(self, key: str) -> records.Records:
        """Open a file. Its columns, based on the header or first record, are those of the documents and summaries."""
        path = self.paths[key]
        delimiter, strict = self.delimiters.get(key, self.delimiter), self.fallback == ESCAPE_INVALID
        options = records.ReadingOptions(self.fallback, delimiter, self.quotes, self.skip_bad, checks_rows=strict)
        choose = functools.partial(self._choose_columns, path)
        return records.Table(path, self.formats[key], choose, options, self.counts, self._note).open()

    def _note(self, text: str) -> None:
        """Add a message to the report, unless an earlier reading of the same file has added it."""
        if text not in self.notes:
            self.notes.append(text)

    def _choose_columns(self, path: Path, names: List[str]) -> List[str]:
        return records.choose_columns(names, get_display_name(path), self._note, self.asked_columns)

    def count_raw_documents(self, split: str) -> Optional[int]:
        return self.sizes["input" if self.shares else split]

    def iterate_raw_documents(self, split: str) -> Iterator[Item]:
        key = "input" if self.shares else split
        for number, record in self._open(key).rows:
            yield key, number, record

    def describe_location(self, item: Item) -> str:
        key, number, _ = item
        return f"{get_display_name(self.paths[key])}, {'line' if self.formats[key] == 'jsonl' else 'record'} {number}"

    def parse(self, item: Item) -> Document:
        key, _, record = item
        if isinstance(record, str):
            self.check_utf8(record)
        values = records.parse_record(record)
        source, target = (records.get_value(values, column) for column in self.columns[key])
        source = join_printed_lines(source) if self.joins_lines and isinstance(source, str) else source
        are_references = self.lists_are_references or self.columns[key][1] == "references"
        are_references = are_references and isinstance(target, list)
        summaries = target if are_references else [target]
        references = [records.list_pieces(summary, "summary") for summary in summaries]
        # A summary with several lines is treated as a list that has already been split into sentences.
        is_list = isinstance(target, list) and not are_references
        in_sentences = is_list or all(len(reference) > 1 for reference in references)
        return Document(records.list_pieces(source, "document"), references, isinstance(source, list), in_sentences)


class FolderOrTableReader(TableReader):
    """Base class of readers for a corpus of JSON lines or, in the form of its authors, of many files in folders."""

    items: Dict[str, List[Any]]  # of each split, found in the folders; empty for JSON lines

    def count_raw_documents(self, split: str) -> Optional[int]:
        return len(self.items[split]) if self.items else super().count_raw_documents(split)

    def iterate_raw_documents(self, split: str) -> Iterator[Any]:
        return iter(self.items[split]) if self.items else super().iterate_raw_documents(split)


@dataclass
class SciTldrOptions:
    """Options of ``etads-corpus scitldr``."""

    data: Path = option(
        None, "folder containing one or more of train.jsonl, dev.jsonl and test.jsonl", metavar="DIR", required=True
    )


class SciTldrReader(TableReader):
    name = "scitldr"
    summary = "SciTLDR: train.jsonl, dev.jsonl and test.jsonl, with several references per document"
    description = """\
The JSON lines of Cachola et al. (2020) contain "source", a list of sentences, and "target", a list of references."""
    options = SciTldrOptions

    def __init__(self, args: argparse.Namespace):
        files = find_jsonl_files(check_path_exists("--data", args.data, directory=True))
        if not files:
            raise InputError(f"--data {args.data}: no train.jsonl, dev.jsonl or test.jsonl")
        super().__init__(make_jsonl_options(args, files, target_list="references"))
