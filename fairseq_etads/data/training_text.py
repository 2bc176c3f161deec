"""Compute initial parameter values, i.e. word frequencies and word embeddings, from the training text."""

import logging
import os
from typing import Any, Iterable, Iterator, List, Sequence

import numpy as np
import torch
from fairseq import utils
from fairseq.data import Dictionary, data_utils
from torch import Tensor, nn

from ..vocabulary.dictionary import count_known_words
from ..vocabulary.output import hide_unknown_words
from ..vocabulary.text_vectors import WEIGHTS, compute_word_vectors
from .pairs import truncate_tokens

logger = logging.getLogger(__name__)

MOST_WORDS = 10_000_000
"""Maximum number of words to read on each side, documents or summaries, when word vectors are computed."""


def read_training_ids(task: Any, side: str) -> Sequence[Tensor]:
    """Load the token ids of all training documents ("source") or summaries ("target").

    The texts are not truncated and include their end symbols. If there are several data folders, only the first one is
    read.

    Raises:
        FileNotFoundError: the data folder contains no training data.
    """
    cfg = task.cfg
    directory = utils.split_paths(cfg.data)[0]
    language = cfg.source_lang if side == "source" else cfg.target_lang
    dictionary = task.source_dictionary if side == "source" else task.target_dictionary
    for pair in (f"{cfg.source_lang}-{cfg.target_lang}", f"{cfg.target_lang}-{cfg.source_lang}"):
        path = os.path.join(directory, f"{cfg.train_subset}.{pair}.{language}")
        texts: Any = data_utils.load_indexed_dataset(path, dictionary, cfg.dataset_impl)
        if texts is not None:
            return texts
    raise FileNotFoundError(f'no split "{cfg.train_subset}" (--train-subset) in "{directory}"')


def compute_word_probabilities(task: Any, copies: bool) -> Tensor:
    """Compute the relative frequencies of words in the truncated training summaries, shape (V,).

    The end symbol is counted as a word, unless training does not append it to a truncated summary. Each count is
    increased by one, so that no frequency is 0.

    Args:
        copies: whether the model has a pointer that can copy out-of-vocabulary words. If True, these words are ignored.
            Otherwise, they are counted as the unknown word.
    """
    dictionary, longest = task.target_dictionary, task.truncate_target
    eos, ends_if_cut = dictionary.eos(), not task.no_end_if_cut
    size = count_known_words(dictionary)
    counts = torch.ones(size)
    for words in _concatenate_truncated_texts(read_training_ids(task, "target"), longest, eos, ends_if_cut):
        if copies:
            words = words[words < size]
        counts += torch.bincount(hide_unknown_words(words, size, dictionary.unk()), minlength=size)
    return counts / counts.sum()


def initialise_embeddings_from_text(task: Any, documents: nn.Embedding, summaries: nn.Embedding) -> None:
    """Initialise word embeddings with vectors that are computed from the training text.

    The embeddings of special symbols and of words without a computed vector are not changed.

    Args:
        documents, summaries: source and target embedding modules, which may share their weights.
    """
    source, target = task.source_dictionary, task.target_dictionary
    one_dictionary = source == target
    for name, table, sides in (
        ("documents", documents, ("source", "target") if one_dictionary else ("source",)),
        ("summaries", summaries, ("source", "target") if one_dictionary else ("target",)),
    ):
        if name == "summaries" and summaries.weight is documents.weight:
            return
        dictionary = source if name == "documents" else target
        size, width = table.weight.shape
        stream = [_concatenate_texts(read_training_ids(task, side), dictionary, size) for side in sides]
        made = compute_word_vectors(torch.cat(stream), size, width)
        with torch.no_grad():
            table.weight[made.found] = made.vectors[made.found].to(table.weight)
        logger.info(f"--embed-from-text: vectors for {int(made.found.sum()):,} of {size:,} words of {name}")


def _concatenate_truncated_texts(
    texts: Sequence[Tensor], longest: int, eos: int, ends_if_cut: bool, block: int = 10_000
) -> Iterator[Tensor]:
    """Concatenate texts that are truncated as in training; see :func:`~fairseq_etads.data.pairs.truncate_tokens`.

    Yields a tensor of shape (n,) for each block of texts.
    """
    for first in range(0, len(texts), block):
        numbers = range(first, min(first + block, len(texts)))
        yield torch.cat([truncate_tokens(texts[number], longest, eos, ends_if_cut) for number in numbers]).long()


def _concatenate_texts(texts: Sequence[Tensor], dictionary: Dictionary, size: int) -> Tensor:
    """Concatenate texts into one tensor of vocabulary ids, shape (n,).

    Unknown words and the gaps between texts are represented by -1.
    """
    gap = np.full(len(WEIGHTS), -1, dtype=np.int64)
    parts: List[Any] = []
    total = 0
    for text in _iterate_texts(texts):
        ids = np.asarray(text).astype(np.int64)
        ids[(ids < dictionary.nspecial) | (ids >= size)] = -1
        parts += [ids, gap]
        total += len(ids)
        if total >= MOST_WORDS:
            break
    return torch.from_numpy(np.concatenate(parts)) if parts else torch.empty(0, dtype=torch.long)


def _iterate_texts(texts: Sequence[Tensor]) -> Iterable[Tensor]:
    return (texts[number] for number in range(len(texts)))
