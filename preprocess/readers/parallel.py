"""Read parallel text: a file of documents and one or more files of reference summaries, with one text per line."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Iterator, List, Optional, Tuple

from fairseq_etads.files import SPLITS
from fairseq_etads.files.inputs import get_display_name, zip_lines
from fairseq_etads.platform.command_options import option
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.documents import Document
from fairseq_etads.text.words import SENTENCE_MARK

from .base import INPUT_EXCLUDES, Reader, SharesOptions, check_path_exists, parse_input_options

Item = Tuple[str, int, str, List[str]]
"""Path of the document file, line number, document, and reference summaries."""


class LineReader(Reader):
    """Base class of readers for line-aligned files: of documents, and one or more of reference summaries."""

    def iterate_raw_documents(self, split: str) -> Iterator[Item]:
        paths = self.files["input" if self.shares else split]
        rows = zip_lines(paths, map(self.iterate_lines, paths))
        for number, (source, *targets) in enumerate(rows, 1):
            yield str(paths[0]), number, source, targets

    def describe_location(self, item: Item) -> str:
        return f"{get_display_name(Path(item[0]))}, line {item[1]}"

    def parse(self, item: Item) -> Document:
        self.check_utf8(item[2], *item[3])
        return Document([item[2]], [[target] for target in item[3]], True, True)


def _file_option(of: str = "", **metadata: Any) -> Any:
    text = f"file containing the documents{of}, followed by one or more files containing the summaries"
    return option(None, text, nargs="+", **metadata)


@dataclass
class ParallelOptions(SharesOptions):
    """Options of ``etads-corpus parallel``."""

    train: Optional[List[Path]] = _file_option()
    valid: Optional[List[Path]] = _file_option()
    test: Optional[List[Path]] = _file_option()
    input: Optional[List[Path]] = _file_option(" of all splits", excludes=INPUT_EXCLUDES)
    marked: bool = option(False, f"treat {SENTENCE_MARK} in the input as a separator between sentences")


class ParallelReader(LineReader):
    name = "parallel"
    summary = "plain text: a file containing documents, and one or more files containing summaries"
    description = f"""\
  etads-corpus parallel --train train.doc train.sum --valid valid.doc valid.sum --test ... --out TEXT
  etads-corpus parallel --input all.doc all.sum --split 90/5/5 --out TEXT

Each line contains one document or summary; - reads standard input. With --marked, the mark {SENTENCE_MARK} between
sentences is kept; otherwise, it is treated as part of the text and neutralised."""
    options = ParallelOptions
    defaults: ClassVar = {"split": False}

    def __init__(self, args: argparse.Namespace):
        super().__init__(args)
        self.marked = args.marked
        self.shares = parse_input_options(args)
        for key in (*SPLITS, "input"):
            paths: Optional[List[Path]] = getattr(args, key)
            if paths:
                if len(paths) < 2:
                    raise InputError(f"--{key} {paths[0]}: give a file of documents and at least one of summaries")
                self.files[key] = [check_path_exists(f"--{key}", path) for path in paths]

    def parse(self, item: Any) -> Document:
        self.check_utf8(item[2], *item[3])
        source, targets = [item[2]], [[target] for target in item[3]]
        if self.marked:
            source, targets = source[0].split(SENTENCE_MARK), [target[0].split(SENTENCE_MARK) for target in targets]
        return Document(source, targets, self.marked, self.marked)
