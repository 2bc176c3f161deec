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
