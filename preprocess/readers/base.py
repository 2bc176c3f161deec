"""Base class of readers: options, splits, the items of a split, and conversion of an item to a document."""

import argparse
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar, Dict, Iterator, List, Optional

from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.compression import DECOMPRESSORS
from fairseq_etads.text.documents import BadDocument, Document
from fairseq_etads.text.files import ESCAPE_INVALID, is_utf8, read_lines

from .shares import Shares


class Reader:
    """Reader of one corpus format.

    One process finds the items of a split in order; any process can convert an item to a document. A reader is copied
    to every process, so it contains names and settings, but no open files.

    Attributes:
        name: value of KIND on the command line of etads-corpus.
        summary, description: help text of that KIND, in one line and in full.
        defaults: defaults of shared options that differ for this corpus.
        splits_text: whether documents may need to be split into sentences.
        counts: number of changed or skipped files for each kind of change, for report.json.
        notes: sentences to show to the user.
        shares: shares of the splits, if the corpus has no splits. All splits then have the same items, and the hash of
            a document determines its split.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    description: ClassVar[str]
    defaults: ClassVar[Dict[str, Any]] = {}
    splits_text: bool = True

    def __init__(self, args: argparse.Namespace):
        self.fallback: str = args.fallback_encoding or (ESCAPE_INVALID if args.skip_bad else "")
        self.counts: Counter = Counter()
        self.notes: List[str] = []
        self.shares: Optional[Shares] = None

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        """Add the options that are specific to this corpus."""

    def splits(self) -> List[str]:
        """List which of the splits ``train``, ``valid`` and ``test`` the input contains.

        Raises:
            InputError: the input is missing or has another format.
        """
        raise NotImplementedError

    def inputs(self) -> Dict[str, List[Path]]:
        """List the files of each split, which are used to detect changes of the input; see also :meth:`folders`."""
        raise NotImplementedError

    def folders(self) -> List[Path]:
        """List folders with too many files to read twice. Changes are detected from the names and sizes of files."""
        return []

    def total(self, split: str) -> Optional[int]:
        """Count the items of a split for the progress bar; return None if this would require reading everything."""
        return None

    def items(self, split: str) -> Iterator[Any]:
        """Yield the items of a split in order (file names, lines or rows) for :meth:`parse`.

        Raises:
            InputError: a file cannot be read; the message names the file and the line.
        """
        raise NotImplementedError

    def where(self, item: Any) -> str:
        """Return the file and line of an item, for messages."""
        raise NotImplementedError

    def parse(self, item: Any) -> Document:
        """Convert an item to a document.

        Raises:
            BadDocument: the item cannot be read or does not belong to the corpus.
        """
        raise NotImplementedError

    def check(self, kept: Dict[str, int]) -> None:
        """Raise InputError if ``kept``, the numbers of written documents, differ from the known size of the corpus."""

    def lines(self, path: Path, ends: bool = False) -> Iterator[str]:
        """Yield the lines of a file. Lines that are not UTF-8 are decoded with --fallback-encoding and counted.

        With --skip-bad but without --fallback-encoding, :meth:`check_utf8` finds such lines.
        """
        return read_lines(path, self.fallback, self.counts, ends)

    def check_utf8(self, *texts: str) -> None:
        """Raise BadDocument if a text returned by :meth:`lines` was not UTF-8."""
        if self.fallback == ESCAPE_INVALID and not all(map(is_utf8, texts)):
            raise BadDocument("not UTF-8")

    def text(self, path: Path) -> str:
        """Read a small file as a whole, with newlines between its lines.

        Raises:
            BadDocument: the file is not UTF-8, and --skip-bad is set.
            InputError: the file cannot be read, or it is not UTF-8 and --skip-bad is not set.
        """
        text = "\n".join(self.lines(path))
        self.check_utf8(text)
        return text


def existing(option: str, path: Path, directory: bool = False) -> Path:
    """Return the path after checking that it is a file (or a folder).

    Raises:
        InputError: there is no such file or folder; the message names ``option``.
    """
    if not (path.is_dir() if directory else path.is_file()):
        raise InputError(f"{option} {path}: no such {'folder' if directory else 'file'}")
    return path


def first_existing(folders: List[Path], names: List[str]) -> Optional[Path]:
    """Find the first file in the folders with one of the names, plain or compressed; return None if there is none."""
    for name in names:
        for folder in folders:
            for suffix in ("", *DECOMPRESSORS):
                path = folder / (name + suffix)
                if path.is_file():
                    return path
    return None


def add_keep_original(parser: argparse.ArgumentParser) -> None:
    """Add the option --keep-original for corpora with lower-cased text and masked digits."""
    parser.add_argument(
        "--keep-original",
        action="store_true",
        help="also write SPLIT.source.original, the documents with their original case and digits, for the tags of "
        "etads-prepare --spacy-model",
    )
