"""Create labels or sentence pairs from the documents and summaries in a binarised split. Used by ``etads-labels``."""

import contextlib
import functools
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from tqdm import tqdm

from ..data.labels.label_files import NOTHING, compute_source_hash, write_label_rows
from ..data.labels.labels import (
    compute_idf,
    compute_selection_targets,
    label_copied_words,
    match_sentences,
    select_by_greedy_f1,
    select_by_greedy_recall,
)
from ..data.labels.word_text import WordText, list_summary_sentences
from ..data.prepared_pairs import PreparedPairs
from ..platform.console import leave_signals_to_parent
from ..platform.errors import InputError
from ..platform.outputs import open_output
from ..platform.processes import make_process_pool
from ..text.words import SENTENCE_MARK
from ..training.options import SummarizationConfig
from ..training.task import SummarizationTask
from .runs import make_detokenizer

Row = Tuple[str, List[str]]
CHUNK = 64
"""Number of documents that a worker process labels at a time."""


def create_summarisation_task(folder: Path) -> SummarizationTask:
    """Create the summarisation task for a folder of binarised data."""
    cfg = SummarizationConfig(data=str(folder))
    cfg.dataset_impl, cfg.train_subset, cfg.required_seq_len_multiple, cfg.batch_size = None, "train", 1, None
    return SummarizationTask.setup_task(cfg)


def list_splits(folder: Path) -> List[str]:
    """Return the splits (train, valid and test) that a folder of binarised data contains.

    Raises InputError if the folder contains none of these splits.
    """
    found = [split for split in ("train", "valid", "test") if any(folder.glob(f"{split}.*.idx"))]
    if not found:
        raise InputError(f"DATA {folder}: it has no split train, valid or test; name its splits with --subset")
    return found


class Labeller(NamedTuple):
    """Creates the labels of the documents in a split.

    Attributes:
        pairs: documents and summaries in the split.
        kind: kind of labels, which is "words", "match", "extract", "f1" or "distribution".
        limit: maximum number of tokens to read from each document.
        subwords: type of subwords in the data; see :func:`~fairseq_etads.text.subwords.find_word_ends`.
        idf: inverse document frequencies for the kind "distribution"; see
            :func:`~fairseq_etads.data.labels.labels.compute_idf`.
    """

    pairs: PreparedPairs
    kind: str
    limit: int
    subwords: str
    idf: Tuple[Dict[str, float], float] = ({}, 1.0)

    def make_label_row(self, number: int) -> Row:
        """Return the hash and the labels of a document, which form its line in the label file."""
        tokens = self.pairs.read_document(number)
        document, summary = WordText.from_tokens(tokens, self.subwords, self.limit), self.pairs.read_summary(number)
        fields = (
            self._label_words(document, summary) if self.kind == "words" else self._label_sentences(document, summary)
        )
        return compute_source_hash(tokens), fields

    def _label_words(self, document: WordText, summary: List[str]) -> List[str]:
        places = [place for place, word in enumerate(document.words) if word != SENTENCE_MARK]
        # Keep the sentence marks in the summary, so that no copied sequence crosses a sentence boundary in the summary.
        words = self.pairs.blank_unknown_words(WordText.from_tokens(summary, self.subwords).words)
        values = dict(zip(places, label_copied_words([document.words[place] for place in places], words)))
        spread = document.expand_word_values_to_tokens([values.get(place, 0) for place in range(len(document.words))])
        return [NOTHING if value is None else str(value) for value in spread]

    def match_sentence_pairs(self, number: int) -> List[Tuple[str, str]]:
        """Return pairs of a document sentence and the summary sentence that it matches.

        Each sentence is a string of words separated by spaces.
        """
        sentences = WordText.from_tokens(self.pairs.read_document(number), self.subwords, self.limit).split_sentences()
        summary = list_summary_sentences(self.pairs.read_summary(number), self.subwords)
        chosen = match_sentences(sentences, [self.pairs.blank_unknown_words(sentence) for sentence in summary])
        return [(" ".join(sentences[place]), " ".join(words)) for place, words in zip(chosen, summary)]

    def _label_sentences(self, document: WordText, summary: List[str]) -> List[str]:
        sentences = document.split_sentences()
        references = [
            self.pairs.blank_unknown_words(sentence) for sentence in list_summary_sentences(summary, self.subwords)
        ]
        if self.kind == "match":
            return [str(number) for number in match_sentences(sentences, references)]
        if self.kind == "extract":
            return [str(number) for number in select_by_greedy_recall(sentences, references)]
        if self.kind == "f1":
            return [str(number) for number in select_by_greedy_f1(sentences, references)]
        rows = compute_selection_targets(sentences, references, *self.idf)
        pairs = (",".join(f"{i}:{weight:.6g}" for i, weight in enumerate(row) if weight) for row in rows)
        return [found or NOTHING for found in pairs]


_labeller: Optional[Labeller] = None
"""The labeller that this worker process uses."""


def _start_labeller(folder: Path, split: str, kind: str, limit: int, idf: Tuple[Dict[str, float], float]) -> None:
    global _labeller
    leave_signals_to_parent()
    _labeller = _open_labeller(folder, split, kind, limit, idf)


def _open_labeller(folder: Path, split: str, kind: str, limit: int, idf: Tuple[Dict[str, float], float]) -> Labeller:
    task = create_summarisation_task(folder)
    task.load_dataset(split)
    return Labeller(PreparedPairs(task.dataset(split)), kind, limit, task.subwords, idf)


def _call_labeller(method: str, numbers: range) -> List[Any]:
    return [getattr(_labeller, method)(number) for number in numbers]


def _label_all_documents(labeller: Labeller, method: str, arguments: Tuple[Any, ...], jobs: int) -> Iterator[Any]:
    """Call a method of the labeller for each document, and yield the results in order.

    Args:
        arguments: arguments of :func:`_open_labeller`, with which worker processes create the same labeller.
        jobs: number of worker processes.
    """
    count = len(labeller.pairs)
    if jobs == 1:
        yield from map(getattr(labeller, method), range(count))
        return
    chunks = [range(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
    with make_process_pool(min(jobs, max(1, len(chunks))), _start_labeller, arguments) as pool:
        for found in pool.map(functools.partial(_call_labeller, method), chunks):
            yield from found


def make_labels(folder: Path, split: str, kind: str, limit: int, path: Path, jobs: int) -> str:
    """Write the labels of the documents in a split to a file, and return a message about them.

    Args:
        folder: path of the folder with the binarised data.
        kind, limit: kind of labels, and maximum number of tokens per document; see :class:`Labeller`.
        path: path of the label file to write.
        jobs: number of worker processes.

    Raises:
        InputError: the split contains no summaries, or the kind of labels requires sentence marks but there are none.
        FileNotFoundError: the data does not contain the split.
    """
    labeller = _open_labeller(folder, split, kind, limit, ({}, 1.0))
    pairs = labeller.pairs
    if not pairs.has_summaries:
        raise InputError(f"--subset {split}: it has no summaries from which to make labels")
    if kind != "words":
        check_documents_have_sentence_marks(pairs, f"--kind {kind}")
    idf = _compute_training_idf(folder, labeller) if kind == "distribution" else labeller.idf
    header = {"made_by": "etads-labels", "kind": kind, "documents": len(pairs), "truncate_source": limit}
    counts = _LabelCounts(kind)
    arguments = folder, split, kind, limit, idf
    with tqdm(total=len(pairs), desc=f"labels of {split}", unit=" documents", disable=None) as bar:

        def count_rows(rows: Iterator[Row]) -> Iterator[Row]:
            for row in rows:
                counts.add(row[1])
                bar.update()
                yield row

        write_label_rows(
            path,
            header,
            count_rows(_label_all_documents(labeller._replace(idf=idf), "make_label_row", arguments, jobs)),
        )
    return str(counts)


def write_pairs(folder: Path, split: str, limit: int, out: Path, jobs: int) -> str:
    """Write summary sentences and the matching document sentences of a split as parallel lines of text.

    Args:
        folder: path of the folder with the binarised data.
        limit: maximum number of tokens to read from each document.
        out: path of the folder for the files SPLIT.source (document sentences) and SPLIT.target (summary sentences).
        jobs: number of worker processes.

    Returns:
        A message about the number of sentence pairs.

    Raises:
        InputError: the data is unsuitable (see :func:`make_labels`), or its subwords cannot be joined into words.
    """
    arguments: Any = folder, split, "match", limit, ({}, 1.0)
    labeller = _open_labeller(*arguments)
    pairs = labeller.pairs
    if not pairs.has_summaries:
        raise InputError(f"--subset {split}: it has no summaries from which to make pairs")
    check_documents_have_sentence_marks(pairs, "--pairs")
    tokenizer = make_detokenizer(pairs.dictionary, labeller.subwords, folder)
    paths = [out / f"{split}.{side}" for side in ("source", "target")]
    count = 0
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open_output(path, lines=lambda: count)) for path in paths]
        found = _label_all_documents(labeller, "match_sentence_pairs", arguments, jobs)
        for matched in tqdm(found, f"pairs of {split}", len(pairs), unit=" documents", disable=None):
            for texts in matched:
                count += 1
                for file, text in zip(files, texts):
                    file.write(tokenizer.decode(text) + "\n")
    return f"{count:,} pairs of sentences of {len(pairs):,} documents"


def check_documents_have_sentence_marks(pairs: PreparedPairs, option: str) -> None:
    """Raise InputError if none of the first 100 documents contains a sentence mark."""
    if len(pairs) and not any(SENTENCE_MARK in pairs.read_document(number) for number in range(min(len(pairs), 100))):
        raise InputError(
            f'{option}: the documents have no "{SENTENCE_MARK}", which marks the end of a sentence; prepare them with '
            "etads-prepare --source-sentence-marks"
        )


def _compute_training_idf(folder: Path, labeller: Labeller) -> Tuple[Dict[str, float], float]:
    """Compute the inverse document frequencies of words in the training documents.

    If the data does not contain a training split, the documents of the current split are used.
    """
    with contextlib.suppress(FileNotFoundError):
        labeller = _open_labeller(folder, "train", "distribution", labeller.limit, labeller.idf)
    numbers = tqdm(range(len(labeller.pairs)), desc="document frequencies", unit=" documents", disable=None)
    return compute_idf(
        WordText.from_tokens(labeller.pairs.read_document(number), labeller.subwords, labeller.limit).words
        for number in numbers
    )


class _LabelCounts:
    """Counts of the created labels, for the messages of the command."""

    def __init__(self, kind: str):
        self.kind = kind
        self.documents = self.fields = self.chosen = 0

    def add(self, fields: List[str]) -> None:
        self.documents += 1
        real = [field for field in fields if field != NOTHING]
        self.fields += len(real)
        self.chosen += real.count("1")

    def __str__(self) -> str:
        if self.kind == "words":
            share = self.chosen / max(self.fields, 1)
            return f"{self.chosen:,} of {self.fields:,} tokens of {self.documents:,} documents are copied ({share:.1%})"
        extracted = self.kind in ("extract", "f1")
        what = "extracted sentences" if extracted else "sentences of summaries with a sentence of a document"
        return f"{self.fields:,} {what} in {self.documents:,} documents"
