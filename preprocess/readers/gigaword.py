"""Read Gigaword's first sentences and headlines in the same way as NAMAS (Rush et al. 2015)."""

import argparse
import itertools
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Dict, FrozenSet, List, Optional

from fairseq_etads.platform.command_options import option
from fairseq_etads.platform.errors import InputError
from fairseq_etads.platform.option_checks import NOT_NEGATIVE
from fairseq_etads.text.documents import Document, ExcludedDocumentError

from .base import KeepOriginalOption, check_path_exists, find_first_existing
from .parallel import Item, LineReader

FILE_NAMES = {
    "train": [("train.article.txt", "train.title.txt"), ("train.src.txt", "train.tgt.txt")],
    "valid": [
        ("valid.article.filter.txt", "valid.title.filter.txt"),
        ("valid.article.txt", "valid.title.txt"),
        ("valid.src.txt", "valid.tgt.txt"),
        ("dev.src.txt", "dev.tgt.txt"),
    ],
    "test": [("input.txt", "task1_ref0.txt"), ("test.article.txt", "test.title.txt"), ("test.src.txt", "test.tgt.txt")],
}
UNKNOWN = "<unk>"
_MOST_REFERENCES = 20
_DIGIT = re.compile(r"[0-9]")
# A title that contains one of these strings is not considered a headline. The list is from NAMAS, which also searches
# the whole lower-cased title for these strings.
_NOT_TITLES = re.compile(
    r"update|recasts|undated|grafs|corrects|retransmitting|dateline|writethru|recaps|inserts|incorporates|adv##|djlfx|"
    r"edits|byline|repetition|background|thruout|quotes|attention|ny###|overline|embargoed|ap|gmt|adds|embargo|urgent|"
    r"\?|-lrb-|-rrb-| i | : | - | by "
)


class GigawordReader(LineReader):
    name = "gigaword"
    summary = "Gigaword headlines: train.article.txt and train.title.txt, raw or ready-made"
    description = f"""\
DIR (or its folders train/ and Giga/) contains train.article.txt and train.title.txt, valid.article.filter.txt and
valid.title.filter.txt, input.txt and task1_ref0.txt, plain or compressed; names like dev.src.txt are also recognised.
The text is already tokenised. Digits are replaced with #. Words that occur fewer than --rare times in the training text
are replaced with {UNKNOWN}, and so is UNK in the ready-made test set. Ready-made text is otherwise left unchanged."""

    @dataclass
    class Options(KeepOriginalOption):
        data: Path = option(None, "folder containing the files listed above", metavar="DIR", required=True)
        rare: int = option(
            5,
            f"replace words with {UNKNOWN} if they occur fewer than N times, counting articles and titles separately "
            "(default: %(default)s, as in NAMAS; 0 replaces no words). Training text that already contains "
            f"{UNKNOWN} is left unchanged",
            bounds=NOT_NEGATIVE,
        )
        filter: bool = option(False, "filter the training and validation pairs as in NAMAS")

    defaults: ClassVar = {"split": False}

    def __init__(self, args: argparse.Namespace):
        super().__init__(args)
        data = check_path_exists("--data", args.data, directory=True)
        self.files = find_split_files([data, data / "train", data / "Giga"])
        if not self.files:
            raise InputError(f"--data {data}: no train.article.txt and train.title.txt, nor any other known pair")
        # The frequent words in the articles and in the titles, or None if rare words are not replaced.
        self.common: Optional[List[FrozenSet[str]]] = self._find_frequent_words(args.rare) if args.rare > 1 else None

    def _find_frequent_words(self, rare: int) -> Optional[List[FrozenSet[str]]]:
        if "train" not in self.files:
            return None
        common = []
        for path in self.files["train"][:2]:
            words: Counter = Counter()
            for line in self.iterate_lines(path):
                words.update(_normalise_line(line).split())
            if UNKNOWN in words:
                self.notes.append(f"{path.name} has {UNKNOWN} already: rare words are left as they are")
                return None
            common.append(frozenset(word for word, count in words.items() if count >= rare))
        self.counts.clear()  # the lines will be read and counted again later
        return common

    def parse(self, item: Item) -> Document:
        where, *lines = item[0], item[1], *item[2]
        self.check_utf8(*lines)
        source, *targets = map(_normalise_line, lines)
        if self.args.filter and Path(where).name.startswith(("train", "valid", "dev")):
            reason = find_filter_reason(source.split(), targets[0].split())
            if reason:
                raise ExcludedDocumentError(reason)
        if self.common:
            source, *targets = (
                " ".join(word if word in self.common[side > 0] else UNKNOWN for word in line.split())
                for side, line in enumerate((source, *targets))
            )
        original = [item[1]] if self.args.keep_original else []
        return Document([source], [[target] for target in targets], True, True, original)


def find_split_files(folders: List[Path]) -> Dict[str, List[Path]]:
    """Return the files of each split: articles, titles, further references. Raises InputError if half a pair exists."""
    found: Dict[str, List[Path]] = {}
    for split, known in FILE_NAMES.items():
        pairs = [[find_first_existing(folders, [name]) for name in names] for names in known]
        whole = next(([path for path in pair if path] for pair in pairs if all(pair)), [])
        if whole:
            more = find_further_references([whole[1].parent]) if whole[0].name.startswith("input.txt") else []
            found[split] = [*whole, *more]
            continue
        for names, pair in zip(known, pairs):
            for path, other in zip(pair, reversed(names)):
                if path:
                    advice = "rename that file, or remove the first"
                    raise InputError(f"--data: {path} exists, but {other} does not: {advice}")
    return found


def find_further_references(folders: List[Path]) -> List[Path]:
    """Return the existing files task1_ref1.txt and so on. Raises InputError if one between them is missing."""
    numbered = [find_first_existing(folders, [f"task1_ref{number}.txt"]) for number in range(1, _MOST_REFERENCES)]
    found = [path for path in itertools.takewhile(bool, numbered) if path]
    for later in filter(None, numbered[len(found) :]):
        raise InputError(f"--data: {later} exists, but task1_ref{len(found) + 1}.txt does not")
    return found


def _normalise_line(line: str) -> str:
    """Lower-case a line, replace each digit with ``#``, and replace the word "unk" with <unk>."""
    words = _DIGIT.sub("#", line.lower()).split()
    return " ".join(UNKNOWN if word == "unk" else word for word in words)


def find_filter_reason(article: List[str], title: List[str]) -> str:
    """Return the reason why the NAMAS filter drops a pair of lower-cased words, or an empty string if it keeps it."""
    if "." not in article:
        return "filter: article without a full stop"
    if _NOT_TITLES.search(" ".join(title)):
        return "filter: not a headline"
    if not (10 < len(article) < 100 and 3 < len(title) < 50):
        return "filter: length"
    if not {word for word in title if len(word) > 3} & {word for word in article if len(word) > 3}:
        return "filter: no word in common"
    return ""
