"""Read QMSum (Zhong et al. 2021): meetings, queries about them, and summaries that answer the queries."""

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

from fairseq_etads.platform.command_options import option
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.documents import BadDocumentError, Document, parse_json_record

from .base import SPLIT_NAMES, Reader, check_path_exists
from .folders import find_jsonl_files

_MARK = re.compile(r"\{\s*\w+\s*\} ?")
"""Marks of the transcription, such as {vocalsound} and {disfmarker}."""
_ACRONYM = re.compile(r"\b(?:[A-Za-z]_){2,}")
"""Spelled abbreviations, such as L_C_D_."""


Item = Tuple[str, Any, Any]
"""Location, the query and the turns of the meeting that answer it, and the answer; or the location and an error."""


class QmsumReader(Reader):
    name = "qmsum"
    summary = "QMSum: queries about meetings, with the turns that answer them"
    description = """\
The input is a file per meeting, in the folders train/, val/ and test/ (data/ALL of the corpus), or the same as JSON
lines, in train.jsonl, val.jsonl and test.jsonl. A document consists of a query and, after it, the turns that answer it
according to the annotators; for a general query, these are all turns. JSON lines with "query", "gold_span" and
"summary" are accepted as well. Marks of the transcription, such as {vocalsound}, are removed, and L_C_D_ becomes LCD,
as in the code of the authors."""

    @dataclass
    class Options:
        data: Path = option(None, "folder containing train, val and test", metavar="DIR", required=True)
        queries: str = option(
            "all",
            "general: queries about the whole meeting; specific: queries about a topic",
            choices=("all", "general", "specific"),
        )
        whole_meetings: bool = option(False, "use all turns instead of those that answer the query")

    def __init__(self, args: argparse.Namespace):
        super().__init__(args)
        data = check_path_exists("--data", args.data, directory=True)
        lines = find_jsonl_files(data)
        for split, names in SPLIT_NAMES.items():
            meetings = sorted(path for name in names for path in (data / name).glob("*.json"))
            self.files[split] = [lines[split]] if split in lines else meetings
        if not self.list_splits():
            files = "train/, val/ or test/ with .json files, nor train.jsonl, val.jsonl or test.jsonl"
            raise InputError(f"--data {data}: neither {files}")

    def iterate_raw_documents(self, key: str) -> Iterator[Item]:
        for path in self.files[key]:
            whole = path.suffix == ".json"
            for number, line in enumerate([self.read_text(path)] if whole else self.iterate_lines(path), 1):
                where = str(path) if whole else f"{path}, line {number}"
                if not line.strip():
                    continue
                try:
                    yield from self._list_pairs(parse_json_record(line), where)
                except (BadDocumentError, AttributeError, LookupError, TypeError, ValueError) as error:
                    yield where, BadDocumentError(f"neither a meeting nor a query with its span ({error})"), ""

    def _list_pairs(self, values: Dict[str, Any], where: str) -> List[Item]:
        """Return the pairs of a meeting, or the only pair of a record that has a gold span."""
        queries, whole = self.args.queries, self.args.whole_meetings
        if "gold_span" in values:
            if whole:
                raise InputError(f"--whole-meetings: {where} has a gold span, but no meeting")
            wanted = queries in ("all", "general" if values.get("whole") else "specific")
            turns = values["gold_span"].split("\n")
            return [(where, [values["query"], *turns], values["summary"])] if wanted else []
        meeting = [f"{turn['speaker']}: {turn['content']}" for turn in values["meeting_transcripts"]]
        pairs = []
        for kind in ("general", "specific"):
            for number, query in enumerate(values[f"{kind}_query_list"] if queries in ("all", kind) else (), 1):
                spans = () if whole else query.get("relevant_text_span", ())
                turns = [turn for first, last in spans for turn in meeting[int(first) : int(last) + 1]]
                here = f"{where}, {kind} query {number}"
                pairs.append((here, [query["query"], *(turns or meeting)], query["answer"]))
        return pairs

    def parse(self, item: Item) -> Document:
        _, texts, summary = item
        if isinstance(texts, BadDocumentError):
            raise texts
        query, *turns = texts
        if not (isinstance(query, str) and isinstance(summary, str)):
            raise BadDocumentError("query or answer that is not a text")
        self.check_utf8(*texts, summary)
        self.counts["marks of the transcription removed"] += sum(len(_MARK.findall(turn)) for turn in turns)
        turns = (_ACRONYM.sub(lambda found: found.group().replace("_", ""), _MARK.sub("", turn)) for turn in turns)
        return Document([query, *turns], [[summary]])
