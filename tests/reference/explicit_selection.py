"""Explicit-Selection (Li et al. 2018) in loops over sentences, words and positions, one document at a time."""

import math
from typing import Any, Dict, List, Sequence, Tuple

import torch
from torch import Tensor

from .parts import gru_both_ways, gru_step, mixture_of_words, softmax_row


def _encode(w: Dict[str, Any], vectors: Sequence[Sequence[Tensor]]) -> Tuple[List[List[Tensor]], List[Tensor], Tensor]:
    """Encode the word vectors of each sentence: states w_ij of words, h'_i of sentences, and the document's d."""
    words = [gru_both_ways(sentence, (w["words_forward"], w["words_backward"])) for sentence in vectors]
    half = len(words[0][0]) // 2
    ends = [torch.cat([states[-1][:half], states[0][half:]]) for states in words]  # [w→ of the last; w← of the first]
    sentences = gru_both_ways(ends, (w["sentences_forward"], w["sentences_backward"]))
    half = len(sentences[0]) // 2
    d = torch.cat([sentences[-1][:half], sentences[0][half:]])
    filtered = []
    for h in sentences:
        g = torch.sigmoid(w["W_g"] @ torch.cat([h, d]) + w["b_g"])
        filtered.append(g * h)
    return words, filtered, d


def _softmax(scores: Sequence[Tensor]) -> List[float]:
    return [float(value) for value in softmax_row([*scores])]


def _select(w, written, read_before, plan, sentences):
    """Compute q_t, p_t and r_t from the previous sentence's last state, r_(t-1) and q_(t-1)."""
    plan = gru_step(torch.cat([written, read_before]), plan, *w["plan"])
    p = _softmax([w["v_s"] @ torch.tanh(w["W_q"] @ plan + w["W_h"] @ h + w["b"]) for h in sentences])
    selected = sum(weight * h for weight, h in zip(p, sentences))
    return plan, p, selected


def explicit_selection(w, document, extended, previous, mark, unk):
    """Compute P of each word that can be produced, the attention to words, and p, at each step.

    ``w``: weights by the names of the equations; "E" has a row for each known word, GRUs have W_ih, W_hh, b_ih, b_hh;
    "w_c" is there if there is coverage. ``document``: ids of its words and the end symbol; ``mark`` ends a sentence and
    belongs to it. ``extended``: the document in extended ids. ``previous``: of each step, the begin symbol first.
    """
    known = len(w["W_o"])

    def embed(word: int) -> Tensor:
        return w["E"][word if word < known else unk]

    places: List[List[int]] = [[]]
    for place, word in enumerate(document):
        places[-1].append(place)
        if word == mark and place + 1 < len(document):
            places.append([])
    words, sentences, d = _encode(w, [[embed(document[place]) for place in sentence] for sentence in places])
    memory = [state for states in words for state in states]
    sentence_of = [number for number, sentence in enumerate(places) for _ in sentence]
    plan, selected = torch.tanh(w["W"] @ d), torch.zeros_like(sentences[0])
    s, context = torch.zeros_like(plan), torch.zeros_like(memory[0])  # e_0 = 0, h*_0 = 0
    coverage = [0.0] * len(document)
    distributions, attentions, selections = [], [], []
    for step, word in enumerate(previous):
        if step == 0 or word == mark:
            plan, p, selected = _select(w, s, selected, plan, sentences)
            s = torch.tanh(w["W_r"] @ torch.cat([selected, plan]) + w["b_r"])
        x = w["W_x"] @ torch.cat([embed(word), context]) + w["b_x"]
        s = gru_step(x, s, *w["decoder"])
        scores = []
        for i, h in enumerate(memory):
            inner = w["W_c"] @ h + w["W_s"] @ s + w["b_attn"]
            if "w_c" in w:
                inner = inner + w["w_c"] * coverage[i]
            scores.append(w["v"] @ torch.tanh(inner))
        products = [weight * p[sentence_of[i]] for i, weight in enumerate(_softmax(scores))]
        attention = [product / sum(products) for product in products]
        context = sum(a * h for a, h in zip(attention, memory))
        p_gen = torch.sigmoid(w["w"] @ torch.cat([s, x, context]) + w["b_gen"]).item()
        vocabulary = _softmax([*(w["W_o"] @ (w["W_a"] @ torch.cat([s, context]) + w["b_a"]) + w["b_o"])])
        distributions.append(mixture_of_words(vocabulary, attention, p_gen, extended))
        attentions.append(attention)
        selections.append(p)
        coverage = [before + a for before, a in zip(coverage, attention)]
    return distributions, attentions, selections


def selection_loss(selections: Sequence[Sequence[float]], targets: Sequence[Sequence[float]]) -> float:
    """Compute (1/n) Σ_t KL(p̂_t ‖ p_t) over the n sentences of a summary with a non-zero p̂; 0 if there is none."""
    divergences = []
    for p, wanted in zip(selections, targets):
        if sum(wanted) > 0:
            divergences.append(sum(a * math.log(a / b) for a, b in zip(wanted, p) if a > 0))
    return sum(divergences) / len(divergences) if divergences else 0.0
