"""Steps that several oracles share: softmax, recurrent cells, pointers, sentences and subsequences."""

import itertools
from typing import List, Tuple

import torch
from torch import Tensor


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


def pointer_mixture(vocabulary: Tensor, attention: Tensor, p_gen: float, extended: List[int], size: int) -> List[float]:
    """Aggregation Transformer, equations 13 and 14, for one summary word.

    ``vocabulary`` (V,) is P_vocab, ``attention`` (S,) the copy attention, ``extended`` the document in extended ids.
    Returns P of each of the ``size`` words.
    """
    distribution = []
    for word in range(size):
        copied = 0.0
        for position, source_word in enumerate(extended):
            if source_word == word:
                copied += attention[position].item()
        generated = vocabulary[word].item() if word < len(vocabulary) else 0.0
        distribution.append(p_gen * generated + (1 - p_gen) * copied)
    return distribution


def mixture_of_words(vocabulary, attention, p_gen: float, extended: List[int]) -> List[float]:
    """:func:`pointer_mixture` where the end symbol, the last position, is attended to but not copied."""
    copied = [float(share / sum(attention[:-1])) for share in attention[:-1]]
    size = max(*extended, len(vocabulary) - 1) + 1
    values = (torch.tensor(shares, dtype=torch.float64) for shares in (vocabulary, [*copied, 0.0]))
    return pointer_mixture(*values, p_gen, extended, size)


def gru_step(x: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor) -> Tensor:
    """A gated recurrent unit (Cho et al. 2014) with torch's order of gates: reset, update, new. x (D,), h (H,)."""
    size = len(h)
    result = torch.zeros_like(h)
    for i in range(size):
        gates = []
        for row in (i, size + i):
            gates.append(torch.sigmoid(w_ih[row] @ x + b_ih[row] + w_hh[row] @ h + b_hh[row]))
        reset, update = gates
        row = 2 * size + i
        new = torch.tanh(w_ih[row] @ x + b_ih[row] + reset * (w_hh[row] @ h + b_hh[row]))
        result[i] = (1 - update) * new + update * h[i]
    return result


def lstm_step(x: Tensor, h: Tensor, c: Tensor, w_x: Tensor, w_h: Tensor, bias: Tensor) -> Tuple[Tensor, Tensor]:
    """Long short-term memory (Hochreiter and Schmidhuber 1997) with forget gates; torch's order of gates.

    x (D,), h and c (H,) -> the new h and c. Rows of the weights: input gate, forget gate, new value, output gate.
    """
    size = len(h)
    hidden, cell = torch.zeros_like(h), torch.zeros_like(c)
    for i in range(size):
        sums = [w_x[row] @ x + w_h[row] @ h + bias[row] for row in (i, size + i, 2 * size + i, 3 * size + i)]
        take, keep, show = (torch.sigmoid(sums[gate]) for gate in (0, 1, 3))
        cell[i] = keep * c[i] + take * torch.tanh(sums[2])
        hidden[i] = show * torch.tanh(cell[i])
    return hidden, cell


def lstm_states(vectors, weights, first=()):
    """One direction of an encoder: h of each word, and the last c; ``first``: h and c before, 0 without it."""
    zeros = torch.zeros(weights[1].shape[1], dtype=weights[1].dtype)
    h, c = first or (zeros, zeros)
    states = []
    for vector in vectors:
        h, c = lstm_step(vector, h, c, *weights)
        states.append(h)
    return states, c


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


def lstm_encoder(vectors, forward, backward, first=((), ())):
    """An LSTM in both directions: [forward; backward] of each vector, of the last h and of the last c."""
    ahead, c_ahead = lstm_states(vectors, forward, first[0])
    back, c_back = lstm_states(vectors[::-1], backward, first[1])
    states = [torch.cat(pair) for pair in zip(ahead, back[::-1])]
    return states, torch.cat([ahead[-1], back[-1]]), torch.cat([c_ahead, c_back])


def lstm_both_ways(vectors, directions):
    """An LSTM in both directions: [forward; backward] of each vector."""
    return lstm_encoder(vectors, *directions)[0]
