"""Recombination: of hypotheses with the same last words only the best goes on (Rush et al. 2015, section 4)."""

import math
from typing import Callable

import torch.nn.functional as F
from torch import Tensor

from ..vocabulary.batch_vocab import number_by_first_occurrence
from .extensions import Extensions


def groups_by_last_words(tokens: Tensor, words: int) -> Tensor:
    """For each hypothesis the first one of its document with the same last words: (B, beam, t) -> (B, beam)."""
    recent = tokens[:, :, max(0, tokens.size(2) - words) :]
    same = (recent[:, :, None] == recent[:, None]).all(dim=3)  # (B, beam, beam)
    return same.int().argmax(dim=2)


def recombined(
    best: Callable[[int], Extensions], tokens: Tensor, words: int, end: int, count: int, most: int
) -> Extensions:
    """The best extensions, of which no two have the same last words.

    What ends is never left out: it has no future in which it would be the same as another.

    Args:
        best: finds the so many best extensions. tokens: (B, beam, t), the hypotheses that are extended.
        words: how many last words are compared, the new one included. end: the end symbol.
        count: how many extensions are wanted. most: how many there are.

    Returns:
        ``count`` extensions of each document; those that are missing have the score -inf.
    """
    group = groups_by_last_words(tokens, words - 1)  # (B, beam)
    # at most so many extensions by the same word can have the same last words, so enough different ones are found
    largest = int((group[:, :, None] == group[:, None]).sum(dim=2).max())
    found = best(min(most, count * largest))
    compared = found.words.ne(end) & found.selection_score.ne(-math.inf)
    last_words = found.words * tokens.size(1) + group.gather(1, found.parents)  # a number for each
    numbers = number_by_first_occurrence(last_words, compared)[0].masked_fill(~compared, -1)
    largest_before = F.pad(numbers.cummax(dim=1).values, (1, 0), value=-1)[:, :-1]
    again = compared & (numbers <= largest_before)
    order = again.int().argsort(dim=1, stable=True)[:, : min(count, again.size(1))]
    again = again.gather(1, order)
    chosen = Extensions(*(value.gather(1, order) for value in found))
    return chosen._replace(
        selection_score=chosen.selection_score.masked_fill(again, -math.inf),
        log_probs=chosen.log_probs.masked_fill(again, -math.inf),
    )
