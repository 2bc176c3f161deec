"""Read tables with a document column and a summary column (JSON lines, CSV, TSV and Parquet)."""

import argparse
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Tuple

from fairseq_etads.files import SPLITS
from fairseq_etads.files.inputs import ESCAPE_INVALID, get_display_name
from fairseq_etads.platform.command_options import option
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text import records
from fairseq_etads.text.cleaning import JOIN_LINES_HELP, join_printed_lines
from fairseq_etads.text.documents import Document

from .base import INPUT_EXCLUDES, Reader, SharesOptions, check_path_exists, parse_input_options

FORMATS = ("jsonl", "csv", "tsv", "parquet")
KNOWN_COLUMNS = ["/".join(pair) for pair in records.COLUMNS]
Item = Tuple[str, str, records.Record]
"""Location, input in Reader.columns, and the record."""


def detect_table_format(path: Path) -> str:
    """Return a table's format: CSV if unknown and without a suffix, as standard input. Raises InputError otherwise."""
    found = records.detect_record_format(path) or ("" if path.suffix else "csv")
    if not found:
        ends = ", .".join(records.SUFFIXES)
        raise InputError(f"{path}: unknown format; choose a name that ends in .{ends}, or give --format")
    return found


@dataclass
class ColumnOptions:
    """Options that name the columns, and the option --target-list."""

    source_column: str = option("", "column that contains the documents (default: a known name)", metavar="NAME")
    target_column: str = option("", "column that contains the summaries (default: a known name)", metavar="NAME")
    target_list: str = option(
        "sentences",
        "meaning of a list in the summary column: the sentences of one summary, or alternative reference summaries",
        choices=("sentences", "references"),
    )


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

    @dataclass
    class Options(ColumnOptions, SharesOptions):
        train: Optional[Path] = option(None, "table with the training pairs")
        valid: Optional[Path] = option(None, "table with the validation pairs")
        test: Optional[Path] = option(None, "table with the test pairs")
        input: Optional[Path] = option(
            None, "table with the pairs of all splits, instead of --train, --valid and --test", excludes=INPUT_EXCLUDES
        )
        format: Optional[str] = option(None, "format of all files (default: as their names say)", choices=FORMATS)
        delimiter: Optional[str] = option(
            None,
            'column separator of CSV and TSV files, either a single character or "tab" (default: comma, tab, semicolon '
            "or vertical bar, depending on the header)",
            metavar="CHAR",
        )
        no_quotes: bool = option(False, records.NO_QUOTES_HELP)
        join_lines: bool = option(False, JOIN_LINES_HELP)

    joins_lines = False

    def __init__(self, args: argparse.Namespace):
        super().__init__(args)
        self.joins_lines = args.join_lines
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
        for key, path in self.paths.items():
            opened = self._open(key)
            if not opened.columns:
                raise InputError(f"{get_display_name(path)}: empty")
            self.columns[key], self.sizes[key], self.delimiters[key] = opened.columns, opened.size, opened.delimiter
        self.counts.clear()  # these lines will be read, counted and warned of again later

    def _open(self, key: str) -> records.Records:
        """Open a file. Its columns, based on the header or first record, are those of the documents and summaries."""
        path, delimiter, quotes = self.paths[key], self.delimiters.get(key, self.delimiter), not self.args.no_quotes
        strict = self.fallback == ESCAPE_INVALID
        options = records.ReadingOptions(self.fallback, delimiter, quotes, self.args.skip_bad, checks_rows=strict)
        choose = functools.partial(self._choose_columns, path)
        return records.Table(path, self.formats[key], choose, options, self.counts, self._note).open()

    def _note(self, text: str) -> None:
        """Add a message to the report, unless an earlier reading of the same file has added it."""
        if text not in self.notes:
            self.notes.append(text)

    def _choose_columns(self, path: Path, names: List[str]) -> List[str]:
        asked = (self.args.source_column, self.args.target_column)
        return records.choose_columns(names, get_display_name(path), self._note, asked)

    def iterate_raw_documents(self, key: str) -> Iterator[Item]:
        where = f"{get_display_name(self.paths[key])}, {'line' if self.formats[key] == 'jsonl' else 'record'}"
        for number, record in self._open(key).rows:
            yield f"{where} {number}", key, record

    def parse(self, item: Item) -> Document:
        _, key, record = item
        if isinstance(record, str):
            self.check_utf8(record)
        values = records.parse_record(record)
        source, target = (records.get_value(values, column) for column in self.columns[key])
        source = join_printed_lines(source) if self.joins_lines and isinstance(source, str) else source
        are_references = self.args.target_list == "references" or self.columns[key][1] == "references"
        are_references = are_references and isinstance(target, list)
        summaries = target if are_references else [target]
        references = [records.list_pieces(summary, "summary") for summary in summaries]
        # A summary with several lines is treated as a list that has already been split into sentences.
        is_list = isinstance(target, list) and not are_references
        in_sentences = is_list or all(len(reference) > 1 for reference in references)
        return Document(records.list_pieces(source, "document"), references, isinstance(source, list), in_sentences)
