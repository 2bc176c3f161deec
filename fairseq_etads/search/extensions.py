"""Extensions of hypotheses by one word: finding a document's best ones among all words after all its beams."""

import math
from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor


class Extensions(NamedTuple):
    """The k best extensions of each document's hypotheses, (B, k) each, best first."""

    selection_score: Tensor  # what they were selected by; -inf: one that cannot be chosen
    log_probs: Tensor  # log P of the hypothesis with its new word
    words: Tensor  # ids of the new words
    parents: Tensor  # beams of the hypotheses that are extended


def best_extensions(lprobs: Tensor, before: Tensor, k: int, coverage_cost: Optional[Tensor] = None) -> Extensions:
    """The k extensions with the largest log P, less the coverage cost if one is given.

    Args:
        lprobs: (B, beam, V), log-probabilities of the next words.
        before: (B, beam), log P of the hypotheses so far.
        coverage_cost: (B, beam), subtracted in the selection only.
    """
    width = lprobs.size(2)
    offset = before if coverage_cost is None else before - coverage_cost
    score, index = top_values(lprobs, k, offset.unsqueeze(2))
    words, parents = index % width, index // width
    if coverage_cost is None:
        return Extensions(score, score, words, parents)
    log_probs = lprobs.flatten(1).gather(1, index) + before.gather(1, parents)
    return Extensions(score, log_probs.masked_fill(score.eq(-math.inf), -math.inf), words, parents)


TOP_BLOCK = 128
"""Words in a block of :func:`top_values`."""


def top_values(x: Tensor, k: int, offset: Tensor) -> Tuple[Tensor, Tensor]:
    """``(x + offset).flatten(1).topk(k)``, values and flat indices (B, k), best first, without computing the whole sum.

    Args:
        x: (B, beam, V). offset: (B, beam, 1).

    The k largest values lie in the k blocks of words with the largest maxima. Finding maxima is several times faster
    than sorting, so in a large vocabulary the blocks are found first; a small one is sorted at once.
    """
    documents, beam, width = x.shape
    blocks = width // TOP_BLOCK
    if blocks * beam < 8 * k:
        return (x + offset).flatten(1).topk(k)
    body = x[..., : blocks * TOP_BLOCK].unflatten(2, (blocks, TOP_BLOCK))  # (B, beam, blocks, TOP_BLOCK)
    best = (body.amax(3) + offset).flatten(1).topk(k).indices  # (B, k), which of beam * blocks
    first = (best // blocks) * width + (best % blocks) * TOP_BLOCK  # (B, k), flat index of each block's first word
    within = torch.arange(TOP_BLOCK, device=x.device)
    rest = torch.arange(blocks * TOP_BLOCK, width, device=x.device)  # the words after the last whole block
    rest = (torch.arange(beam, device=x.device).unsqueeze(1) * width + rest).flatten().expand(documents, -1)
    index = torch.cat([(first.unsqueeze(2) + within).flatten(1), rest], dim=1)  # (B, k * TOP_BLOCK + beam * |rest|)
    values = x.flatten(1).gather(1, index) + offset.flatten(1).gather(1, index // width)
    values, order = values.topk(k)
    return values, index.gather(1, order)
