"""Count, in a sample of the training data, the words that a model can neither generate nor copy."""

import logging
from typing import Any, NamedTuple

import numpy as np
from fairseq.data import Dictionary

from ..vocabulary.dictionary import count_known_words

logger = logging.getLogger(__name__)

SAMPLE = 2000
"""Maximum number of pairs to sample from a split."""

UNKNOWN_ALLOWED = 0.002
"""Maximum fraction of unknown words in the training documents of a model with a pointer, which is met by subwords."""


class SummaryWordCounts(NamedTuple):
    """Word counts in a sample of summaries, not including end symbols."""

    pairs: int  # document-summary pairs in the sample
    words: int  # all words in the summaries
    unknown: int  # words that the model cannot generate
    copyable: int  # unknown words that occur in the document of the summary
    in_document: int  # known and unknown words that occur in the document of the summary, except "<unk>"


def count_summary_words(pairs: Any, dictionary: Dictionary) -> SummaryWordCounts:
    """Count the words in a sample of the summaries in a ``SummarizationDataset``, by the target dictionary."""
    known, unk, eos = count_known_words(dictionary), dictionary.unk(), dictionary.eos()
    chosen = range(0, len(pairs), max(1, -(-len(pairs) // SAMPLE)))  # evenly spaced
    words = unknown = copyable = in_document = 0
    for number in chosen:
        summary, document = (np.asarray(side[number]) for side in (pairs.tgt, pairs.src))
        summary = summary[summary != eos]
        occurs = np.isin(summary, document) & (summary != unk)
        outside = summary >= known
        words += len(summary)
        unknown += int((outside | (summary == unk)).sum())
        copyable += int((outside & occurs).sum())
        in_document += int(occurs.sum())
    return SummaryWordCounts(len(chosen), words, unknown, copyable, in_document)


def check_unknown_words_in_split(split: str, pairs: Any, pointer: str, task: Any) -> None:
    """Check that a split of a task, a ``SummarizationDataset``, is suitable for a model with this type of pointer.

    Raises ValueError as :func:`check_unknown_document_words` and :func:`check_unknown_summary_words` do.
    """
    training = split == task.cfg.train_subset
    check_unknown_document_words(split, pairs.src.dataset, pointer, task.source_dictionary, training)
    if training and not task.is_loading and split not in task.datasets:
        check_unknown_summary_words(split, pairs, pointer, task.target_dictionary)


def check_unknown_summary_words(split: str, pairs: Any, pointer: str, dictionary: Dictionary) -> None:
    """Log the fraction of unknown words in the summaries.

    Raises ValueError if no word in the sampled summaries could be copied by a pointer of this type.
    """
    counts = None if pairs.tgt is None else count_summary_words(pairs, dictionary)
    if counts is None or not counts.words:
        return
    found = (
        f"{counts.unknown:,} of {counts.words:,} words of {split}'s summaries (a sample of {counts.pairs:,}) are "
        f"unknown, {counts.unknown / counts.words:.2%}; {counts.copyable:,} of the unknown ones are in their document"
    )
    logger.info(found)
    if pointer == "switch" and not counts.copyable:
        raise ValueError(
            f"--pointer switch: {found}, so there is no word from which to learn copying. Create the data "
            "with fewer known words in summaries (etads-prepare --target-size), from text that keeps its rare words "
            "(etads-corpus gigaword --rare 0), or choose --pointer soft or none"
        )
    if pointer == "soft" and not counts.in_document:
        raise ValueError(f"--pointer soft: {found}, and no known word is in the documents, so there is nothing to copy")
    if pointer == "soft" and counts.unknown and not counts.copyable:
        logger.warning(f"--pointer soft will only copy words that the model can also generate: {found}")


def check_unknown_document_words(
    split: str, documents: Any, pointer: str, dictionary: Dictionary, training: bool
) -> None:
    """Log a warning if a pointer cannot copy some words of the documents, which are not in the source dictionary.

    Raises ValueError if this dictionary has no copy tail, and UNKNOWN_ALLOWED is exceeded in training documents.
    """
    checked = [documents[number] for number in range(min(len(documents), SAMPLE)) if pointer != "none"]
    words = sum(map(len, checked))
    unknown = sum(int((document == dictionary.unk()).sum()) for document in checked)
    if not unknown:
        return
    found = f"{unknown:,} of the first {words:,} words of {split}'s documents are {dictionary.unk_word}"
    if training and unknown > UNKNOWN_ALLOWED * words and count_known_words(dictionary) == len(dictionary):
        raise ValueError(
            f"--pointer {pointer}: the dictionary in DATA has no copy tail (words with count 0), and {found}; "
            "they cannot be copied. Create the data with etads-prepare, or create a dictionary with etads-dictionary "
            "and the data with fairseq-preprocess --srcdict DICT --joined-dictionary"
        )
    logger.warning(f"{found}; they cannot be copied, because they are not in the dictionary's copy tail")
