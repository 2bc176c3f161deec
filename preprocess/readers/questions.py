"""Read corpora of questions about texts: SQuAD (Rajpurkar et al. 2016, 2018) and QMSum (Zhong et al. 2021)."""

import argparse
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

from fairseq_etads.platform.command_options import option
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.documents import BadDocumentError, Document, parse_json_record
from fairseq_etads.text.words import split_sentences

from .base import SPLIT_NAMES, Reader, check_path_exists, find_first_existing
from .folders import find_jsonl_files

VERSIONS, FILES = ("1.1", "2.0"), {"train": "train", "valid": "dev"}
"""Versions of SQuAD, and the prefixes of the names of its files."""
_MARK = re.compile(r"\{\s*\w+\s*\} ?")
"""Marks of QMSum's transcriptions, such as {vocalsound} and {disfmarker}."""
_ACRONYM = re.compile(r"\b(?:[A-Za-z]_){2,}")
"""Spelled abbreviations, such as L_C_D_."""

AnswerItem = Tuple[str, Union[Document, BadDocumentError]]
"""Location, and a sentence with its answers by increasing length, or why its paragraph cannot be used."""
QueryItem = Tuple[str, Any, Any]
"""Location, the query and the turns of the meeting that answer it, and the answer; or the location and an error."""


class SquadReader(Reader):
    name = "squad"
    summary = "SQuAD 1.1 or 2.0: sentences and the answers in them, for training a tagger of salient words"
    description = """\
The input is train-v1.1.json and dev-v1.1.json (or v2.0) as published, optionally compressed; dev becomes valid. A
document is a sentence that contains an answer. Its summary consists of all answers in the sentence, from the shortest
to the longest; questions are not used. Prepare the data with the dictionary of the summariser (etads-prepare --like),
label the answers with etads-labels --kind words, train --arch word_tagger, and pass its checkpoint to
--rougesal-saliency."""

    @dataclass
    class Options:
        data: Path = option(None, "folder containing the SQuAD JSON files", metavar="DIR", required=True)
        squad_version: Optional[str] = option(None, "version of SQuAD (default: the first found)", choices=VERSIONS)

    splits_text = False

    def __init__(self, args: argparse.Namespace):
        super().__init__(args)
        folder = check_path_exists("--data", args.data, directory=True)
        versions = (args.squad_version,) if args.squad_version else VERSIONS
        for version in versions:
            for split, name in FILES.items():
                path = find_first_existing([folder], [f"{name}-v{version}.json"])
                self.files[split] = [path] if path else []
            if self.list_splits():
                return
        wanted = " or ".join(f"train-v{version}.json" for version in versions)
        raise InputError(f"--data {folder}: no {wanted}, or dev of the same version is missing")

    def iterate_raw_documents(self, key: str) -> Iterator[AnswerItem]:
        (path,) = self.files[key]
        try:
            articles = json.loads("\n".join(self.iterate_lines(path)))["data"]
            paragraphs = [
                (paragraph, f"{path}, article {number}, paragraph {place}")
                for number, article in enumerate(articles, 1)
                for place, paragraph in enumerate(article["paragraphs"], 1)
            ]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"{path}: not SQuAD's JSON ({type(error).__name__}: {error})") from None
        for paragraph in paragraphs:
            yield from find_answer_sentences(*paragraph)

    def parse(self, item: AnswerItem) -> Document:
        _, document = item
        if isinstance(document, BadDocumentError):
            raise document
        self.check_utf8(*document.source)
        return document


def find_answer_sentences(paragraph: Any, where: str) -> Iterator[AnswerItem]:
    """Yield all sentences of a paragraph that contain an answer or part of an answer, or why it cannot be used."""
    try:
        context: str = paragraph["context"]
        answers = [answer for question in paragraph["qas"] for answer in question["answers"]]
        spans = [(answer["answer_start"], answer["text"]) for answer in answers]  # none for unanswerable questions
        right = all(isinstance(start, int) and isinstance(text, str) and start >= 0 for start, text in spans)
        if not (right and isinstance(context, str)):
            raise TypeError
    except (KeyError, TypeError, ValueError):
        yield where, BadDocumentError("paragraph without context, or with damaged answers")
        return
    if any(context[start : start + len(answer)] != answer for start, answer in spans):
        yield where, BadDocumentError("answer that is not where answer_start says")
        return
    place = 0
    for sentence in split_sentences(context):
        # The sentence splitter may have changed the white space between words.
        match = re.compile(r"\s+".join(map(re.escape, sentence.split()))).search(context, place)
        start, end = match.span() if match else (place, place)
        place = end
        parts = {context[max(start, at) : min(end, at + len(answer))].strip() for at, answer in spans}
        inside = sorted(parts - {""}, key=lambda text: (len(text), text))
        if inside:
            yield where, Document([sentence], [inside], source_in_sentences=True, targets_in_sentences=True)


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

    def iterate_raw_documents(self, key: str) -> Iterator[QueryItem]:
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

    def _list_pairs(self, values: Dict[str, Any], where: str) -> List[QueryItem]:
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

    def parse(self, item: QueryItem) -> Document:
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
