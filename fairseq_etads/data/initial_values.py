"""Initial parameter values: word frequencies of the training text, and word vectors from a file or from this text.

Word vectors are computed from text with pointwise mutual information and a truncated singular value decomposition. Let
#(w, c) be the number of times that the words w and c occur near each other, and let the probability P_a(c) be
proportional to the frequency of c to the power of 3/4:

    M_wc = max(0, log(#(w, c) / #(w) / P_a(c))),   M ~ U S V^T,   vectors: rows of U S^(1/2)

These are the vectors of Levy, Goldberg and Dagan 2015 ("Improving Distributional Similarity with Lessons Learned from
Word Embeddings") with context distribution smoothing and an eigenvalue weighting of 1/2. Afterwards, the mean of all
vectors is subtracted from each vector, and the vectors are scaled to unit length, about the length of fairseq's random
embeddings. Processing a million words takes less than a second.
"""

import logging
import os
from pathlib import Path
from typing import Any, Optional, Sequence, Tuple

import torch
from fairseq import utils
from fairseq.data import Dictionary, data_utils
from torch import Tensor, nn

from ..files.inputs import ESCAPE_INVALID, read_lines
from ..vocabulary.dictionary import count_known_words
from ..vocabulary.output import hide_unknown_words
from .pairs import truncate_tokens

logger = logging.getLogger(__name__)

MOST_WORDS = 10_000_000
"""Maximum number of words to read on each side, documents or summaries, when word vectors are computed."""
WEIGHTS = (1.0, 0.7, 0.5, 0.4)
"""Weights of word pairs at distances of 1, 2, 3 and 4 words."""
SMOOTHING = 0.75
MOST_CONTEXTS = 4000
"""Maximum number of context words, which limits the size of the count matrix. The most frequent words are used."""
_SHORTEST = 1e-4
"""Minimum length of a vector before scaling. Shorter vectors contain only rounding errors."""
_OVERSAMPLING, _ITERATIONS, _SEED = 16, 2, 0


def read_training_ids(task: Any, side: str) -> Sequence[Tensor]:
    """Load the token ids of all training documents ("source") or summaries ("target") in the first data folder.

    The texts are not truncated and include their end symbols. Raises FileNotFoundError if there is no training data.
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


def compute_word_probabilities(task: Any, copies: bool, block: int = 10_000) -> Tensor:
    """Compute the relative frequencies of words in the training summaries, as training truncates them, shape (V,).

    If the model ``copies`` out-of-vocabulary words with a pointer, these are ignored; otherwise, they are counted as
    the unknown word. Each count is increased by one, so that no frequency is 0. Summaries are counted in blocks.
    """
    dictionary, texts = task.target_dictionary, read_training_ids(task, "target")
    size = count_known_words(dictionary)
    counts = torch.ones(size)
    cut = (task.truncate_target, dictionary.eos(), not task.no_end_if_cut)
    for first in range(0, len(texts), block):
        numbers = range(first, min(first + block, len(texts)))
        words = torch.cat([truncate_tokens(texts[number], *cut) for number in numbers]).long()
        if copies:
            words = words[words < size]
        counts += torch.bincount(hide_unknown_words(words, size, dictionary.unk()), minlength=size)
    return counts / counts.sum()


def initialise_embeddings_from_text(task: Any, documents: nn.Embedding, summaries: nn.Embedding) -> None:
    """Initialise word embeddings, which may share their weights, with vectors computed from the training text.

    The embeddings of special symbols and of words without a computed vector are not changed.
    """
    source, target = task.source_dictionary, task.target_dictionary
    for name, table, own, dictionary in (
        ("documents", documents, "source", source),
        ("summaries", summaries, "target", target),
    ):
        if name == "summaries" and summaries.weight is documents.weight:
            return
        size, width = table.weight.shape
        sides = ["source", "target"] if source == target else [own]
        stream = [_concatenate_texts(read_training_ids(task, side), dictionary, size) for side in sides]
        vectors, found = compute_word_vectors(torch.cat(stream), size, width)
        with torch.no_grad():
            table.weight[found] = vectors[found].to(table.weight)
        logger.info(f"--embed-from-text: vectors for {int(found.sum()):,} of {size:,} words of {name}")


def _concatenate_texts(texts: Sequence[Tensor], dictionary: Dictionary, size: int) -> Tensor:
    """Concatenate texts into one tensor of word ids (n,), with -1 for unknown words and the gaps between texts."""
    gap = torch.full((len(WEIGHTS),), -1)
    parts = [torch.empty(0, dtype=torch.long)]
    total = 0
    for number in range(len(texts)):
        ids = texts[number].long()
        parts += [ids.masked_fill((ids < dictionary.nspecial) | (ids >= size), -1), gap]
        total += len(ids)
        if total >= MOST_WORDS:
            break
    return torch.cat(parts)


def count_cooccurrences(words: Tensor, size: int) -> Tensor:
    """Count how often each word occurs near each context word. Pairs are weighted with :data:`WEIGHTS`.

    ``words`` are the word ids (n,) in the order of the text, with -1 for a missing word and between two texts as many
    times as there are weights. Of the V = ``size`` words, the first C, at most :data:`MOST_CONTEXTS`, are contexts.
    Returns the weighted counts (V, C).
    """
    contexts = min(size, MOST_CONTEXTS)
    counts = torch.zeros(size * contexts)
    for distance, weight in enumerate(WEIGHTS, 1):
        first, second = words[:-distance], words[distance:]
        both = (first >= 0) & (second >= 0)
        first, second = first[both], second[both]
        for word, context in ((first, second), (second, first)):
            seen = context < contexts
            places = word[seen] * contexts + context[seen]
            counts += weight * torch.bincount(places, minlength=len(counts))
    return counts.view(size, contexts)


def compute_mutual_information(counts: Tensor) -> Tensor:
    """Compute the positive pointwise mutual information of words and contexts from their counts (V, C)."""
    contexts = counts.sum(0) ** SMOOTHING
    expected = counts.sum(1, keepdim=True) * (contexts / contexts.sum().clamp(min=1e-12))
    ratio = torch.where(counts > 0, counts / expected.clamp(min=1e-12), torch.ones_like(counts))
    return ratio.log().clamp(min=0)


def compute_word_vectors(words: Tensor, size: int, width: int) -> Tuple[Tensor, Tensor]:
    """Compute vectors (V, D) for the V = ``size`` words of a text, with D = ``width``, and a mask (V,) of found words.

    :func:`count_cooccurrences` describes the format of the word ids (n,). Words that are not found have zeros. The
    result does not depend on chance, but the sign of each column depends on the processor.
    """
    counts = count_cooccurrences(words, size)
    found = counts.sum(1) > 0
    rank = min(width + _OVERSAMPLING, *counts.shape)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(_SEED)
        left, singular, _ = torch.svd_lowrank(compute_mutual_information(counts), q=rank, niter=_ITERATIONS)
    used = min(width, rank)
    vectors = torch.zeros(size, width)
    vectors[:, :used] = left[:, :used] * singular[:used].sqrt()
    vectors -= vectors[found].mean(0) if found.any() else 0
    lengths = vectors.norm(dim=1)
    found &= lengths > _SHORTEST
    return vectors / lengths.clamp(min=_SHORTEST)[:, None] * found[:, None], found


def load_word_vectors(path: Optional[str], dictionary: Dictionary, table: nn.Embedding, option: str) -> None:
    """Copy the word vectors in a file, if one is given, to an embedding table with a row for each word of a dictionary.

    The file is in word2vec's text format, and may be compressed. It may begin with a line "COUNT WIDTH". Each other
    line contains a word and its vector, and replaces earlier ones of this word. Raises FileNotFoundError if there is no
    such file, and ValueError if it has a different format, its vectors do not have the width of the table, or it
    contains no word of the dictionary. Messages name ``option``.
    """
    if path is None:
        return
    if not os.path.exists(path):
        raise FileNotFoundError(f'{option} "{path}": no such file')
    width = table.embedding_dim
    found = set()
    for number, line in enumerate(read_lines(Path(path), ESCAPE_INVALID), 1):
        word, *values = line.rstrip(" ").split(" ")
        if number == 1 and len(values) == 1:
            continue  # this line is the header, and a wrong width is detected in the next line
        where = f"{option} {path}: line {number}"
        if len(values) != width:
            raise ValueError(f"{where} has {len(values)} numbers instead of {width}")
        place = dictionary.indices.get(word)
        if place is None or place == dictionary.pad():
            continue
        try:
            vector = torch.tensor([float(value) for value in values])
        except ValueError as error:
            raise ValueError(f"{where} is not a word and its numbers ({error})") from None
        if not torch.isfinite(vector).all():
            raise ValueError(f"{where} contains a number that is not finite")
        table.weight.data[place] = vector
        found.add(place)
    if not found:
        raise ValueError(f"{option} {path}: contains none of the {len(dictionary):,} words of the dictionary")
    logger.info(f"{option}: vectors for {len(found):,} of {len(dictionary):,} words")
