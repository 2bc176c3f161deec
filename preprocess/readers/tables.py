"""Tables of pairs: JSON lines, CSV, TSV and Parquet, with the column names of Hugging Face's data sets or others."""

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
"""Known pairs of columns; the first that a table has is taken."""

FORMATS = ("jsonl", "json", "csv", "tsv", "parquet")
LONGEST_FIELD = 1 << 26
"""Characters of a cell of CSV; one that is longer is a quote that was never closed."""

_LONE_CR = re.compile(r"\r(?!\n)")

Item = Tuple[str, int, Any]


def find_jsonl(folder: Path) -> Dict[str, Path]:
    """train.jsonl, dev.jsonl (or valid, validation, val) and test.jsonl of a folder, plain or compressed."""
    names = {"train": ["train"], "valid": ["dev", "valid", "validation", "val"], "test": ["test"]}
    found = {split: first_existing([folder], [f"{stem}.jsonl" for stem in stems]) for split, stems in names.items()}
    return {split: path for split, path in found.items() if path}


def format_of(path: Path) -> str:
    """By the suffix, behind that of a compressed file."""
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
        self.files: Dict[str, Path] = {}
        self.columns: Dict[str, Tuple[str, str]] = {}
        self.asked: Tuple[str, str] = (args.source_column, args.target_column)
        self.references = args.target_list == "references"
        self.quotes = not args.no_quotes
        self.skip_bad: bool = args.skip_bad
        files = {split: getattr(args, split) for split in SPLITS if getattr(args, split)}
        if not files:
            raise InputError("give at least one of --train, --valid and --test")
        self._open({split: existing(f"--{split}", path) for split, path in files.items()})

    @classmethod
    def of_files(
        cls, args: argparse.Namespace, files: Dict[str, Path], source: str, target: str, target_list: str = "sentences"
    ) -> "Table":
        """A table of these files and columns, with the shared options of ``args``."""
        more = {"source_column": source, "target_column": target, "target_list": target_list, "no_quotes": False}
        return Table(argparse.Namespace(**{**vars(args), **dict.fromkeys(SPLITS), **files, **more}))

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

    def _open(self, files: Dict[str, Path]) -> None:
        self.files = files
        for split, path in files.items():
            self.columns[split] = self._columns(path)
        self.counts.clear()  # lines that were looked at will be read again

    def _columns(self, path: Path) -> Tuple[str, str]:
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
                found = InputError(f"{path}, line {number}: {error}{_hint(line)}")
            except InputError as error:
                found = error
            if not self.skip_bad:  # else the first record that has the columns tells them
                raise found
            first = first or found
        raise first or InputError(f"{path}: empty")

    def _choose(self, path: Path, names: Sequence[str]) -> Tuple[str, str]:
        known = next((pair for pair in COLUMNS if pair[0] in names and pair[1] in names), ("", ""))
        chosen = (self.asked[0] or known[0], self.asked[1] or known[1])
        for column, option in zip(chosen, ("--source-column", "--target-column")):
            if column not in names:
                asked = (
                    f"{option} {column}: no such column" if column else f"{option} is needed: no known pair of columns"
                )
                raise InputError(f"{asked} in {path}; it has {', '.join(names) or 'none'}")
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
        csv.field_size_limit(LONGEST_FIELD)
        how = {"strict": True} if self.quotes else {"quoting": csv.QUOTE_NONE}
        rows = csv.reader(self._csv_lines(path), delimiter="\t" if format_of(path) == "tsv" else ",", **how)
        try:
            yield from rows
        except csv.Error as error:
            advice = "; --no-quotes takes quotes for characters like others" if self.quotes else ""
            reason = f"not {format_of(path).upper()} ({error}){advice}"
            raise InputError(f"{path}, line {rows.line_num}: {reason}") from None

    def _csv_lines(self, path: Path) -> Iterator[str]:
        """Lines without what ends the reading of csv: NULs (in Pythons below 3.11) and carriage returns in cells."""
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
        source, target = content
        if format_of(Path(item[0])) in ("jsonl", "json"):
            columns, record = self.columns[source], _record(target)
            for column in columns:
                if column not in record:
                    raise BadDocument(f'no "{column}"')
            source, target = (record[column] for column in columns)
        if self.references and isinstance(target, list):
            references = [_pieces(reference, "summary") for reference in target]
        else:
            references = [_pieces(target, "summary")]
        # a summary in several lines, or a list, is in sentences already
        cut = (isinstance(target, list) and not self.references) or all(len(r) > 1 for r in references)
        return Document(_pieces(source, "document"), references, isinstance(source, list), cut)


def _pieces(value: Any, what: str) -> List[str]:
    """Sentences of a list, or lines of a text, without blank ones."""
    if value is None:
        return []
    if isinstance(value, str):
        return [line for line in value.replace("\r\n", "\n").split("\n") if line.strip()]
    if isinstance(value, list) and all(isinstance(piece, str) for piece in value):
        return [piece for piece in value if piece.strip()]
    kind = "a list with other things than texts" if isinstance(value, list) else f"of type {type(value).__name__}"
    raise BadDocument(f"{what} is {kind}")


def _record(line: str) -> Dict[str, Any]:
    try:
        record = json.loads(line, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error).split(":")[0]
        raise BadDocument(f"not JSON ({reason})") from None
    if not isinstance(record, dict):
        raise BadDocument("not a JSON object")
    return record


def _object(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise BadDocument("a key stands twice in an object")
    return found


def _hint(line: str) -> str:
    is_array = line.lstrip()[:1] in ("[", "{")
    return "; each record must be one line: jq -c '.[]' FILE makes it so of an array" if is_array else ""


def _parquet(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(f"{path}: Parquet needs pyarrow: pip install 'fairseq-etads[parquet]'") from None
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
        more = {"source_column": "source", "target_column": "target", "target_list": "references", "no_quotes": False}
        super().__init__(argparse.Namespace(**{**vars(args), **dict.fromkeys(SPLITS), **files, **more}))

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--data", metavar="DIR", type=Path, required=True, help="with the three files, or some")
