"""Active and finished hypotheses of a batch, and their best extensions. All tensors have one row per document."""

import math
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..vocabulary.output import number_by_first_occurrence


class Extensions(NamedTuple):
    """The k best extensions for each document, best first. All tensors have shape (B, k)."""

    selection_score: Tensor  # score used for the selection; -inf if the extension must not be chosen
    log_probs: Tensor  # log P of the hypothesis including the new word
    words: Tensor  # ids of the new words
    parents: Tensor  # indices of the beams that are extended


def best_extensions(lprobs: Tensor, before: Tensor, k: int, coverage_cost: Optional[Tensor] = None) -> Extensions:
    """Find the k extensions of each document with the largest log P, minus the coverage cost if it is given.

    Args:
        lprobs: log-probabilities (B, beam, V) of the next words.
        before: log P (B, beam) of the hypotheses so far.
        coverage_cost: costs (B, beam) that are subtracted for the selection only, or None.
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
"""Number of words in each block of :func:`top_values`."""


def top_values(x: Tensor, k: int, offset: Tensor) -> Tuple[Tensor, Tensor]:
    """Compute ``(x + offset).flatten(1).topk(k)`` without computing the whole sum.

    Args:
        x: values (B, beam, V).
        offset: values (B, beam, 1) to add to ``x``.

    Returns:
        Values and flat indices, (B, k) each, best first.

    The k largest values lie in the k blocks of words with the largest maxima. Finding maxima is several times faster
    than sorting, so these blocks are found first. A small vocabulary is sorted directly.
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
    """Group the hypotheses (B, beam, t) of each document by their last words.

    Returns a tensor (B, beam) with the beam index of the first hypothesis in the same group.
    """
    recent = tokens[:, :, max(0, tokens.size(2) - words) :]
    same = (recent[:, :, None] == recent[:, None]).all(dim=3)  # (B, beam, beam)
    return same.int().argmax(dim=2)


def recombined(
    best: Callable[[int], Extensions], tokens: Tensor, words: int, end: int, count: int, most: int
) -> Extensions:
    """Find the best extensions that differ in their last words.

    Extensions that end are always kept, because they have no continuation that another extension could share.

    Args:
        best: function that returns the best extensions, given their number.
        tokens: words (B, beam, t) of the hypotheses to extend.
        words: number of last words to compare, including the new word.
        end: the end symbol.
        count: number of extensions to return.
        most: total number of possible extensions.

    Returns:
        ``count`` extensions for each document. If there are fewer extensions, the remaining entries have the score
        -inf.
    """
    group = groups_by_last_words(tokens, words - 1)  # (B, beam)
    # At most ``largest`` extensions have the same last words and the same new word, so enough different ones are found.
    largest = tokens.size(1)
    if tokens.device.type == "cpu":  # on a GPU, more extensions take less time than synchronising
        largest = int((group[:, :, None] == group[:, None]).sum(dim=2).max())
    found = best(min(most, count * largest))
    compared = found.words.ne(end) & found.selection_score.ne(-math.inf)
    last_words = found.words * tokens.size(1) + group.gather(
        1, found.parents
    )  # one number for each combination of last words
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


Results = List[List[Dict[str, Tensor]]]
"""Result of a search: the hypotheses of each document, best first (see ``SummaryGenerator.generate``)."""


def take_beams(x: Tensor, parents: Tensor) -> Tensor:
    """Gather the entries of ``x`` (B, beam, …) at the beam indices ``parents`` (B, beam').

    Returns a tensor (B, beam', …).
    """
    index = parents.view(*parents.shape, *(1,) * (x.dim() - 2)).expand(*parents.shape, *x.shape[2:])
    return x.gather(1, index)


class ActiveHypotheses:
    """Hypotheses that the search still extends.

    B is the number of unfinished documents.

    Attributes:
        tokens: words (B, beam, longest + 1), int64, beginning with the start symbol.
        log_probs: cumulative log P (B, beam, longest) of the first 1, 2, … words.
        ancestors: (B, beam, longest), int64, index of the beam from which the hypothesis descends at each step; None
            unless the attention is kept.
        coverage: (B, beam, S), attention summed over the steps, or None.
        used_up: (B, beam), bool, True for beam slots that finished hypotheses have used up (fairseq never refills
            them).
        decided: (B,), bool, True for documents that need no further step but are still in the batch.
        batch_rows: (B,), int64, row of each document in the original batch.
    """

    def __init__(self, documents: int, beam: int, longest: int, start: int, device: torch.device, keep_ancestors: bool):
        self.tokens = torch.full((documents, beam, longest + 1), start, device=device)
        self.log_probs = torch.zeros(documents, beam, longest, device=device)
        self.ancestors: Optional[Tensor] = None
        if keep_ancestors:
            self.ancestors = torch.zeros(documents, beam, longest, dtype=torch.long, device=device)
        self.coverage: Optional[Tensor] = None
        self.used_up = torch.zeros(documents, beam, dtype=torch.bool, device=device)
        self.decided = torch.zeros(documents, dtype=torch.bool, device=device)
        self.batch_rows = torch.arange(documents, device=device)

    @property
    def beam(self) -> int:
        return self.tokens.size(1)

    def extend(self, step: int, parents: Tensor, words: Tensor, log_probs: Tensor) -> None:
        """Extend each hypothesis at the beam indices ``parents`` (B, beam) by one word.

        Args:
            words: (B, beam), the new words.
            log_probs: (B, beam), log P of the extended hypotheses.
        """
        self.tokens = take_beams(self.tokens, parents)
        self.tokens[:, :, step + 1] = words
        self.log_probs = take_beams(self.log_probs, parents)
        self.log_probs[:, :, step] = log_probs
        if self.ancestors is not None:
            self.ancestors = take_beams(self.ancestors, parents)
            self.ancestors[:, :, step] = parents
        if self.coverage is not None:
            self.coverage = take_beams(self.coverage, parents)

    def keep_documents(self, documents: Tensor) -> None:
        """Keep only the documents with the given row indices (n,)."""
        for name, value in vars(self).items():
            if value is not None:
                setattr(self, name, value.index_select(0, documents))


class Finished:
    """Finished hypotheses, at most ``size`` per document, and the recorded attention of all steps.

    Args:
        documents: B, the number of documents in the original batch.
        size: maximum number of hypotheses per document.
        longest: maximum number of tokens of a hypothesis, with the end symbol.
        by_score: whether to keep the ``size`` hypotheses with the best scores, best first, instead of the first
            ``size`` hypotheses that end.

    Attributes:
        score: scores (B, size), -inf where there is no hypothesis.
        length: numbers of tokens (B, size), including the end symbol; 0 where there is no hypothesis.
        tokens, log_probs, ancestors: (B, size, longest), as in :class:`ActiveHypotheses`, but without the start symbol.
    """

    def __init__(self, documents: int, size: int, longest: int, device: torch.device, by_score: bool):
        self.size = size
        self.by_score = by_score
        self.score = torch.full((documents, size), -math.inf, device=device)
        self.length = torch.zeros(documents, size, dtype=torch.long, device=device)
        self.tokens = torch.zeros(documents, size, longest, dtype=torch.long, device=device)
        self.log_probs = torch.zeros(documents, size, longest, device=device)
        self.ancestors = torch.zeros(documents, size, longest, dtype=torch.long, device=device)
        self._attention: List[Tuple[Tensor, Tensor]] = []  # for each step: batch rows (n,), attention (n, beam, S)

    def count(self, batch_rows: Tensor) -> Tensor:
        """Return the number of hypotheses (n,) of each document in ``batch_rows`` (n,)."""
        return self.length[batch_rows].gt(0).sum(1)

    def record_attention(self, batch_rows: Tensor, attention: Tensor) -> None:
        """Store the attention (n, beam, S) of this step for :meth:`results`."""
        self._attention.append((batch_rows, attention))

    def add(
        self,
        batch_rows: Tensor,
        ended: Tensor,
        score: Tensor,
        tokens: Tensor,
        log_probs: Tensor,
        ancestors: Optional[Tensor],
    ) -> None:
        """Add the hypotheses that end in this step.

        Args:
            batch_rows: rows (n,) of their documents in the batch.
            ended: (n, beam), bool, True for hypotheses that end at this step.
            score: scores (n, beam) of the hypotheses.
            tokens, log_probs, ancestors: (n, beam, length), including the end symbol.
        """
        length = torch.where(ended, tokens.size(2), 0)
        lengths = torch.cat([self.length[batch_rows], length], dim=1)  # (n, size + beam)
        scores = torch.cat([self.score[batch_rows], score], dim=1)
        missing = lengths == 0
        # A hypothesis with probability 0 is still a result, so it must rank above missing hypotheses.
        lowest = torch.finfo(scores.dtype).min
        key = scores.nan_to_num(nan=lowest, neginf=lowest) if self.by_score else torch.zeros_like(scores)
        order = key.masked_fill(missing, -math.inf).argsort(dim=1, descending=True, stable=True)[:, : self.size]
        self.length[batch_rows] = lengths.gather(1, order)
        self.score[batch_rows] = scores.masked_fill(missing, -math.inf).gather(1, order)
        for kept, new in ((self.tokens, tokens), (self.log_probs, log_probs), (self.ancestors, ancestors)):
            if new is not None:
                new = torch.nn.functional.pad(new, (0, kept.size(2) - new.size(2)))
                kept[batch_rows] = take_beams(torch.cat([kept[batch_rows], new], dim=1), order)

    def results(self) -> Results:
        """Return a list of hypotheses for each document, best first, in fairseq's format."""
        order = self.score.argsort(dim=1, descending=True, stable=True)
        # hypotheses with a score of -inf come before missing ones, which have the same score
        order = order.gather(1, self.length.gather(1, order).eq(0).int().argsort(dim=1, stable=True))
        first = self.log_probs[:, :, :1]
        steps = torch.cat([first, self.log_probs[:, :, 1:] - self.log_probs[:, :, :-1]], dim=2)
        steps = steps.nan_to_num(nan=-math.inf, neginf=-math.inf)
        attention = self._hypotheses_attention()
        empty = torch.empty(0)
        return [
            [
                {
                    "tokens": self.tokens[row, rank, : lengths[rank]].clone(),
                    "score": self.score[row, rank].clone(),
                    "attention": empty if attention is None else attention[row, rank, :, : lengths[rank]],
                    "alignment": empty,
                    "positional_scores": steps[row, rank, : lengths[rank]].clone(),
                }
                for rank in ranks
                if lengths[rank]
            ]
            for row, (ranks, lengths) in enumerate(zip(order.tolist(), self.length.tolist()))
        ]

    def _hypotheses_attention(self) -> Optional[Tensor]:
        """Return the attention (B, size, S, longest) at each step of the hypotheses, or None if it was not recorded."""
        if not self._attention:
            return None
        documents, size, longest = self.tokens.shape
        source_length = self._attention[0][1].size(2)
        result = torch.zeros(documents, size, source_length, longest, device=self.tokens.device)
        for step, (batch_rows, attention) in enumerate(self._attention):
            ancestors = self.ancestors[batch_rows, :, step].clamp(max=attention.size(1) - 1)
            result[batch_rows, :, :, step] = take_beams(attention, ancestors)
        return result
