"""Read AESLC (Zhang and Tetreault 2019): e-mails of the Enron corpus, and their subjects."""

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_etads.platform.command_options import option
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.documents import BadDocumentError, Document
from fairseq_etads.text.records import parse_record

from .base import Reader, check_path_exists
from .tables import FolderOrTableReader, find_jsonl_files, make_jsonl_options

FOLDERS = {"train": ["train"], "valid": ["dev", "valid"], "test": ["test"]}
_FIELD = re.compile(r"\n@(subject|ann\d+)\n")


@dataclass
class AeslcOptions:
    """Options of ``etads-corpus aeslc``."""

    data: Path = option(None, "folder containing train, dev and test", metavar="DIR", required=True)
    annotated: bool = option(
        False, "the references of dev and test are the annotators' subjects instead of the original ones"
    )


class AeslcReader(FolderOrTableReader):
    name = "aeslc"
    summary = "AESLC: e-mails and their subjects, as folders of .subject files, or train.jsonl, dev.jsonl, test.jsonl"
    description = """\
The folders train/, dev/ and test/ contain a file per e-mail: its text, a line "@subject" with the subject in the next
line and, except in train/, "@ann0" to "@ann2" with the subjects that three people gave it. JSON lines have the keys
"document", "summary" and, optionally, "annotated" (a list)."""
    options = AeslcOptions

    def __init__(self, args: argparse.Namespace):
        data = check_path_exists("--data", args.data, directory=True)
        self.annotated: bool = args.annotated
        found = find_jsonl_files(data)
        self.items = {}
        if found:
            super().__init__(make_jsonl_options(args, found, "references", ("document", "summary")))
            return
        Reader.__init__(self, args)
        for split, names in FOLDERS.items():
            paths = sorted(path for name in names for path in (data / name).glob("*.subject"))
            if paths:
                self.files[split] = self.items[split] = paths
        if not self.files:
            raise InputError(
                f"--data {data}: neither train/, dev/ or test/ with .subject files, nor train.jsonl, dev.jsonl or "
                "test.jsonl"
            )

    def describe_location(self, item: Any) -> str:
        return str(item) if self.items else super().describe_location(item)

    def parse(self, item: Any) -> Document:
        if self.items:
            text, *fields = _FIELD.split(f"\n{self.read_text(item)}")
            subjects = [subject.strip() for subject in fields[1::2]]
            if fields[:1] != ["subject"]:
                raise BadDocumentError("no @subject")
            document = Document(text.split("\n"), [subjects[:1]])
            subjects = subjects[1:]
        else:
            document = super().parse(item)
            subjects = (parse_record(item[2]).get("annotated") or []) if self.annotated else []
        if self.annotated and subjects:
            document.targets = [[subject] for subject in subjects]
        return document
