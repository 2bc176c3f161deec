"""Tables with a column of documents and one of summaries: JSON lines, CSV, TSV and Parquet; SciTLDR."""

import argparse
import csv
import json
import re
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from fairseq_etads.text.files import InputError

from ..documents import BadDocument, Document
from ..files import SPLITS
from .base import Reader, existing, first_existing

COLUMNS = (
    ("article", "highlights"),
    ("article", "abstract"),
    ("document", "summary"),
    ("dialogue", "summary"),
    ("text", "summary"),
    ("source", "target"),
    ("src", "tgt"),
    ("report", "summary"),
    ("text", "headline"),
    ("document", "title"),
)
"""Pairs of column names, those of Hugging Face's data sets among them; the first that a table has is taken."""

FORMATS = ("jsonl", "json", "csv", "tsv", "parquet")
LONGEST_CELL = 1 << 26
"""Characters of a cell of CSV; a longer one comes of a quote that was never closed."""

_LONE_CR = re.compile(r"\r(?!\n)")

Item = Tuple[str, int, Any]
"""File, number of the line or record, and its content: the two cells, the split and line of JSON, or what is wrong."""


def find_jsonl(folder: Path) -> Dict[str, Path]:
    """train.jsonl, dev.jsonl (or valid, validation, val) and test.jsonl of a folder, plain or compressed."""
    names = {"train": ["train"], "valid": ["dev", "valid", "validation", "val"], "test": ["test"]}
    found = {split: first_existing([folder], [f"{stem}.jsonl" for stem in stems]) for split, stems in names.items()}
    return {split: path for split, path in found.items() if path}


def jsonl_options(args: argparse.Namespace, files: Dict[str, Path], target_list: str) -> argparse.Namespace:
    """Options of :class:`Table` for JSON lines with "source" and "target", beside the shared options in ``args``."""
    columns = {"source_column": "source", "target_column": "target", "target_list": target_list, "no_quotes": False}
    return argparse.Namespace(**{**vars(args), **dict.fromkeys(SPLITS), **files, **columns})


def format_of(path: Path) -> str:
    """The format that a file name tells, .gz, .xz and .bz2 at its end aside.

    Raises:
        InputError: it tells none.
    """
    suffixes = [suffix[1:].lower() for suffix in path.suffixes[-2:] if suffix not in (".gz", ".xz", ".bz2")]
    if suffixes and suffixes[-1] in FORMATS:
        return suffixes[-1]
    raise InputError(f"{path}: of which format? choose a name that ends in .{', .'.join(FORMATS)}")


class Table(Reader):
    name = "table"
    summary = "JSON lines, CSV, TSV or Parquet with a column of documents and one of summaries"
    description = f"""\
The format is told by the name: .jsonl, .csv, .tsv (also .gz, .xz, .bz2) or .parquet. Known columns are
{", ".join("/".join(pair) for pair in COLUMNS)}. A value is a text, whose lines
are paragraphs, or the sentences of a summary if it has several; or a list of sentences."""

    def __init__(self, args: argparse.Namespace):
        super().__init__(args)
        self.asked_columns: Tuple[str, str] = (args.source_column, args.target_column)
        self.lists_are_references = args.target_list == "references"
        self.quotes = not args.no_quotes
        self.skip_bad: bool = args.skip_bad
        files = {split: getattr(args, split) for split in SPLITS if getattr(args, split)}
        if not files:
            raise InputError("give at least one of --train, --valid and --test")
        self.files = {split: existing(f"--{split}", path) for split, path in files.items()}
        self.columns = {split: self._columns(path) for split, path in self.files.items()}
        self.counts.clear()  # the lines that were looked at will be read again

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        for split in SPLITS:
            parser.add_argument(f"--{split}", metavar="FILE", type=Path)
        parser.add_argument(
            "--source-column", metavar="NAME", default="", help="column of documents, if not a known one"
        )
        parser.add_argument("--target-column", metavar="NAME", default="", help="column of summaries")
        parser.add_argument("--no-quotes", action="store_true", help="CSV, TSV: a quote does not enclose a cell")
        parser.add_argument(
            "--target-list",
            choices=("sentences", "references"),
            default="sentences",
            help="what a list in the column of summaries holds (default: %(default)s)",
        )

    def _columns(self, path: Path) -> Tuple[str, str]:
        """The names of the columns of documents and of summaries, from a file's header or its first record."""
        if format_of(path) == "parquet":
            return self._choose(path, list(_parquet(path).schema_arrow.names))
        if format_of(path) in ("csv", "tsv"):
            return self._choose(path, next((row for row in self._rows(path) if row), []))
        first: Optional[InputError] = None
        for number, line in enumerate(self.lines(path), 1):
            if not line.strip():
                continue
            try:
                return self._choose(path, list(_record(line)))
            except BadDocument as error:
                found = InputError(f"{path}, line {number}: {error}{_array_hint(line)}")
            except InputError as error:
                found = error
            if not self.skip_bad:  # with --skip-bad the first record that has the columns tells them
                raise found
            first = first or found
        raise first or InputError(f"{path}: empty")

    def _choose(self, path: Path, names: Sequence[str]) -> Tuple[str, str]:
        """The two columns to take among ``names``: those asked for, else the first known pair."""
        known = next((pair for pair in COLUMNS if pair[0] in names and pair[1] in names), ("", ""))
        chosen = (self.asked_columns[0] or known[0], self.asked_columns[1] or known[1])
        for column, option in zip(chosen, ("--source-column", "--target-column")):
            if column not in names:
                wrong = f"{column}: no such column" if column else "is needed: no known pair of columns"
                raise InputError(f"{option} {wrong} in {path}; it has {', '.join(names) or 'none'}")
            if names.count(column) > 1:
                raise InputError(f"{path}: {names.count(column)} columns are named {column}")
        return chosen

    def splits(self) -> List[str]:
        return [split for split in SPLITS if split in self.files]

    def inputs(self) -> Dict[str, List[Path]]:
        return {split: [self.files[split]] for split in self.splits()}

    def total(self, split: str) -> Optional[int]:
        path = self.files[split]
        return int(_parquet(path).metadata.num_rows) if format_of(path) == "parquet" else None

    def items(self, split: str) -> Iterator[Item]:
        path, columns = self.files[split], list(self.columns[split])
        if format_of(path) == "parquet":
            rows = (tuple(row[column] for column in columns) for row in _parquet_rows(path, columns))
            yield from ((str(path), number, row) for number, row in enumerate(rows, 1))
        elif format_of(path) in ("csv", "tsv"):
            yield from self._cells(path, columns)
        else:
            for number, line in enumerate(self.lines(path), 1):
                if line.strip():
                    yield str(path), number, (split, line)
                else:
                    self.counts["blank lines between records"] += 1

    def _cells(self, path: Path, columns: List[str]) -> Iterator[Item]:
        """Items of a CSV or TSV file."""
        rows = enumerate(self._rows(path), 1)
        header, names = next((number, row) for number, row in rows if row)
        self.counts["blank lines between records"] += header - 1
        places = [names.index(column) for column in columns]
        for number, row in rows:
            if len(row) == len(names):
                yield str(path), number, tuple(row[place] for place in places)
            elif row:
                yield str(path), number, f"{len(row)} cells, but the header has {len(names)}"
            else:
                self.counts["blank lines between records"] += 1

    def _rows(self, path: Path) -> Iterator[List[str]]:
        """All rows of a CSV or TSV file, its header too; a blank line is an empty row."""
        csv.field_size_limit(LONGEST_CELL)
        how = {"strict": True} if self.quotes else {"quoting": csv.QUOTE_NONE}
        rows = csv.reader(self._csv_lines(path), delimiter="\t" if format_of(path) == "tsv" else ",", **how)
        try:
            yield from rows
        except csv.Error as error:
            advice = "; --no-quotes takes quotes for characters like others" if self.quotes else ""
            reason = f"not {format_of(path).upper()} ({error}){advice}"
            raise InputError(f"{path}, line {rows.line_num}: {reason}") from None

    def _csv_lines(self, path: Path) -> Iterator[str]:
        """Lines without what the csv module stops at: carriage returns in cells and, before Python 3.11, NULs."""
        for number, line in enumerate(self.lines(path, ends=True), 1):
            line, found = _LONE_CR.subn(" ", line.replace("\0", " "))
            if found and number == 1:
                raise InputError(f"{path}, line 1: a carriage return inside the header; lines must end in newlines")
            self.counts["carriage returns replaced by spaces"] += found
            yield line

    def where(self, item: Item) -> str:
        return f"{item[0]}, {'line' if format_of(Path(item[0])) in ('jsonl', 'json') else 'record'} {item[1]}"

    def parse(self, item: Item) -> Document:
        content = item[2]
        if isinstance(content, str):
            raise BadDocument(content)
        if format_of(Path(item[0])) in ("jsonl", "json"):
            split, line = content
            columns, record = self.columns[split], _record(line)
            for column in columns:
                if column not in record:
                    raise BadDocument(f'no "{column}"')
            source, target = (record[column] for column in columns)
        else:
            source, target = content
        if self.lists_are_references and isinstance(target, list):
            references = [_pieces(reference, "summary") for reference in target]
        else:
            references = [_pieces(target, "summary")]
        # a summary in several lines is in sentences already, like a list of them
        is_list = isinstance(target, list) and not self.lists_are_references
        in_sentences = is_list or all(len(reference) > 1 for reference in references)
        return Document(_pieces(source, "document"), references, isinstance(source, list), in_sentences)


def _pieces(value: Any, what: str) -> List[str]:
    """The sentences of a list or the lines of a text, without blank ones; ``what`` names the value in messages.

    Raises:
        BadDocument: it is neither.
    """
    if value is None:
        return []
    if isinstance(value, str):
        return [line for line in value.replace("\r\n", "\n").split("\n") if line.strip()]
    if isinstance(value, list) and all(isinstance(piece, str) for piece in value):
        return [piece for piece in value if piece.strip()]
    kind = "a list with other things than texts" if isinstance(value, list) else f"of type {type(value).__name__}"
    raise BadDocument(f"{what} is {kind}")


def _record(line: str) -> Dict[str, Any]:
    """The object of a line of JSON; raises BadDocument if there is none."""
    try:
        record = json.loads(line, object_pairs_hook=_without_repeated_keys)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error).split(":")[0]
        raise BadDocument(f"not JSON ({reason})") from None
    if not isinstance(record, dict):
        raise BadDocument("not a JSON object")
    return record


def _without_repeated_keys(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise BadDocument("a key stands twice in an object")
    return found


def _array_hint(line: str) -> str:
    """Advice for a file that holds one JSON array instead of JSON lines."""
    begins_json = line.lstrip()[:1] in ("[", "{")
    return "; each record must be one line: jq -c '.[]' FILE makes it so of an array" if begins_json else ""


def _parquet(path: Path) -> Any:
    """The pyarrow.parquet.ParquetFile; raises InputError if it is none or pyarrow is missing."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(f"{path}: Parquet needs pyarrow: pip install pyarrow") from None
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{path}: not Parquet ({str(error).splitlines()[0]})") from None


def _parquet_rows(path: Path, columns: List[str]) -> Iterator[Dict[str, Any]]:
    file = _parquet(path)
    try:
        for batch in file.iter_batches(batch_size=256, columns=columns):
            yield from batch.to_pylist()
    except (OSError, ValueError, KeyError) as error:  # pyarrow's own are among them
        raise InputError(f"{path}: damaged Parquet ({(str(error).splitlines() or [''])[0]})") from None


class SciTldr(Table):
    name = "scitldr"
    summary = "SciTLDR: train.jsonl, dev.jsonl and test.jsonl, several references each"
    description = """\
The JSON lines of Cachola et al. (2020): "source", a list of sentences, and "target", a list of references."""

    def __init__(self, args: argparse.Namespace):
        files = find_jsonl(existing("--data", args.data, directory=True))
        if not files:
            raise InputError(f"--data {args.data}: no train.jsonl, dev.jsonl or test.jsonl")
        super().__init__(jsonl_options(args, files, target_list="references"))

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--data", metavar="DIR", type=Path, required=True, help="with the three files, or some")
