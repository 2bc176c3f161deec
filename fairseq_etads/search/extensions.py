"""Extensions of hypotheses by one word: find a document's best ones among all words after all its beams.

With recombination (``--recombine``) only the best of the hypotheses with the same last words is kept (Rush et al. 2015,
section 4).
"""

import math
from typing import Callable, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..vocabulary.batch_vocab import number_by_first_occurrence


class Extensions(NamedTuple):
    """The k best extensions of each document's hypotheses, (B, k) each, best first."""

    selection_score: Tensor  # score for the selection; -inf if the extension cannot be chosen
    log_probs: Tensor  # log P of the hypothesis with its new word
    words: Tensor  # ids of the new words
    parents: Tensor  # beams of the extended hypotheses


def best_extensions(lprobs: Tensor, before: Tensor, k: int, coverage_cost: Optional[Tensor] = None) -> Extensions:
    """Find the k extensions with the largest log P, less the coverage cost if there is one.

    Args:
        lprobs: log-probabilities (B, beam, V) of the next words.
        before: log P (B, beam) of the hypotheses so far.
        coverage_cost: costs (B, beam), which are subtracted only in the selection.
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
    """Compute ``(x + offset).flatten(1).topk(k)``, values and flat indices (B, k), best first, without the whole sum.

    Args:
        x: values (B, beam, V).
        offset: numbers (B, beam, 1) to add.

    The k largest values are in the k blocks of words with the largest maxima. Finding maxima is several times faster
    than sorting, so in a large vocabulary the blocks are found first; a small one is sorted at once.
    """
    documents, beam, width = x.shape
    blocks = width // TOP_BLOCK
    if blocks * beam < 8 * k:
        return (x + offset).flatten(1).topk(k)
    body = x[..., : blocks * TOP_BLOCK].unflatten(2, (blocks, TOP_BLOCK))  # (B, beam, blocks, TOP_BLOCK)
    best = (body.amax(3) + offset).flatten(1).topk(k).indices  # (B, k), index among beam * blocks
    first = (best // blocks) * width + (best % blocks) * TOP_BLOCK  # (B, k), flat index of each block's first word
    within = torch.arange(TOP_BLOCK, device=x.device)
    rest = torch.arange(blocks * TOP_BLOCK, width, device=x.device)  # words after the last complete block
    rest = (torch.arange(beam, device=x.device).unsqueeze(1) * width + rest).flatten().expand(documents, -1)
    index = torch.cat([(first.unsqueeze(2) + within).flatten(1), rest], dim=1)  # (B, k * TOP_BLOCK + beam * |rest|)
    values = x.flatten(1).gather(1, index) + offset.flatten(1).gather(1, index // width)
    values, order = values.topk(k)
    return values, index.gather(1, order)


def groups_by_last_words(tokens: Tensor, words: int) -> Tensor:
    """Find, for each hypothesis (B, beam, t), its document's first one with the same last words. Returns (B, beam)."""
    recent = tokens[:, :, max(0, tokens.size(2) - words) :]
    same = (recent[:, :, None] == recent[:, None]).all(dim=3)  # (B, beam, beam)
    return same.int().argmax(dim=2)


def recombined(
    best: Callable[[int], Extensions], tokens: Tensor, words: int, end: int, count: int, most: int
) -> Extensions:
    """Find the best extensions such that no two have the same last words.

    Extensions that end are never left out, because they have no future that could equal another's.

    Args:
        best: function that finds a given number of best extensions.
        tokens: words (B, beam, t) of the hypotheses to extend.
        words: number of last words to compare, including the new one.
        end: the end symbol.
        count: number of extensions to return.
        most: number of all extensions.

    Returns:
        ``count`` extensions of each document; missing ones have the score -inf.
    """
    group = groups_by_last_words(tokens, words - 1)  # (B, beam)
    # At most ``largest`` extensions have the same last words and the same new word, so enough different ones are found.
    largest = tokens.size(1)
    if tokens.device.type == "cpu":  # on a GPU, more extensions cost less than synchronising
        largest = int((group[:, :, None] == group[:, None]).sum(dim=2).max())
    found = best(min(most, count * largest))
    compared = found.words.ne(end) & found.selection_score.ne(-math.inf)
    last_words = found.words * tokens.size(1) + group.gather(1, found.parents)  # one number per group
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
