"""The pointer-generator of See et al. 2017, and the decoder without attention of Jiang and Bansal 2018."""

import torch
from torch import Tensor

from .parts import lstm_encoder, lstm_step, mixture_of_words, softmax_row
from .selection import combined_attention


def pointer_generator(w, document, extended, previous, unk, selected=()):
    """Compute P of each word that can be produced, the attention at each step, and the mean coverage loss.

    ``w``: weights by the paper's names; "E" has a row for each known word; "forward", "backward" and "decoder": weights
    of LSTMs; "w_c" is there if there is coverage. ``document``: ids of its words and the end symbol, ``extended`` in
    extended ids. ``selected``: with an extractor, beta of each word's sentence (Hsu et al. 2018).
    """
    known = len(w["W_o"])

    def embed(word: int) -> Tensor:
        return w["E"][word if word < known else unk]

    memory, s, c = lstm_encoder([embed(word) for word in document], w["forward"], w["backward"])  # memory: h_i
    s, c = torch.relu(w["B_s"] @ s + w["b_s"]), torch.relu(w["B_c"] @ c + w["b_c"])
    context = torch.zeros_like(memory[0])
    coverage = [0.0] * len(document)
    distributions, attentions, coverage_losses = [], [], []
    for word in previous:
        x = w["W_x"] @ torch.cat([embed(word), context]) + w["b_x"]
        s, c = lstm_step(x, s, c, *w["decoder"])
        scores = []
        for i, h in enumerate(memory):
            inner = w["W_h"] @ h + w["W_s"] @ torch.cat([c, s]) + w["b_attn"]
            if "w_c" in w:
                inner = inner + w["w_c"] * coverage[i]  # equation 11
            scores.append(w["v"] @ torch.tanh(inner))
        attention = [float(share) for share in softmax_row(scores)]
        if selected:
            attention = combined_attention(attention, selected)
        context = sum(a * h for a, h in zip(attention, memory))
        p_gen = torch.sigmoid(w["w"] @ torch.cat([context, c, s, x]) + w["b"]).item()
        logits = w["W_o"] @ (w["W_a"] @ torch.cat([s, context]) + w["b_a"]) + w["b_o"]
        vocabulary = [float(share) for share in softmax_row([*logits])]
        distributions.append(mixture_of_words(vocabulary, attention, p_gen, extended))
        attentions.append(attention)
        coverage_losses.append(sum(min(a, before) for a, before in zip(attention, coverage)))
        coverage = [before + a for before, a in zip(coverage, attention)]
    return distributions, attentions, sum(coverage_losses) / len(coverage_losses)


def closed_book(weights, output, bias, first, vectors):
    """Compute log P_cb of each known word at each step, with a decoder without attention (Jiang and Bansal 2018).

    ``weights``: of its LSTM; ``first``: h and c from the bridge; ``vectors``: of the previous word at each step.
    """
    h, c = first
    found = []
    for vector in vectors:
        h, c = lstm_step(vector, h, c, *weights)
        logits = torch.stack([row @ h + shift for row, shift in zip(output, bias)])
        found.append(logits - logits.exp().sum().log())
    return found
