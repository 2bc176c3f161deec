"""Probabilities of words: the output layer, its candidates, and pointers; losses in addition to the likelihood."""

import math
from typing import List, Optional, Tuple

import torch
from torch import Tensor

from .parts import pointer_mixture, softmax_row


def output_distribution(state: Tensor, w_o: Tensor, b_o: Optional[Tensor] = None) -> List[float]:
    """Compute ETADS, equation 4: softmax(W_o s + b_o), for s (d_m,), W_o (V, d_m) and b_o (V,) or None."""
    scores = []
    for word in range(len(w_o)):
        score = sum(w_o[word, i].item() * state[i].item() for i in range(len(state)))
        scores.append(torch.tensor(score + (0.0 if b_o is None else b_o[word].item()), dtype=torch.float64))
    return [float(value) for value in softmax_row(scores)]


def candidates(texts: List[List[int]], limit: int, size: int, specials: int) -> List[int]:
    """Nallapati et al., section 2.1: the texts' words, then the most frequent ones, up to ``limit``."""
    chosen = set(range(specials)) | {word for text in texts for word in text if word < size}
    for word in range(size):
        if len(chosen) >= limit:
            break
        chosen.add(word)
    return sorted(chosen)


def switch_decision(vocabulary: Tensor, attention: Tensor, p_gen: float, extended: List[int], size: int) -> List[float]:
    """Nallapati et al., section 2.3, at test time: P after choosing generating or pointing, the more probable one."""
    return pointer_mixture(vocabulary, attention, 1.0 if p_gen >= 0.5 else 0.0, extended, size)


def copy_history(document: List[int], written: List[int], unk: int) -> List[Tuple[bool, bool, bool]]:
    """For each position of a document: is the word to its left the last one written, are the two to its left the last
    two in this order, and has it been written? Lists of ids; the unknown word equals nothing.
    """
    rows = []
    for position, word in enumerate(document):
        left, summary = document[:position], list(written)
        one = len(left) >= 1 and len(summary) >= 1 and left[-1] == summary[-1] != unk
        two = len(left) >= 2 and len(summary) >= 2 and one and left[-2] == summary[-2] != unk
        rows.append((one, two, word != unk and word in summary))
    return rows


def switch_loss(vocabulary: Tensor, attention: Tensor, p_gen: float, extended: List[int], word: int) -> float:
    """Nallapati et al., section 2.3, for one summary word: points exactly if it is not in the vocabulary."""
    if word < len(vocabulary):
        return -math.log(p_gen) - math.log(vocabulary[word].item())
    for position, source_word in enumerate(extended):
        if source_word == word:
            return -math.log(1 - p_gen) - math.log(attention[position].item())
    raise ValueError("such a word is not in the document")


def coverage_loss(attention: Tensor) -> List[float]:
    """Compute the loss of each step from attention (T, S): See et al. 2017, equation 12."""
    steps, length = attention.shape
    losses = []
    for t in range(steps):
        loss = 0.0
        for j in range(length):
            covered = sum(attention[earlier, j].item() for earlier in range(t))
            loss += min(attention[t, j].item(), covered)
        losses.append(loss)
    return losses
