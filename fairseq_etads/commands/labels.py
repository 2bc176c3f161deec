"""The command ``etads-labels`` (prepare data): create word and sentence labels for content selection."""

import functools
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from tqdm import tqdm

from ..data.labels import (
    NOTHING,
    compute_idf,
    compute_selection_targets,
    compute_source_hash,
    label_copied_words,
    make_label_file_name,
    match_sentences,
    select_by_greedy_f1,
    select_by_greedy_recall,
    write_label_rows,
)
from ..data.preparation import PreparedPairs, WordText, list_summary_sentences
from ..files.outputs import open_output
from ..platform.command_options import SIZE, JobsOption, argument, option, options_command
from ..platform.errors import InputError
from ..platform.processes import map_in_processes
from ..text.words import SENTENCE_MARK
from .shared_options import get_binarised_folder, list_splits, make_detokenizer, open_split

KINDS = {"words": "words", **dict.fromkeys(("match", "extract", "f1", "distribution"), "sentences")}
"""Dictionary that maps each value of ``--kind`` to the unit that is labelled."""
Row = Tuple[str, List[str]]
Idf = Tuple[Dict[str, float], float]
NO_IDF: Idf = ({}, 1.0)


@dataclass
class LabelsOptions(JobsOption):
    """Options of ``etads-labels``."""

    data: Path = argument("DATA", "output folder of etads-prepare, or its bin folder")
    kind: Optional[str] = option(
        None, "kind of label, as described below (default: words)", choices=tuple(KINDS), excludes={"--pairs": ""}
    )
    pairs: Optional[Path] = option(
        None, "write sentence pairs to text files in this folder instead of creating labels", metavar="DIR"
    )
    subset: Optional[List[str]] = option(
        None, "splits to label (default: train, valid and test, if present)", metavar="NAME", nargs="+"
    )
    truncate_source: int = option(
        400, "read only the first N tokens of documents, at least as many as models that use the labels", bounds=SIZE
    )
    out: Optional[Path] = option(
        None, "output folder for the labels (default: the data folder)", metavar="DIR", excludes={"--pairs": ""}
    )


class Labeller(NamedTuple):
    """Creates labels of a kind in :data:`KINDS` from the first ``limit`` tokens of the documents in a split.

    ``idf`` are inverse document frequencies for the kind "distribution"; see :func:`.compute_idf`.
    """

    pairs: PreparedPairs
    kind: str
    limit: int
    idf: Idf = NO_IDF

    def make_label_row(self, number: int) -> Row:
        """Return the hash and the labels of a document, which form its line in the label file."""
        tokens = self.pairs.read_document(number)
        label = self._label_words if self.kind == "words" else self._label_sentences
        document = WordText.from_tokens(tokens, self.pairs.subwords, self.limit)
        return compute_source_hash(tokens), label(document, self.pairs.read_summary(number))

    def _label_words(self, document: WordText, summary: List[str]) -> List[str]:
        places = [place for place, word in enumerate(document.words) if word != SENTENCE_MARK]
        # Keep the sentence marks in the summary, so that no copied sequence crosses a sentence boundary in the summary.
        words = self.pairs.blank_unknown_words(WordText.from_tokens(summary, self.pairs.subwords).words)
        values = dict(zip(places, label_copied_words([document.words[place] for place in places], words)))
        spread = document.expand_word_values_to_tokens([values.get(place, 0) for place in range(len(document.words))])
        return [NOTHING if value is None else str(value) for value in spread]

    def match_sentence_pairs(self, number: int) -> List[Tuple[str, str]]:
        """Return pairs of a document sentence and the summary sentence that it matches, as strings of words."""
        tokens = self.pairs.read_document(number)
        sentences = WordText.from_tokens(tokens, self.pairs.subwords, self.limit).split_sentences()
        summary = list_summary_sentences(self.pairs.read_summary(number), self.pairs.subwords)
        chosen = match_sentences(sentences, [self.pairs.blank_unknown_words(sentence) for sentence in summary])
        return [(" ".join(sentences[place]), " ".join(words)) for place, words in zip(chosen, summary)]

    def _label_sentences(self, document: WordText, summary: List[str]) -> List[str]:
        sentences = document.split_sentences()
        words = list_summary_sentences(summary, self.pairs.subwords)
        references = [self.pairs.blank_unknown_words(sentence) for sentence in words]
        choose = {"match": match_sentences, "extract": select_by_greedy_recall, "f1": select_by_greedy_f1}
        if self.kind in choose:
            return [str(number) for number in choose[self.kind](sentences, references)]
        rows = compute_selection_targets(sentences, references, *self.idf)
        pairs = (",".join(f"{i}:{weight:.6g}" for i, weight in enumerate(row) if weight) for row in rows)
        return [found or NOTHING for found in pairs]


_labeller: Optional[Labeller] = None
"""The labeller that this process uses."""


def _start_labeller(folder: Path, split: str, kind: str, limit: int, idf: Idf = NO_IDF) -> None:
    global _labeller
    _labeller = Labeller(open_split(folder, split), kind, limit, idf)


def _call_labeller(method: str, number: int) -> Any:
    return getattr(_labeller, method)(number)


def _label_all_documents(method: str, pairs: PreparedPairs, what: str, jobs: int, *arguments: Any) -> Iterator[Any]:
    """Call a method of a labeller with these arguments for each document, and yield the results in order."""
    function = functools.partial(_call_labeller, method)
    found = map_in_processes(function, range(len(pairs)), jobs, _start_labeller, arguments)
    return iter(tqdm(found, what, len(pairs), unit=" documents", disable=None))


def _open_labelled_split(folder: Path, split: str, needs_marks: str) -> PreparedPairs:
    """Open a split. Raise InputError if it has no summaries, or if an option needs sentence marks that it lacks."""
    pairs = open_split(folder, split)
    if not pairs.has_summaries:
        raise InputError(f"--subset {split}: it has no summaries")
    if needs_marks:
        pairs.check_sentence_marks(needs_marks)
    return pairs


def make_labels(folder: Path, split: str, kind: str, limit: int, path: Path, jobs: int) -> str:
    """Write the labels of the documents in a split to ``path``, and return a message about them.

    ``folder`` contains the binarised data. See :class:`Labeller` for ``kind`` and ``limit``.
    """
    pairs = _open_labelled_split(folder, split, "" if kind == "words" else f"--kind {kind}")
    idf = NO_IDF
    if kind == "distribution":
        training = open_split(folder, "train") if any(folder.glob("train.*.idx")) else pairs
        numbers = tqdm(range(len(training)), desc="document frequencies", unit=" documents", disable=None)
        tokens = map(training.read_document, numbers)
        idf = compute_idf(WordText.from_tokens(document, training.subwords, limit).words for document in tokens)
    rows = _label_all_documents("make_label_row", pairs, f"labels of {split}", jobs, folder, split, kind, limit, idf)
    labels = copied = 0

    def count_rows() -> Iterator[Row]:
        nonlocal labels, copied
        for digest, fields in rows:
            labels, copied = labels + len(fields) - fields.count(NOTHING), copied + fields.count("1")
            yield digest, fields

    header = {"made_by": "etads-labels", "kind": kind, "documents": len(pairs), "truncate_source": limit}
    write_label_rows(path, header, count_rows())
    if kind == "words":
        share = copied / max(labels, 1)
        return f"{copied:,} of {labels:,} tokens of {len(pairs):,} documents are copied ({share:.1%})"
    extracts = kind in ("extract", "f1")
    what = "extracted sentences" if extracts else "sentences of summaries with a sentence of a document"
    return f"{labels:,} {what} in {len(pairs):,} documents"


def write_pairs(folder: Path, split: str, limit: int, out: Path, jobs: int) -> str:
    """Write matching sentences of documents and summaries as lines of SPLIT.source and SPLIT.target in ``out``.

    Returns a message about the number of pairs. See :func:`make_labels` for the other arguments.
    """
    pairs = _open_labelled_split(folder, split, "--pairs")
    tokenizer = make_detokenizer(pairs, folder)
    arguments = (folder, split, "match", limit)
    found = _label_all_documents("match_sentence_pairs", pairs, f"pairs of {split}", jobs, *arguments)
    count = 0
    with open_output(out / f"{split}.source") as sources, open_output(out / f"{split}.target") as targets:
        for source, target in itertools.chain.from_iterable(found):
            sources.write(tokenizer.decode(source) + "\n")
            targets.write(tokenizer.decode(target) + "\n")
            count += 1
    return f"{count:,} pairs of sentences of {len(pairs):,} documents"


@options_command(
    "etads-labels",
    LabelsOptions,
    ValueError,
    description="Create content-selection labels for prepared documents from their reference summaries. Labels "
    "are written to labels.words.SPLIT or labels.sentences.SPLIT, one line per document. With --pairs, write "
    "pairs of matching sentences instead.",
    epilog="""\
kinds:
  words          1 for each word that the summary copies, at the first occurrence of the longest matches; otherwise 0
  match          for each summary sentence, the document sentence with the highest ROUGE-L recall of it; no document
                 sentence is chosen twice
  extract        sentences that together have a high ROUGE-L recall of the summary, chosen greedily
  f1             sentences that together are most similar to the summary, chosen greedily by word and bigram F1; selects
                 fewer sentences than extract, and is much faster
  distribution   for each summary sentence, a weight for every document sentence, from their TF-IDF cosine similarity

examples:
  etads-labels runs/mine/prepared --kind words          # train, valid and test, if present
  etads-labels runs/mine/prepared --kind extract --subset train valid --jobs 4
  etads-labels runs/mine/prepared --pairs sentences/text
  etads-prepare sentences/text sentences/prepared --like runs/mine/prepared

  For --pairs and for all kinds except words, the documents must contain sentence marks (etads-prepare
  --source-sentence-marks). The pages etads docs selection and etads docs rewrite describe the kinds and pairs.""",
)
def main(args: LabelsOptions) -> None:
    """Run the command ``etads-labels``."""
    folder = get_binarised_folder(args.data)
    kind = args.kind or "words"
    for split in args.subset or list_splits(folder):
        if args.pairs is not None:
            said = write_pairs(folder, split, args.truncate_source, args.pairs, args.jobs)
            print(f"{args.pairs / split}.source and .target: {said}")
            continue
        path = (args.out or folder) / make_label_file_name("labels", KINDS[kind], split)
        print(f"{path}: {make_labels(folder, split, kind, args.truncate_source, path, args.jobs)}")
