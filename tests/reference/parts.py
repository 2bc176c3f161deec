"""Steps that several oracles share, without their own equations."""

import itertools
from typing import List, Tuple

import torch
from torch import Tensor

from .recurrent import gru_step


def softmax_row(scores: List[Tensor]) -> List[Tensor]:
    largest = max(float(score) for score in scores)
    exponentials = [torch.exp(score - largest) for score in scores]
    total = sum(exponentials)
    return [value / total for value in exponentials]


def extended_ids(document: List[int], known: int) -> Tuple[List[int], List[int]]:
    """Ids of a document, with its own words numbered from ``known`` by first occurrence, and these words."""
    own: List[int] = []
    extended = []
    for word in document:
        if word >= known and word not in own:
            own.append(word)
        extended.append(known + own.index(word) if word >= known else word)
    return extended, own


def is_run(words, text):
    """Tell whether ``words`` are adjacent in ``text``."""
    return any(text[i : i + len(words)] == words for i in range(len(text) - len(words) + 1))


def lcs(a, b):
    """Length of the longest common subsequence, by trying all subsequences of ``a``, longest first."""
    for size in range(len(a), 0, -1):
        for chosen in itertools.combinations(a, size):
            rest = iter(b)
            if all(any(word == other for other in rest) for word in chosen):
                return size
    return 0


def sentences_of(document, mark):
    """Indices of the words of each sentence, and the index of each token's sentence.

    A mark, and the end symbol after the document, belong to the sentence of the last word before them.
    """
    sentences, numbers, last = [[]], [], 0
    for place, word in enumerate(document):
        if word == mark:
            sentences.append([])
        else:
            last = len(sentences) - 1
            sentences[-1].append(place)
        numbers.append(last)
    return sentences, [*numbers, last]


def gru_both_ways(vectors, directions):
    """A GRU in both directions, from 0: [forward; backward] of each vector."""
    halves = []
    for weights, order in zip(directions, (1, -1)):
        h, states = torch.zeros(weights[1].shape[1], dtype=weights[1].dtype), []
        for vector in vectors[::order]:
            h = gru_step(vector, h, *weights)
            states.append(h)
        halves.append(states[::order])
    return [torch.cat(pair) for pair in zip(*halves)]
