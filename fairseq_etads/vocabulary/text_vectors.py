"""Compute word vectors from text with pointwise mutual information and a truncated singular value decomposition.

Let #(w, c) be the number of times that the words w and c occur near each other, and let the probability P_a(c) be
proportional to the frequency of c to the power of 3/4:

    M_wc = max(0, log(#(w, c) / #(w) / P_a(c))),   M ~ U S V^T,   vectors: rows of U S^(1/2)

These are the vectors of Levy, Goldberg and Dagan 2015 ("Improving Distributional Similarity with Lessons Learned from
Word Embeddings") with context distribution smoothing and an eigenvalue weighting of 1/2. Afterwards, the mean of all
vectors is subtracted from each vector, and the vectors are scaled to unit length. This is approximately the length of
fairseq's random embeddings. Processing a million words takes less than a second.
"""

from typing import NamedTuple

import torch
from torch import Tensor

WEIGHTS = (1.0, 0.7, 0.5, 0.4)
"""Weights of word pairs at distances of 1, 2, 3 and 4 words."""
SMOOTHING = 0.75
MOST_CONTEXTS = 4000
"""Maximum number of context words, which limits the size of the count matrix. The most frequent words are used."""
_SHORTEST = 1e-4
"""Minimum length of a vector before scaling. Shorter vectors contain only rounding errors."""
_OVERSAMPLING, _ITERATIONS, _SEED = 16, 2, 0


class CorpusWordVectors(NamedTuple):
    """Word vectors that were computed from a text.

    Attributes:
        vectors: one vector for each word in the vocabulary (V, D), zero for words without a trained vector.
        found: the boolean mask (V,), True for words that have a vector.
    """

    vectors: Tensor
    found: Tensor


def count_cooccurrences(words: Tensor, size: int) -> Tensor:
    """Count how often each word occurs near each context word. Pairs are weighted with :data:`WEIGHTS`.

    Args:
        words: the word ids (n,) in the order of the text. -1 represents a missing word. Texts are separated by
            len(WEIGHTS) missing words.
        size: V, the number of words in the vocabulary.

    Returns:
        The weighted counts (V, C). C is the smaller of V and :data:`MOST_CONTEXTS`.
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


def compute_word_vectors(words: Tensor, size: int, width: int) -> CorpusWordVectors:
    """Compute vectors (V, D) for the words of a text.

    The result does not depend on chance, but the sign of each column depends on the processor.

    Args:
        words: the word ids (n,) in the order of the text, in the format that :func:`count_cooccurrences` expects.
        size: V, the number of words in the vocabulary.
        width: D, the width of the vectors.
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
    return CorpusWordVectors(vectors / lengths.clamp(min=_SHORTEST)[:, None] * found[:, None], found)
