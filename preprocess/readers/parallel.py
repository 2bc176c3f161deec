"""Parallel text: a file with a document a line, and one or more files with a reference summary a line."""

import argparse
import itertools
from pathlib import Path
from typing import Any, ClassVar, Dict, Iterator, List, Optional, Tuple

from fairseq_etads.text.files import InputError
from fairseq_etads.text.words import SENTENCE_MARK

from ..documents import Document
from ..files import SPLITS
from .base import Reader, existing

Item = Tuple[str, int, str, List[str]]
"""File, line number, document, references."""


class LineReader(Reader):
    """Reads documents and references line by line from the files of a split: documents first, then references."""

    files: Dict[str, List[Path]]

    def splits(self) -> List[str]:
        return [split for split in SPLITS if split in self.files]

    def inputs(self) -> Dict[str, List[Path]]:
        return {split: self.files[split] for split in self.splits()}

    def items(self, split: str) -> Iterator[Item]:
        paths = self.files[split]
        rows = itertools.zip_longest(*map(self.lines, paths))
        for number, (source, *targets) in enumerate(rows, 1):
            if source is None or None in targets:
                shorter = paths[(source, *targets).index(None)]
                raise InputError(f"{shorter} has {number - 1:,} lines, fewer than {paths[0]} or another file beside it")
            yield str(paths[0]), number, source, targets

    def where(self, item: Item) -> str:
        return f"{item[0]}, line {item[1]}"

    def parse(self, item: Item) -> Document:
        return Document([item[2]], [[target] for target in item[3]], True, True)


class Parallel(LineReader):
    name = "parallel"
    summary = "plain text: a file of documents and one or more of summaries"
    description = f"""\
One document or summary a line. Lines that hold the mark {SENTENCE_MARK} between sentences keep it with --marked;
without, it counts as a part of the text and is neutralised."""
    defaults: ClassVar = {"split": False}

    def __init__(self, args: argparse.Namespace):
        super().__init__(args)
        self.marked = args.marked
        self.files = {}
        for split in SPLITS:
            paths: Optional[List[Path]] = getattr(args, split)
            if paths:
                if len(paths) < 2:
                    raise InputError(f"--{split} {paths[0]}: give a file of documents and at least one of summaries")
                self.files[split] = [existing(f"--{split}", path) for path in paths]
        if not self.files:
            raise InputError("give at least one of --train, --valid and --test")

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        for split in SPLITS:
            parser.add_argument(
                f"--{split}", metavar="FILE", type=Path, nargs="+", help="documents, then summaries (then further ones)"
            )
        parser.add_argument("--marked", action="store_true", help=f"{SENTENCE_MARK} stands between sentences")

    def parse(self, item: Any) -> Document:
        source, targets = [item[2]], [[target] for target in item[3]]
        if self.marked:
            source, targets = source[0].split(SENTENCE_MARK), [target[0].split(SENTENCE_MARK) for target in targets]
        return Document(source, targets, self.marked, self.marked)
