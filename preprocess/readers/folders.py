"""Read folders of JSON lines or of many files: SciTLDR, AESLC and SumPubMed.

Cachola et al. 2020; Zhang and Tetreault 2019 (e-mails of the Enron corpus); Gupta et al. 2021 (biomedical articles).

Parallel text is a file of documents and one or more files of reference summaries, with one text per line.
"""

import argparse
import hashlib
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Dict, Iterator, List, Optional, Tuple

from fairseq_etads.files import SPLITS
from fairseq_etads.files.inputs import get_display_name, zip_lines
from fairseq_etads.platform.command_options import SIZE, format_option, option
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.documents import BadDocumentError, Document, ExcludedDocumentError
from fairseq_etads.text.records import parse_record
from fairseq_etads.text.words import SENTENCE_MARK

from .base import (
    INPUT_EXCLUDES,
    SPLIT_NAMES,
    Reader,
    SharesOptions,
    check_path_exists,
    find_first_existing,
    parse_input_options,
)
from .tables import TableReader

MAX_SOURCE_WORDS = 520
MIN_SOURCE_WORDS = 400
TARGET_WORDS = range(15, 131)
HEADINGS = ("BACKGROUND", "RESULTS", "CONCLUSIONS")
VALID_SHARE, TEST_SHARE = 0.03, 0.02
_FIELD = re.compile(r"\n@(subject|ann\d+)\n")


def find_jsonl_files(folder: Path) -> Dict[str, Path]:
    """Find train.jsonl, dev.jsonl (or valid, validation, val) and test.jsonl in a folder, plain or compressed."""
    found: Dict[str, Path] = {}
    for split, names in SPLIT_NAMES.items():
        there = [*filter(None, (find_first_existing([folder], [f"{name}.jsonl"]) for name in names))]
        if len(there) > 1:
            raise InputError(f"{folder}: {there[0].name} and {there[1].name} are both {split}: remove one")
        if there:
            found[split] = there[0]
    return found


class FolderReader(TableReader):
    """Base class of readers for a folder --data of JSON lines or, in the form of its authors, of many files."""

    items: Dict[str, List[Any]]  # of each split, found in the folder; empty for JSON lines
    json_lines: ClassVar[Dict[str, str]]  # options of ColumnOptions for the JSON lines

    def __init__(self, args: argparse.Namespace):
        self.data, self.items = check_path_exists("--data", args.data, directory=True), {}
        found = find_jsonl_files(self.data)
        if found:
            given = {**asdict(TableReader.Options()), **vars(args), **found, **self.json_lines}
            super().__init__(argparse.Namespace(**given))
        else:
            Reader.__init__(self, args)
            self.find_items()
            self.sizes = {split: len(items) for split, items in self.items.items()}

    def find_items(self) -> None:
        """Set ``items`` and ``files`` of a folder without JSON lines. Raises InputError if it has none of both."""
        raise InputError(f"--data {self.data}: no train.jsonl, dev.jsonl or test.jsonl")

    def iterate_raw_documents(self, key: str) -> Iterator[Any]:
        return iter(self.items[key]) if self.items else super().iterate_raw_documents(key)


class SciTldrReader(FolderReader):
    name = "scitldr"
    summary = "SciTLDR: train.jsonl, dev.jsonl and test.jsonl, with several references per document"
    description = """\
The JSON lines of Cachola et al. (2020) contain "source", a list of sentences, and "target", a list of references."""

    @dataclass
    class Options:
        data: Path = option(None, "folder containing the files, or some of them", metavar="DIR", required=True)

    json_lines: ClassVar = {"source_column": "source", "target_column": "target", "target_list": "references"}


class AeslcReader(FolderReader):
    name = "aeslc"
    summary = "AESLC: e-mails and their subjects, as folders of .subject files, or train.jsonl, dev.jsonl, test.jsonl"
    description = """\
The folders train/, dev/ and test/ contain a file per e-mail: its text, a line "@subject" with the subject in the next
line and, except in train/, "@ann0" to "@ann2" with the subjects that three people gave it. JSON lines have the keys
"document", "summary" and, optionally, "annotated" (a list)."""

    @dataclass
    class Options:
        data: Path = option(None, "folder containing train, dev and test", metavar="DIR", required=True)
        annotated: bool = option(False, "take the annotators' subjects as the references of dev and test")

    json_lines: ClassVar = {"source_column": "document", "target_column": "summary", "target_list": "references"}

    def find_items(self) -> None:
        for split, names in SPLIT_NAMES.items():
            self.files[split] = sorted(path for name in names for path in (self.data / name).glob("*.subject"))
            self.items[split] = [(str(path), path) for path in self.files[split]]
        if not self.list_splits():
            files = "train/, dev/ or test/ with .subject files, nor train.jsonl, dev.jsonl or test.jsonl"
            raise InputError(f"--data {self.data}: neither {files}")

    def parse(self, item: Any) -> Document:
        annotated: bool = self.args.annotated
        if self.items:
            text, *fields = _FIELD.split(f"\n{self.read_text(item[1])}")
            if fields[:1] != ["subject"]:
                raise BadDocumentError("no @subject")
            subject, *subjects = map(str.strip, fields[1::2])
            document = Document(text.split("\n"), [[subject]])
        else:
            document = super().parse(item)
            subjects = (parse_record(item[2]).get("annotated") or []) if annotated else []
        if annotated and subjects:
            document.targets = [[subject] for subject in subjects]
        return document


class SumPubMedReader(FolderReader):
    name = "sumpubmed"
    summary = "SumPubMed: folders line_text/ and abstract/, or train.jsonl, dev.jsonl and test.jsonl"
    description = f"""\
A document consists of the first sentences in line_text/text_N.txt (one per line), which together contain at most
{MAX_SOURCE_WORDS} and at least {MIN_SOURCE_WORDS} words. Its summary is the BACKGROUND section of
abstract/abstract_N.txt, if this section contains {TARGET_WORDS[0]} to {TARGET_WORDS[-1]} words. A seeded hash of the
article number determines its split. JSON lines with "source" and "target", which are lists of sentences, are used
unchanged."""

    @dataclass
    class Options:
        data: Path = option(None, "folder of line_text/, abstract/ or .jsonl files", metavar="DIR", required=True)
        valid_size: Optional[int] = option(
            None, "number of valid articles (default: 3%% of all in folders)", bounds=SIZE
        )
        test_size: Optional[int] = option(None, "number of test articles (default: 2%% of all in folders)", bounds=SIZE)
        seed: Optional[int] = option(None, "seed of the hash that assigns articles to splits (default: 1)")

    json_lines: ClassVar = {"source_column": "source", "target_column": "target", "target_list": "sentences"}

    def __init__(self, args: argparse.Namespace):
        super().__init__(args)
        for name in () if self.items else ("seed", "valid_size", "test_size"):
            if getattr(args, name) is not None:
                written = format_option(name, getattr(args, name))
                raise InputError(f"{written} has no effect on JSON lines, which are split already: leave it out")
        # Most texts of JSON lines are already lists of sentences. The few remaining texts are still split.
        self.splits_text = bool(self.items)

    def find_items(self) -> None:
        texts, abstracts = self.data / "line_text", self.data / "abstract"
        if not texts.is_dir() or not abstracts.is_dir():
            files = "line_text/ and abstract/ nor train.jsonl, dev.jsonl, test.jsonl"
            raise InputError(f"--data {self.data}: neither {files}")
        digits: Dict[int, str] = {}  # of the article numbers in the file names, which may start with zeros
        matches = (re.fullmatch(r"text_(\d+)\.txt", path.name) for path in texts.iterdir())
        for name in sorted(match.group(1) for match in matches if match):
            other = digits.setdefault(int(name), name)
            if other != name:
                raise InputError(f"--data {self.data}: text_{other}.txt and text_{name}.txt have the same number")
        valid = self.args.valid_size or max(1, int(VALID_SHARE * len(digits)))
        test = self.args.test_size or max(1, int(TEST_SHARE * len(digits)))
        if valid + test >= len(digits):
            reason = f"{len(digits)} articles in {self.data} leave none for training"
            raise InputError(f"--valid-size, --test-size: {reason}")
        seed = 1 if self.args.seed is None else self.args.seed
        ranked = sorted(digits, key=lambda number: hashlib.sha256(f"{seed} {number}".encode()).hexdigest())
        parts = {"train": ranked[valid + test :], "valid": ranked[:valid], "test": ranked[valid : valid + test]}
        for split, numbers in parts.items():
            named = [
                (texts / f"text_{n}.txt", abstracts / f"abstract_{n}.txt") for n in map(digits.get, sorted(numbers))
            ]
            self.items[split] = [(str(text), text, abstract) for text, abstract in named]
            self.files[split] = [path for pair in named for path in pair if path.is_file()]

    def parse(self, item: Any) -> Document:
        if not self.items:
            return super().parse(item)
        _, text, abstract = item
        if not abstract.is_file():
            raise BadDocumentError("no abstract")
        source = take_first_sentences(self.read_text(text))
        return Document(source, [extract_background(self.read_text(abstract))], source_in_sentences=True)


def take_first_sentences(text: str) -> List[str]:
    """Return the first sentences, of MIN_SOURCE_WORDS to MAX_SOURCE_WORDS words in total, without headings."""
    out: List[str] = []
    words = 0
    for line in text.split("\n"):
        length = 0 if line.strip() in HEADINGS else len(line.split())
        if words + length > MAX_SOURCE_WORDS:
            break
        out += [line] if length else []
        words += length
    if words < MIN_SOURCE_WORDS:
        raise ExcludedDocumentError(f"article with fewer than {MIN_SOURCE_WORDS} words")
    return out


def extract_background(text: str) -> List[str]:
    """Return the paragraphs of an abstract's BACKGROUND. Raises BadDocumentError without one of the right length."""
    match = re.search(r"^BACKGROUND[ \t]*\n(.*?)(?=^(?:RESULTS|CONCLUSIONS)[ \t]*$|\Z)", text, re.DOTALL | re.MULTILINE)
    if not match:
        raise BadDocumentError("abstract without BACKGROUND")
    if len(match.group(1).split()) not in TARGET_WORDS:
        raise ExcludedDocumentError(f"BACKGROUND not of {TARGET_WORDS[0]} to {TARGET_WORDS[-1]} words")
    return match.group(1).split("\n")


Item = Tuple[str, str, List[str]]
"""Location, document and reference summaries."""


class LineReader(Reader):
    """Base class of readers for line-aligned files: of documents, and one or more of reference summaries."""

    def iterate_raw_documents(self, key: str) -> Iterator[Any]:
        paths = self.files[key]
        rows = zip_lines(paths, map(self.iterate_lines, paths))
        for number, (source, *targets) in enumerate(rows, 1):
            yield f"{get_display_name(paths[0])}, line {number}", source, targets

    def parse(self, item: Any) -> Document:
        _, source, targets = item
        self.check_utf8(source, *targets)
        return Document([source], [[target] for target in targets], True, True)


def _file_option(of: str = "", **metadata: Any) -> Any:
    text = f"file containing the documents{of}, followed by one or more files containing the summaries"
    return option(None, text, nargs="+", **metadata)


class ParallelReader(LineReader):
    name = "parallel"
    summary = "plain text: a file containing documents, and one or more files containing summaries"
    description = f"""\
  etads-corpus parallel --train train.doc train.sum --valid valid.doc valid.sum --test ... --out TEXT
  etads-corpus parallel --input all.doc all.sum --split 90/5/5 --out TEXT

Each line contains one document or summary; - reads standard input. With --marked, the mark {SENTENCE_MARK} between
sentences is kept; otherwise, it is treated as part of the text and neutralised."""

    @dataclass
    class Options(SharesOptions):
        train: Optional[List[Path]] = _file_option()
        valid: Optional[List[Path]] = _file_option()
        test: Optional[List[Path]] = _file_option()
        input: Optional[List[Path]] = _file_option(" of all splits", excludes=INPUT_EXCLUDES)
        marked: bool = option(False, f"treat {SENTENCE_MARK} in the input as a separator between sentences")

    defaults: ClassVar = {"split": False}

    def __init__(self, args: argparse.Namespace):
        super().__init__(args)
        self.shares = parse_input_options(args)
        for key in (*SPLITS, "input"):
            paths: Optional[List[Path]] = getattr(args, key)
            if paths:
                if len(paths) < 2:
                    raise InputError(f"--{key} {paths[0]}: give a file of documents and at least one of summaries")
                self.files[key] = [check_path_exists(f"--{key}", path) for path in paths]

    def parse(self, item: Item) -> Document:
        document = super().parse(item)
        if self.args.marked:
            document.source = item[1].split(SENTENCE_MARK)
            document.targets = [target.split(SENTENCE_MARK) for target in item[2]]
        document.source_in_sentences = document.targets_in_sentences = self.args.marked
        return document
