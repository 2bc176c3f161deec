"""Read SumPubMed (Gupta et al. 2021): the beginnings of biomedical articles, and the backgrounds of their abstracts."""

import argparse
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional

from fairseq_etads.files import SPLITS
from fairseq_etads.platform.command_options import option
from fairseq_etads.platform.errors import InputError
from fairseq_etads.platform.option_checks import SIZE, format_option
from fairseq_etads.text.documents import BadDocumentError, Document, ExcludedDocumentError

from .base import Reader, check_path_exists
from .tables import FolderOrTableReader, find_jsonl_files, make_jsonl_options

MAX_SOURCE_WORDS = 520
MIN_SOURCE_WORDS = 400
TARGET_WORDS = range(15, 131)
HEADINGS = ("BACKGROUND", "RESULTS", "CONCLUSIONS")
VALID_SHARE, TEST_SHARE = 0.03, 0.02
DEFAULT_SEED = 1


@dataclass
class SumPubMedOptions:
    """Options of ``etads-corpus sumpubmed``."""

    data: Path = option(
        None, "folder containing line_text/ and abstract/, or the three .jsonl files", metavar="DIR", required=True
    )
    valid_size: Optional[int] = option(
        None, "number of valid articles from line_text/ and abstract/ (default: 3%% of all articles)", bounds=SIZE
    )
    test_size: Optional[int] = option(
        None, "number of test articles from line_text/ and abstract/ (default: 2%% of all articles)", bounds=SIZE
    )
    seed: Optional[int] = option(None, f"seed of the hash that assigns articles to splits (default: {DEFAULT_SEED})")


class SumPubMedReader(FolderOrTableReader):
    name = "sumpubmed"
    summary = "SumPubMed: folders line_text/ and abstract/, or train.jsonl, dev.jsonl and test.jsonl"
    description = f"""\
A document consists of the first sentences in line_text/text_N.txt (one per line), which together contain at most
{MAX_SOURCE_WORDS} and at least {MIN_SOURCE_WORDS} words. Its summary is the BACKGROUND section of
abstract/abstract_N.txt, if this section contains {TARGET_WORDS[0]} to {TARGET_WORDS[-1]} words. A seeded hash of the
article number determines its split. JSON lines with "source" and "target", which are lists of sentences, are used
unchanged."""
    options = SumPubMedOptions

    def __init__(self, args: argparse.Namespace):
        self.data = check_path_exists("--data", args.data, directory=True)
        self.items = {}
        found = find_jsonl_files(self.data)
        if found:
            for name in ("seed", "valid_size", "test_size"):
                if getattr(args, name) is not None:
                    written = format_option(name, getattr(args, name))
                    raise InputError(f"{written} has no effect on JSON lines, which are split already: leave it out")
            super().__init__(make_jsonl_options(args, found, target_list="sentences"))
            # Most texts are already lists of sentences. The few remaining texts are still split.
            self.splits_text = False
            return
        Reader.__init__(self, args)
        if not (self.data / "line_text").is_dir() or not (self.data / "abstract").is_dir():
            raise InputError(
                f"--data {self.data}: neither line_text/ and abstract/ nor train.jsonl, dev.jsonl, test.jsonl"
            )
        # This maps article numbers to the digits in their file names, which may start with zeros.
        self.digits: Dict[int, str] = {}
        sizes = {"valid": args.valid_size or 0, "test": args.test_size or 0}
        self.items = self._assign_articles_to_splits(DEFAULT_SEED if args.seed is None else args.seed, sizes)
        for split in SPLITS:
            paths = [self._get_article_path(kind, n) for n in self.items[split] for kind in ("text", "abstract")]
            self.files[split] = [path for path in paths if path.is_file()]  # parse() handles those without an abstract

    def _assign_articles_to_splits(self, seed: int, sizes: Dict[str, int]) -> Dict[str, List[int]]:
        """Assign the article numbers to the splits. A split with a size of 0 receives a fixed share of all articles."""
        names = (re.fullmatch(r"text_(\d+)\.txt", path.name) for path in (self.data / "line_text").iterdir())
        for digits in sorted(name.group(1) for name in names if name):
            other = self.digits.setdefault(int(digits), digits)
            if other != digits:
                raise InputError(f"--data {self.data}: text_{other}.txt and text_{digits}.txt have the same number")
        numbers = list(self.digits)
        for split, share in (("valid", VALID_SHARE), ("test", TEST_SHARE)):
            sizes[split] = sizes[split] or max(1, int(share * len(numbers)))
        if sum(sizes.values()) >= len(numbers):
            raise InputError(
                f"--valid-size, --test-size: {len(numbers)} articles in {self.data} leave none for training"
            )
        ranked = sorted(numbers, key=lambda number: hashlib.sha256(f"{seed} {number}".encode()).hexdigest())
        valid, test = sizes["valid"], sizes["test"]
        parts = {"train": ranked[valid + test :], "valid": ranked[:valid], "test": ranked[valid : valid + test]}
        return {split: sorted(members) for split, members in parts.items()}

    def _get_article_path(self, kind: str, number: int) -> Path:
        return self.data / ("line_text" if kind == "text" else "abstract") / f"{kind}_{self.digits[number]}.txt"

    def describe_location(self, item: Any) -> str:
        return str(self._get_article_path("text", item)) if self.items else super().describe_location(item)

    def parse(self, item: Any) -> Document:
        if not self.items:
            return super().parse(item)
        if not self._get_article_path("abstract", item).is_file():
            raise BadDocumentError("no abstract")
        source = take_first_sentences(self.read_text(self._get_article_path("text", item)))
        target = extract_background(self.read_text(self._get_article_path("abstract", item)))
        return Document(source, [target], source_in_sentences=True)


def take_first_sentences(text: str) -> List[str]:
    """Return the first sentences of an article, up to a total of MAX_SOURCE_WORDS words. Headings are omitted.

    Raises ExcludedDocumentError if the sentences contain fewer than MIN_SOURCE_WORDS words in total.
    """
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
    """Return the paragraphs of the BACKGROUND section in an abstract.

    Raises BadDocumentError if there is no such section, and ExcludedDocumentError if it is too short or too long.
    """
    match = re.search(r"^BACKGROUND[ \t]*\n(.*?)(?=^(?:RESULTS|CONCLUSIONS)[ \t]*$|\Z)", text, re.DOTALL | re.MULTILINE)
    if not match:
        raise BadDocumentError("abstract without BACKGROUND")
    if len(match.group(1).split()) not in TARGET_WORDS:
        raise ExcludedDocumentError(f"BACKGROUND not of {TARGET_WORDS[0]} to {TARGET_WORDS[-1]} words")
    return match.group(1).split("\n")
