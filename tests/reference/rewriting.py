"""The abstractor, the pointer network and the reranking of Chen and Bansal 2018."""

import itertools
from collections import Counter

import torch

from .parts import lstm_encoder, lstm_step, mixture_of_words, softmax_row


def sentence_rewriter(w, document, extended, previous, unk):
    """Compute P of each word that can be produced, at each step; ``extended``: the document, in extended ids."""
    known = len(w["E"])
    vectors = [w["E"][word if word < known else unk] for word in document]
    first = w["first_forward"], w["first_backward"]
    states, s, c = lstm_encoder(vectors, w["forward"], w["backward"], first)
    memory = [w["W_m"] @ state for state in states]
    s, c = w["B_s"] @ s + w["b_s"], w["B_c"] @ c + w["b_c"]
    o = torch.zeros(w["E"].shape[1], dtype=s.dtype)
    found = []
    for word in previous:
        x = w["E"][word if word < known else unk]
        s, c = lstm_step(torch.cat([x, o]), s, c, *w["decoder"])
        attention = softmax_row([(s @ w["W_q"]) @ m for m in memory])
        context = sum(weight * m for weight, m in zip(attention, memory))
        o = w["W_2"] @ torch.tanh(w["W_1"] @ torch.cat([s, context]) + w["b"])
        vocabulary = [float(share) for share in softmax_row([row @ o for row in w["E"]])]
        p_gen = torch.sigmoid(w["v"] @ torch.cat([s, c, x, context]) + w["b_v"]).item()
        found.append(mixture_of_words(vocabulary, attention, p_gen, extended))
    return found


def sentence_vector(words, convolutions):
    """ReLU and the maximum over the windows of a sentence, padded to five words; (width, W, b) of filters."""
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
    """Compute u_tj for each input, and the weights softmax(u) over the states.

    ``inputs``: a function from the weights of all earlier steps to the next input, or None at the end.
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


def best_combination(beams, ends=1):
    """Try all combinations: fewest repeated bigrams, then the largest score per token. (words, score) of candidates.

    Chen and Bansal's code counts no end symbols (``ends=0``).
    """

    def value(places):
        chosen = [beam[place] for beam, place in zip(beams, places)]
        bigrams = Counter(pair for words, _ in chosen for pair in zip(words, words[1:]))
        repeated = sum(count - 1 for count in bigrams.values())
        return -repeated, sum(score for _, score in chosen) / max(1, sum(len(words) + ends for words, _ in chosen))

    return list(max(itertools.product(*(range(len(beam)) for beam in beams)), key=value))
