"""Read SumPubMed (Gupta et al. 2021): the beginnings of biomedical articles, and the backgrounds of their abstracts."""

import argparse
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Dict, List, Optional

from fairseq_etads.platform.command_options import option
from fairseq_etads.platform.errors import InputError
from fairseq_etads.platform.option_checks import SIZE, format_option
from fairseq_etads.text.documents import BadDocumentError, Document, ExcludedDocumentError

from .tables import FolderReader

MAX_SOURCE_WORDS = 520
MIN_SOURCE_WORDS = 400
TARGET_WORDS = range(15, 131)
HEADINGS = ("BACKGROUND", "RESULTS", "CONCLUSIONS")
VALID_SHARE, TEST_SHARE = 0.03, 0.02


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
        data: Path = option(None, "folder containing the folders or the files", metavar="DIR", required=True)
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
