"""Read AESLC (Zhang and Tetreault 2019): e-mails of the Enron corpus, and their subjects."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from fairseq_etads.platform.command_options import option
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.documents import BadDocumentError, Document
from fairseq_etads.text.records import parse_record

from .base import SPLIT_NAMES
from .tables import FolderReader

_FIELD = re.compile(r"\n@(subject|ann\d+)\n")


class AeslcReader(FolderReader):
    name = "aeslc"
    summary = "AESLC: e-mails and their subjects, as folders of .subject files, or train.jsonl, dev.jsonl, test.jsonl"
    description = """\
The folders train/, dev/ and test/ contain a file per e-mail: its text, a line "@subject" with the subject in the next
line and, except in train/, "@ann0" to "@ann2" with the subjects that three people gave it. JSON lines have the keys
"document", "summary" and, optionally, "annotated" (a list)."""

    @dataclass
    class Options:
        data: Path = option(None, "folder containing train, dev and test", metavar="DIR", required=True)
        annotated: bool = option(False, "take the annotators' subjects as the references of dev and test")

    json_lines: ClassVar = {"source_column": "document", "target_column": "summary", "target_list": "references"}

    def find_items(self) -> None:
        for split, names in SPLIT_NAMES.items():
            self.files[split] = sorted(path for name in names for path in (self.data / name).glob("*.subject"))
            self.items[split] = [(str(path), path) for path in self.files[split]]
        if not self.list_splits():
            files = "train/, dev/ or test/ with .subject files, nor train.jsonl, dev.jsonl or test.jsonl"
            raise InputError(f"--data {self.data}: neither {files}")

    def parse(self, item: Any) -> Document:
        annotated: bool = self.args.annotated
        if self.items:
            text, *fields = _FIELD.split(f"\n{self.read_text(item[1])}")
            if fields[:1] != ["subject"]:
                raise BadDocumentError("no @subject")
            subject, *subjects = map(str.strip, fields[1::2])
            document = Document(text.split("\n"), [[subject]])
        else:
            document = super().parse(item)
            subjects = (parse_record(item[2]).get("annotated") or []) if annotated else []
        if annotated and subjects:
            document.targets = [[subject] for subject in subjects]
        return document
