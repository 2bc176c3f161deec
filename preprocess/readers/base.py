"""Define the base class of all readers.

A reader defines options, finds splits and items, and converts items to documents.
"""

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
    """Reader for one corpus format.

    The main process finds the items of a split in order. Any worker process can then convert an item to a document.
    Because a reader is copied to all worker processes, it stores file names and settings but no open files.

    Attributes:
        name: value of KIND on the command line of etads-corpus.
        summary, description: short and long help text for this KIND.
        defaults: default values of shared options, if they differ for this corpus.
        splits_text: whether the documents may need to be split into sentences.
        counts: counter of the changes of each kind, for report.json.
        notes: messages for the user.
        shares: shares of train, valid and test, for a corpus without predefined splits. In this case, the items are the
            same for all splits, and the split of a document is determined by its hash.
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
        """Return the splits that the input contains, in the order ``train``, ``valid``, ``test``.

        Raises:
            InputError: the input is missing or has another format.
        """
        raise NotImplementedError

    def inputs(self) -> Dict[str, List[Path]]:
        """Return a dictionary from each split to its input files.

        The files are read to detect changes to the input; see also :meth:`folders`.
        """
        raise NotImplementedError

    def folders(self) -> List[Path]:
        """Return the folders that contain too many files to be read twice.

        Changes to files in these folders are detected only from their names and sizes.
        """
        return []

    def total(self, split: str) -> Optional[int]:
        """Return the number of items in a split for the progress bar, or None if they would have to be read."""
        return None

    def items(self, split: str) -> Iterator[Any]:
        """Yield the items of a split in order. Items are file names, lines or rows, and are passed to :meth:`parse`.

        Raises:
            InputError: a file cannot be read. The message contains the file and the line.
        """
        raise NotImplementedError

    def where(self, item: Any) -> str:
        """Return a description of the item's location (file and line) for messages."""
        raise NotImplementedError

    def parse(self, item: Any) -> Document:
        """Convert an item to a document.

        Raises:
            BadDocument: the item cannot be read or does not belong to the corpus.
        """
        raise NotImplementedError

    def check(self, kept: Dict[str, int]) -> None:
        """Raise InputError if the number of documents in a split differs from the published size of the corpus.

        Args:
            kept: dictionary from each split to the number of documents that were written.
        """

    def lines(self, path: Path, ends: bool = False) -> Iterator[str]:
        """Yield the lines of a file. Lines that are not valid UTF-8 are decoded with --fallback-encoding and counted.

        If --skip-bad is set and --fallback-encoding is not, invalid bytes are escaped, and :meth:`check_utf8` rejects
        these lines.
        """
        return read_lines(path, self.fallback, self.counts, ends)

    def check_utf8(self, *texts: str) -> None:
        """Raise BadDocument if any of the texts, as returned by :meth:`lines`, was not valid UTF-8."""
        if self.fallback == ESCAPE_INVALID and not all(map(is_utf8, texts)):
            raise BadDocument("not UTF-8")

    def text(self, path: Path) -> str:
        """Return the content of a small file. Lines are separated by line feeds.

        Raises:
            BadDocument: the file is not UTF-8, and --skip-bad is set.
            InputError: the file cannot be read, or it is not UTF-8 and --skip-bad is not set.
        """
        text = "\n".join(self.lines(path))
        self.check_utf8(text)
        return text


def existing(option: str, path: Path, directory: bool = False) -> Path:
    """Check that a path is an existing file, or an existing folder if ``directory`` is set, and return the path.

    Raises:
        InputError: the file or folder does not exist. The message contains ``option``.
    """
    if not (path.is_dir() if directory else path.is_file()):
        raise InputError(f"{option} {path}: no such {'folder' if directory else 'file'}")
    return path


def first_existing(folders: List[Path], names: List[str]) -> Optional[Path]:
    """Return the first file in the folders that has one of the names, plain or compressed.

    Return None if there is none.
    """
    for name in names:
        for folder in folders:
            for suffix in ("", *DECOMPRESSORS):
                path = folder / (name + suffix)
                if path.is_file():
                    return path
    return None


def add_keep_original(parser: argparse.ArgumentParser) -> None:
    """Add the option --keep-original, which is for corpora with lower-cased text and masked digits."""
    parser.add_argument(
        "--keep-original",
        action="store_true",
        help="also write the documents with their original case and digits to SPLIT.source.original, which "
        "etads-prepare --spacy-model uses to predict tags",
    )
