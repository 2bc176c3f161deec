"""Read tables with a document column and a summary column: JSON lines, CSV, TSV, Parquet, Hugging Face datasets.

Hugging Face datasets are read offline, from folders written by ``save_to_disk`` or from the local cache.
"""

import argparse
import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

from fairseq_etads.files import SPLITS
from fairseq_etads.files.inputs import ESCAPE_INVALID, get_display_name
from fairseq_etads.platform.command_options import option
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text import records
from fairseq_etads.text.documents import JOIN_LINES_HELP, Document, join_printed_lines

from .base import (
    INPUT_EXCLUDES,
    SPLIT_NAMES,
    Reader,
    SharesOptions,
    check_path_exists,
    parse_input_options,
    parse_shares,
    refuse_shares,
)

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
        source, target = [records.get_value(values, column) for column in self.columns[key]]
        source = join_printed_lines(source) if self.joins_lines and isinstance(source, str) else source
        is_list = isinstance(target, list)
        if is_list and "references" in (self.args.target_list, self.columns[key][1]):
            is_list, summaries = False, target
        else:
            summaries = [target]
        references = [records.list_pieces(summary, "summary") for summary in summaries]
        # A summary with several lines is treated as a list that has already been split into sentences.
        in_sentences = is_list or min(map(len, references), default=2) > 1
        return Document(records.list_pieces(source, "document"), references, isinstance(source, list), in_sentences)


ROWS_AT_A_TIME = 256


class HuggingFaceReader(TableReader):
    name = "hf"
    summary = "a Hugging Face data set, from a folder written by save_to_disk or from the local cache"
    description = f"""\
  etads-corpus hf --data FOLDER --out TEXT                       a folder written by save_to_disk
  etads-corpus hf --data ccdv/cnn_dailymail --config 3.0.0 --out TEXT      a data set loaded earlier by load_dataset

Nothing is downloaded. The datasets package is required (pip install datasets). The names of known columns are
{", ".join(KNOWN_COLUMNS[:5])},
{", ".join(KNOWN_COLUMNS[5:])}. The splits are train, validation and test; a data
set without splits is divided according to --split."""

    @dataclass
    class Options(ColumnOptions, SharesOptions):
        data: str = option(None, "folder of save_to_disk, or name in the cache", metavar="FOLDER|NAME", required=True)
        config: Optional[str] = option(None, "configuration of the data set, such as 3.0.0", metavar="NAME")

    def __init__(self, args: argparse.Namespace):
        super(TableReader, self).__init__(args)
        self._data, self._config = str(args.data), args.config
        found = _load_dataset(self._data, self._config)
        self._names = self._map_split_names(found)
        self.paths = {key: Path(f"{self._data}, {name or 'data set'}") for key, name in self._names.items()}
        for key, name in self._names.items():
            table = found[name] if name else found
            self.sizes[key] = table.num_rows
            self.files[key] = [Path(file["filename"]) for file in table.cache_files]
            self.columns[key] = self._choose_columns(self.paths[key], table.column_names)

    def _map_split_names(self, found: Any) -> Dict[str, str]:
        """Return the name in the data set of each input, or an empty name for a data set without splits."""
        names = list(found) if isinstance(found, dict) else []
        known = {split: [name for name in names if name in stems] for split, stems in SPLIT_NAMES.items()}
        known = {split: there for split, there in known.items() if there}
        if names and not known:
            raise InputError(f"--data {self._data}: no train, validation or test; it has {', '.join(names)}")
        for name in names:
            if [name] not in (there[:1] for there in known.values()):
                self.notes.append(f"{self._data}: {name} is left out; it is not a split")
        if names and (self.args.shares is None or len(known) > 1):
            refuse_shares(self.args, f"the data set has splits: {', '.join(names)}")
            return {split: there[0] for split, there in known.items()}
        self.shares = parse_shares(self.args)
        return {"input": next(iter(known.values()), [""])[0]}

    def iterate_raw_documents(self, key: str) -> Iterator[Item]:
        # Load the dataset again, because the reader is copied to other processes and must not contain open files.
        found, columns = _load_dataset(self._data, self._config), self.columns[key]
        table = found[self._names[key]] if self._names[key] else found
        number = 0
        try:
            for batch in table.select_columns(columns).iter(batch_size=ROWS_AT_A_TIME):
                for row in zip(*(batch[column] for column in columns)):
                    number += 1
                    yield f"{self.paths[key]}, record {number}", key, dict(zip(columns, row))
        except (OSError, ValueError) as error:  # pyarrow's errors are subclasses of these
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(f"{self.paths[key]}: damaged after record {number} ({reason})") from None


def _load_dataset(data: str, config: Optional[str]) -> Any:
    """Load a datasets.Dataset or DatasetDict without downloading anything."""
    os.environ.update(HF_DATASETS_OFFLINE="1", HF_HUB_OFFLINE="1", HF_DATASETS_DISABLE_PROGRESS_BARS="1")
    try:
        import datasets
    except ImportError:
        raise InputError(f"--data {data}: datasets is missing: pip install datasets") from None
    path = Path(data)
    saved = path.is_dir()
    if saved and not any((path / name).is_file() for name in ("dataset_dict.json", "state.json")):
        reason = "not a folder of save_to_disk (no dataset_dict.json or state.json in it)"
        advice = "files of JSON lines, CSV or Parquet are read by: etads-corpus table"
        raise InputError(f"--data {data}: {reason}; {advice}")
    if saved and config:
        raise InputError(f"--config {config}: applies only to a name; {data} is a folder")
    # The module may have been imported before the environment variables were set.
    before, datasets.config.HF_DATASETS_OFFLINE = datasets.config.HF_DATASETS_OFFLINE, True
    try:
        return datasets.load_from_disk(data) if saved else datasets.load_dataset(data, config)
    except Exception as error:  # pyarrow, fsspec and huggingface_hub raise many kinds of errors
        reason = (str(error).splitlines() or [type(error).__name__])[0]
    finally:
        datasets.config.HF_DATASETS_OFFLINE = before
    if saved:
        raise InputError(f"--data {data}: cannot be read ({reason})")
    call = f"load_dataset({data!r}{f', {config!r}' if config else ''})"
    reason = f"no such folder, and no data set of this name in this machine's cache ({reason})"
    advice = f"on a machine with network access, call {call}.save_to_disk(FOLDER), and give that folder"
    raise InputError(f"--data {data}: {reason}. Nothing is downloaded here: {advice}")
