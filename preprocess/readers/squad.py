"""Read SQuAD (Rajpurkar et al. 2016, 2018), i.e. sentences from Wikipedia and the answers that they contain.

The data is used to train a tagger for salient words rather than a summarisation model (Pasunuru and Bansal 2018).
``etads-labels --kind words`` labels the words that belong to answers. The reward ``rougesal`` uses the tagger's
probabilities as the saliency of words.
"""

import argparse
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Optional, Tuple, Union

from fairseq_etads.platform.command_options import option
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.documents import BadDocumentError, Document
from fairseq_etads.text.words import split_sentences

from .base import Reader, check_path_exists, find_first_existing

VERSIONS = ("1.1", "2.0")
FILES = {"train": "train", "valid": "dev"}
"""Mapping from splits to the prefixes of their file names."""


Item = Tuple[str, Union[Document, BadDocumentError]]
"""Location, and a sentence with its answers by increasing length, or why its paragraph cannot be used."""


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

    def iterate_raw_documents(self, key: str) -> Iterator[Item]:
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

    def parse(self, item: Item) -> Document:
        _, document = item
        if isinstance(document, BadDocumentError):
            raise document
        self.check_utf8(*document.source)
        return document


def find_answer_sentences(paragraph: Any, where: str) -> Iterator[Item]:
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
