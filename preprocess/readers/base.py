"""What every reader has: options, splits, and a way from an item of its files to a document."""

import argparse
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar, Dict, Iterator, List, Optional

from fairseq_etads.text.files import InputError, read_lines

from ..documents import Document


class Reader:
    """Finds the items of each split (in order, by one process) and makes a document of one (in any process).

    A reader is copied to every process, so it holds names and settings, no open files.

    Attributes:
        name: the sub-command. summary: its help. defaults: of the options that all corpora share.
        splits_text: documents may have to be cut into sentences.
        counts: what happened to the files while items were found. notes: what else people should know.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    description: ClassVar[str]
    defaults: ClassVar[Dict[str, Any]] = {}
    splits_text: bool = True

    def __init__(self, args: argparse.Namespace):
        self.fallback: str = args.fallback_encoding
        self.counts: Counter = Counter()
        self.notes: List[str] = []

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        """The options of this corpus alone."""

    def splits(self) -> List[str]:
        """Those that the input has, of train, valid and test.

        Raises:
            InputError: the input is not there or not of this kind.
        """
        raise NotImplementedError

    def inputs(self) -> Dict[str, List[Path]]:
        """The files of each split whose content decides the result; of folders full of files, lists that name them."""
        raise NotImplementedError

    def folders(self) -> List[Path]:
        """Folders full of files, of which names and sizes are compared."""
        return []

    def total(self, split: str) -> Optional[int]:
        """How many items a split has, if that is known without reading it."""
        return None

    def items(self, split: str) -> Iterator[Any]:
        """What :meth:`parse` makes documents of: file names, lines or rows, in order.

        Raises:
            InputError: a file cannot be read; names file and line.
        """
        raise NotImplementedError

    def where(self, item: Any) -> str:
        """File and place of an item, for people."""
        raise NotImplementedError

    def parse(self, item: Any) -> Document:
        """A document.

        Raises:
            BadDocument: the item is not one.
        """
        raise NotImplementedError

    def check(self, kept: Dict[str, int]) -> None:
        """Raise InputError if the numbers of documents written (by split) are not those of this corpus."""

    def lines(self, path: Path, ends: bool = False) -> Iterator[str]:
        """Lines of a file by --fallback-encoding, counting the lines that are not UTF-8."""
        return read_lines(path, self.fallback, self.counts, ends)

    def text(self, path: Path) -> str:
        """All of a small file, line ends as newlines."""
        return "\n".join(self.lines(path))


def existing(option: str, path: Path, directory: bool = False) -> Path:
    """The path, if it is a file (or a directory).

    Raises:
        InputError: it is not; names the option.
    """
    if not (path.is_dir() if directory else path.is_file()):
        raise InputError(f"{option} {path}: no such {'directory' if directory else 'file'}")
    return path


def first_existing(folders: List[Path], names: List[str]) -> Optional[Path]:
    """The first of the names, plain or compressed, that a folder has."""
    for name in names:
        for folder in folders:
            for suffix in ("", ".gz", ".xz", ".bz2"):
                path = folder / (name + suffix)
                if path.is_file():
                    return path
    return None
