"""The pointer network and the reranking of Chen and Bansal 2018 in loops, close to the paper. Beside reference.py."""

import itertools
from collections import Counter

import torch
from reference_see import lstm_step


def read_both_ways(vectors, directions):
    """An LSTM in both directions: [forward; backward] of each vector."""
    found = []
    for weights, order in zip(directions, (1, -1)):
        h = c = torch.zeros(weights[1].shape[1], dtype=weights[1].dtype)
        states = []
        for vector in vectors[::order]:
            h, c = lstm_step(vector, h, c, *weights)
            states.append(h)
        found.append(states[::order])
    return [torch.cat(pair) for pair in zip(*found)]


def sentence_vector(words, convolutions):
    """ReLU and the maximum over the windows of a sentence, filled up to five words; (width, W, b) of filters."""
    words = [*words, *[torch.zeros_like(words[0])] * (5 - len(words))]
    features = []
    for width, weight, bias in convolutions:
        for row, shift in zip(weight, bias):  # (E, width)
            sums = [
                sum(row[:, k] @ words[start + k] for k in range(width)) + shift
                for start in range(len(words) - width + 1)
            ]
            features.append(torch.stack(sums).max().clamp(min=0))
    return torch.stack(features)


def pointer_scores(states, w, inputs):
    """u_tj for each input, and for each the weights softmax(u) over the states.

    ``inputs``: a function of the weights of all steps before that gives the next input, or None at the end.
    """
    h, c = w["h"], w["c"]
    scores, weights = [], []
    while (x := inputs(weights)) is not None:
        h, c = lstm_step(x, h, c, *w["lstm"])
        keys = [w["W_1"] @ state for state in states]
        glimpse = torch.softmax(torch.stack([w["v_1"] @ torch.tanh(k + w["W_2"] @ h) for k in keys]), 0)
        z = sum(a * k for a, k in zip(glimpse, keys))
        scores.append(torch.stack([w["v_2"] @ torch.tanh(w["W_3"] @ state + w["W_4"] @ z) for state in states]))
        weights.append(torch.softmax(scores[-1], 0))
    return scores


def best_combination(beams):
    """All combinations: fewest repeated bigrams, then the largest score per token. (words, score) of candidates."""

    def value(places):
        chosen = [beam[place] for beam, place in zip(beams, places)]
        bigrams = Counter(pair for words, _ in chosen for pair in zip(words, words[1:]))
        repeated = sum(count - 1 for count in bigrams.values())
        return -repeated, sum(score for _, score in chosen) / sum(len(words) + 1 for words, _ in chosen)

    return list(max(itertools.product(*(range(len(beam)) for beam in beams)), key=value))
