"""Read QMSum (Zhong et al. 2021): meetings, queries about them, and summaries that answer the queries."""

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple

from fairseq_etads.files import SPLITS
from fairseq_etads.platform.command_options import option
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.documents import BadDocumentError, Document, parse_json_record

from .base import Reader, check_path_exists
from .tables import find_jsonl_files

NAMES = {"train": ["train"], "valid": ["val", "valid", "dev"], "test": ["test"]}
_MARK = re.compile(r"\{\s*\w+\s*\} ?")
"""Marks of the transcription, such as {vocalsound} and {disfmarker}."""
_ACRONYM = re.compile(r"\b(?:[A-Za-z]_){2,}")
"""Spelled abbreviations, such as L_C_D_."""


class QueryPair(NamedTuple):
    """A query, the turns of the meeting that answer it, the answer, its location, and why it cannot be used."""

    query: str
    turns: List[str]
    summary: str
    where: str
    reason: str = ""


@dataclass
class QmsumOptions:
    """Options of ``etads-corpus qmsum``."""

    data: Path = option(None, "folder containing train, val and test", metavar="DIR", required=True)
    queries: str = option(
        "all",
        "general: queries about the whole meeting; specific: queries about a topic",
        choices=("all", "general", "specific"),
    )
    whole_meetings: bool = option(False, "use all turns instead of those that answer the query")


class QmsumReader(Reader):
    name = "qmsum"
    summary = "QMSum: queries about meetings, with the turns that answer them"
    description = """\
The input is a file per meeting, in the folders train/, val/ and test/ (data/ALL of the corpus), or the same as JSON
lines, in train.jsonl, val.jsonl and test.jsonl. A document consists of a query and, after it, the turns that answer it
according to the annotators; for a general query, these are all turns. JSON lines with "query", "gold_span" and
"summary" are accepted as well. Marks of the transcription, such as {vocalsound}, are removed, and L_C_D_ becomes LCD,
as in the code of the authors."""
    options = QmsumOptions

    def __init__(self, args: argparse.Namespace):
        super().__init__(args)
        self.data = check_path_exists("--data", args.data, directory=True)
        self.whole: bool = args.whole_meetings
        self.queries: str = args.queries
        lines = find_jsonl_files(self.data)
        for split in SPLITS:
            meetings = sorted(path for name in NAMES[split] for path in (self.data / name).glob("*.json"))
            files = [lines[split]] if split in lines else meetings
            if files:
                self.files[split] = files
        if not self.files:
            raise InputError(
                f"--data {self.data}: neither train/, val/ or test/ with .json files, nor train.jsonl, val.jsonl or "
                "test.jsonl"
            )

    def iterate_raw_documents(self, split: str) -> Iterator[QueryPair]:
        for path in self.files[split]:
            records = [self.read_text(path)] if path.suffix == ".json" else self.iterate_lines(path)
            for number, line in enumerate(records, 1):
                where = str(path) if path.suffix == ".json" else f"{path}, line {number}"
                if not line.strip():
                    continue
                try:
                    yield from self._list_pairs(parse_json_record(line), where)
                except (BadDocumentError, AttributeError, LookupError, TypeError, ValueError) as error:
                    yield QueryPair("", [], "", where, f"neither a meeting nor a query with its span ({error})")

    def _list_pairs(self, values: Dict[str, Any], where: str) -> List[QueryPair]:
        """Return the pairs of a meeting, or the only pair of a record that has a gold span."""
        if "gold_span" in values:
            if self.whole:
                raise InputError(f"--whole-meetings: {where} has a gold span, but no meeting")
            wanted = self.queries in ("all", "general" if values.get("whole") else "specific")
            turns = values["gold_span"].split("\n")
            return [QueryPair(values["query"], turns, values["summary"], where)] if wanted else []
        meeting = [f"{turn['speaker']}: {turn['content']}" for turn in values["meeting_transcripts"]]
        pairs = []
        for kind in ("general", "specific"):
            queries = values[f"{kind}_query_list"] if self.queries in ("all", kind) else ()
            for number, query in enumerate(queries, 1):
                spans = () if self.whole else query.get("relevant_text_span", ())
                chosen = [turn for first, last in spans for turn in meeting[int(first) : int(last) + 1]]
                here = f"{where}, {kind} query {number}"
                pairs.append(QueryPair(query["query"], chosen or meeting, query["answer"], here))
        return pairs

    def describe_location(self, item: QueryPair) -> str:
        return item.where

    def parse(self, item: QueryPair) -> Document:
        if item.reason or not (isinstance(item.query, str) and isinstance(item.summary, str)):
            raise BadDocumentError(item.reason or "query or answer that is not a text")
        self.check_utf8(item.query, item.summary, *item.turns)
        self.counts["marks of the transcription removed"] += sum(len(_MARK.findall(turn)) for turn in item.turns)
        turns = (_ACRONYM.sub(lambda found: found.group().replace("_", ""), _MARK.sub("", turn)) for turn in item.turns)
        return Document([item.query, *turns], [[item.summary]])
