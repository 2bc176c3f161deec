"""The base class of all corpus readers, and splits by hash for a corpus without its own (--input and --split)."""

import argparse
import hashlib
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Dict, Iterator, List, Optional, Tuple

from fairseq_etads.files import SPLITS
from fairseq_etads.files.inputs import DECOMPRESSORS, ESCAPE_INVALID, is_valid_utf8, read_lines
from fairseq_etads.platform.command_options import option
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.documents import BadDocumentError, Document

DEFAULT_SHARES = "90/5/5"
SPLIT_NAMES = {"train": ["train"], "valid": ["dev", "valid", "validation", "val"], "test": ["test"]}
"""Names of folders, files and parts of data sets that contain each split."""
INPUT_EXCLUDES = dict.fromkeys((f"--{split}" for split in SPLITS), "--input is divided into splits")


@dataclass
class SharesOptions:
    """Options for a corpus without its own splits."""

    shares: Optional[str] = option(
        None,
        "proportions of the splits of a corpus that is not split, such as 80/10/10. A hash of the cleaned document "
        "determines its split, so that identical documents are assigned to the same split, and new rows do not change "
        f"the splits of other rows (default: {DEFAULT_SHARES})",
        metavar="TRAIN/VALID/TEST",
        flag="--split",
    )
    split_seed: Optional[int] = option(None, "seed of the hash that assigns documents to splits (default: 1)")


@dataclass(frozen=True)
class SplitShares:
    """The value of --split, the fraction of each split with a share above 0, and the seed of the hash."""

    text: str
    fractions: Dict[str, float]
    seed: int = 1

    def assign_split(self, words: str) -> str:
        """Return the split to which a document is assigned, given its words after cleaning, separated by spaces."""
        digest = hashlib.sha256(f"{self.seed} {words}".encode("utf-8", "surrogatepass")).digest()
        place = int.from_bytes(digest[:8], "big") / 2**64
        for split, fraction in self.fractions.items():
            place -= fraction
            if place < 0:
                return split
        return split  # reached only because of rounding errors


def parse_shares(args: argparse.Namespace) -> SplitShares:
    """Parse --split and --split-seed. Raises InputError unless --split consists of three valid numbers."""
    text = args.shares or DEFAULT_SHARES
    try:
        numbers = [float(part) for part in text.split("/")]
    except ValueError:
        numbers = []
    total = sum(numbers)
    if len(numbers) != len(SPLITS) or min(numbers) < 0 or not 0 < total < math.inf:
        raise InputError(f"--split {text}: choose shares of train, valid and test, such as {DEFAULT_SHARES}")
    fractions = {split: number / total for split, number in zip(SPLITS, numbers) if number}
    return SplitShares(text, fractions, 1 if args.split_seed is None else args.split_seed)


def refuse_shares(args: argparse.Namespace, reason: str) -> None:
    """Raise InputError with ``reason`` if --split or --split-seed is set."""
    for name, value in (("--split", args.shares), ("--split-seed", args.split_seed)):
        if value is not None:
            raise InputError(f"{name} {value}: {reason}")


def parse_input_options(args: argparse.Namespace) -> Optional[SplitShares]:
    """Return the shares of the splits of --input, or None without it. Raises InputError if there is no input either."""
    if args.input:
        return parse_shares(args)
    if not any(getattr(args, split) for split in SPLITS):
        raise InputError("give at least one of --train, --valid and --test, or --input, which is split into them")
    refuse_shares(args, "has no effect without --input")
    return None


class Reader:
    """Base class of readers for a corpus format.

    The main process finds the items of each input in order. Any worker process can then convert an item to a document.
    Because a reader is copied to all worker processes, it stores file names and options, but no open files.

    An input is a split or, if the corpus has no predefined splits, "input", from which a hash selects the documents of
    each split. An item is a tuple that begins with its location (file and line), for messages.
    """

    name: ClassVar[str]  # value of the argument KIND of etads-corpus that selects this reader
    summary: ClassVar[str]  # short help text for this KIND
    description: ClassVar[str]  # long help text
    Options: ClassVar[type]  # dataclass of the options that are specific to this corpus
    defaults: ClassVar[Dict[str, Any]] = {}  # default values of shared options that are different for this corpus
    splits_text: bool = True  # whether the documents may have to be split into sentences

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.fallback: str = args.fallback_encoding or (ESCAPE_INVALID if args.skip_bad else "")
        self.counts: Counter = Counter()  # changes of each kind, for report.json
        self.notes: List[str] = []  # messages for the user about the corpus
        self.columns: Dict[str, List[str]] = {}  # names of the two columns of each input, for report.json
        self.files: Dict[str, List[Path]] = {}  # files of each input, which are read to detect changes
        self.large_folders: List[Path] = []  # with too many files: changes show in their names and sizes
        self.sizes: Dict[str, Optional[int]] = {}  # numbers of items of each input, as far as known, for progress bars
        self.shares: Optional[SplitShares] = None  # of train, valid and test, if the corpus has no predefined splits

    def list_splits(self) -> List[str]:
        """Return the splits of the input in the order ``train``, ``valid``, ``test``."""
        return list(self.shares.fractions) if self.shares else [split for split in SPLITS if self.files.get(split)]

    def iterate_raw_documents(self, key: str) -> Iterator[Tuple[Any, ...]]:
        """Yield the items of an input in order. Raises InputError, which names the line, if a file is unreadable."""
        raise NotImplementedError

    def parse(self, item: Any) -> Document:
        """Convert an item to a document. Raises BadDocumentError if it is unreadable or not part of the corpus."""
        raise NotImplementedError

    def check_split_sizes(self, kept: Dict[str, int]) -> None:
        """Raise InputError if the number of written documents of a split differs from the published size."""

    def iterate_lines(self, path: Path) -> Iterator[str]:
        """Yield the lines of a file. Lines with invalid UTF-8 are decoded with --fallback-encoding and counted.

        With --skip-bad alone, invalid bytes are escaped, and :meth:`check_utf8` rejects these lines.
        """
        return read_lines(path, self.fallback, self.counts)

    def check_utf8(self, *texts: str) -> None:
        """Raise BadDocumentError if one of the texts, as returned by :meth:`iterate_lines`, contains invalid UTF-8."""
        if self.fallback == ESCAPE_INVALID and not all(map(is_valid_utf8, texts)):
            raise BadDocumentError("not UTF-8")

    def read_text(self, path: Path) -> str:
        """Return the lines of a small file, joined. Raises InputError or, with --skip-bad, BadDocumentError."""
        text = "\n".join(self.iterate_lines(path))
        self.check_utf8(text)
        return text


def check_path_exists(option: str, path: Path, directory: bool = False) -> Path:
    """Return a path. Raises InputError, which names ``option``, unless it is a file or, if ``directory``, a folder."""
    if not (path.is_dir() if directory else path.is_file()):
        raise InputError(f"{option} {path}: no such {'folder' if directory else 'file'}")
    return path


def find_first_existing(folders: List[Path], names: List[str]) -> Optional[Path]:
    """Return the first file in the folders that has one of the names, perhaps with a compression suffix, or None."""
    ends = ("", *DECOMPRESSORS)
    paths = (folder / (name + end) for name in names for folder in folders for end in ends)
    return next(filter(Path.is_file, paths), None)


@dataclass
class KeepOriginalOption:
    """The option --keep-original, for corpora with lower-cased text and masked digits."""

    keep_original: bool = option(
        False,
        "also write the documents with their original case and digits to SPLIT.source.original, which etads-prepare "
        "--spacy-model uses to predict tags",
    )
