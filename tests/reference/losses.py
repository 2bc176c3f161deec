"""Losses of a summary in addition to the likelihood."""

import math
from typing import List

from torch import Tensor


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
