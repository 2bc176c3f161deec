"""The active and finished hypotheses of a batch, and their best extensions. Tensors have one row per document."""

import math
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..vocabulary.output import number_by_first_occurrence


class Extensions(NamedTuple):
    """The k best extensions for each document, sorted from best to worst. All tensors have the shape (B, k)."""

    selection_score: Tensor  # the score used for selection, which is -inf if the extension must not be chosen
    log_probs: Tensor  # the log-probability of the hypothesis including the new word
    words: Tensor  # ids of the new words
    parents: Tensor  # indices of the beams that are extended


def find_best_extensions(lprobs: Tensor, before: Tensor, k: int, coverage_cost: Optional[Tensor] = None) -> Extensions:
    """Find the k best extensions for each document, ranked by log P minus an optional coverage cost.

    Args:
        lprobs: the log-probabilities (B, beam, V) of the next words.
        before: the log-probabilities (B, beam) of the hypotheses so far.
        k: the number of extensions to find for each document.
        coverage_cost: the coverage cost (B, beam), which affects the ranking but not the returned log P, or None.
    """
    width = lprobs.size(2)
    offset = before if coverage_cost is None else before - coverage_cost
    score, index = find_top_values(lprobs, k, offset.unsqueeze(2))
    words, parents = index % width, index // width
    if coverage_cost is None:
        return Extensions(score, score, words, parents)
    log_probs = lprobs.flatten(1).gather(1, index) + before.gather(1, parents)
    return Extensions(score, log_probs.masked_fill(score.eq(-math.inf), -math.inf), words, parents)


TOP_BLOCK = 128
"""Number of words in each block of :func:`find_top_values`."""


def find_top_values(x: Tensor, k: int, offset: Tensor) -> Tuple[Tensor, Tensor]:
    """Compute ``(x + offset).flatten(1).topk(k)`` without computing the whole sum.

    Args:
        x: the values (B, beam, V).
        k: the number of values to find in each row.
        offset: the values (B, beam, 1) to add to ``x``.

    Returns:
        The k largest values and their flat indices, (B, k) each, in descending order.

    The k largest values lie in the k blocks of words with the largest maxima. These blocks are found first, because
    finding maxima is several times faster than sorting. A small vocabulary is sorted directly.
    """
    documents, beam, width = x.shape
    blocks = width // TOP_BLOCK
    if blocks * beam < 8 * k:
        return (x + offset).flatten(1).topk(k)
    body = x[..., : blocks * TOP_BLOCK].unflatten(2, (blocks, TOP_BLOCK))  # (B, beam, blocks, TOP_BLOCK)
    best = (body.amax(3) + offset).flatten(1).topk(k).indices  # (B, k), block indices below beam * blocks
    first = (best // blocks) * width + (best % blocks) * TOP_BLOCK  # (B, k), flat index of each block's first word
    within = torch.arange(TOP_BLOCK, device=x.device)
    rest = torch.arange(blocks * TOP_BLOCK, width, device=x.device)  # words after the last complete block
    rest = (torch.arange(beam, device=x.device).unsqueeze(1) * width + rest).flatten().expand(documents, -1)
    index = torch.cat([(first.unsqueeze(2) + within).flatten(1), rest], dim=1)  # (B, k * TOP_BLOCK + beam * |rest|)
    values = x.flatten(1).gather(1, index) + offset.flatten(1).gather(1, index // width)
    values, order = values.topk(k)
    return values, index.gather(1, order)


def group_hypotheses_by_last_words(tokens: Tensor, words: int) -> Tensor:
    """Group the hypotheses (B, beam, t) of each document by their last words.

    Returns, for each hypothesis, the beam index (B, beam) of the first hypothesis in its group.
    """
    recent = tokens[:, :, max(0, tokens.size(2) - words) :]
    same = (recent[:, :, None] == recent[:, None]).all(dim=3)  # (B, beam, beam)
    return same.int().argmax(dim=2)


def recombine_extensions(
    best: Callable[[int], Extensions], tokens: Tensor, words: int, end: int, count: int, most: int
) -> Extensions:
    """Find the best extensions with different last words.

    Extensions with the end symbol are always kept, because they have no further continuations.

    Args:
        best: a function that returns the n best extensions, given n.
        tokens: the words (B, beam, t) of the hypotheses to extend.
        words: the number of last words to compare, including the new word.
        end: the id of the end symbol.
        count: the number of extensions to return.
        most: the total number of possible extensions.

    Returns:
        ``count`` extensions for each document. If a document has fewer extensions, the remaining entries have the score
        -inf.
    """
    group = group_hypotheses_by_last_words(tokens, words - 1)  # (B, beam)
    # At most ``largest`` extensions have the same last words, so ``count`` * ``largest`` extensions are enough.
    largest = tokens.size(1)
    if tokens.device.type == "cpu":  # on a GPU, more extensions are faster than a synchronisation
        largest = int((group[:, :, None] == group[:, None]).sum(dim=2).max())
    found = best(min(most, count * largest))
    compared = found.words.ne(end) & found.selection_score.ne(-math.inf)
    last_words = found.words * tokens.size(1) + group.gather(
        1, found.parents
    )  # a unique number for each combination of last words
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
"""The result of a search, a list of hypotheses for each document (see ``SummaryGenerator.generate``)."""


def gather_beams(x: Tensor, parents: Tensor) -> Tensor:
    """Gather the entries of ``x`` (B, beam, …) at the beam indices ``parents`` (B, beam').

    Returns a tensor (B, beam', …).
    """
    index = parents.view(*parents.shape, *(1,) * (x.dim() - 2)).expand(*parents.shape, *x.shape[2:])
    return x.gather(1, index)


class ActiveHypotheses:
    """The hypotheses that the search still extends.

    B is the number of unfinished documents.

    Attributes:
        tokens: the start symbol and the words so far (B, beam, longest + 1), int64.
        log_probs: the cumulative log-probabilities of the first 1, 2, … words (B, beam, longest).
        ancestors: the index of the beam that each hypothesis continued at each step (B, beam, longest), int64, or None
            if the attention is not recorded.
        coverage: the attention weights summed over the steps (B, beam, S), or None.
        used_up: the boolean mask (B, beam), True for beam slots that are not refilled because their hypotheses have
            finished. Slots are always refilled unless ``early_stopping`` is "fairseq".
        decided: the boolean mask (B,), True for documents that need no further step but are still in the batch.
        batch_rows: the row of each document in the original batch (B,), int64.
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
        """Replace the hypotheses with extensions that are one word longer.

        Args:
            step: the step index, starting from 0.
            parents: the beam indices (B, beam) of the hypotheses to extend.
            words: the ids of the new words (B, beam).
            log_probs: the log-probabilities of the extended hypotheses (B, beam).
        """
        self.tokens = gather_beams(self.tokens, parents)
        self.tokens[:, :, step + 1] = words
        self.log_probs = gather_beams(self.log_probs, parents)
        self.log_probs[:, :, step] = log_probs
        if self.ancestors is not None:
            self.ancestors = gather_beams(self.ancestors, parents)
            self.ancestors[:, :, step] = parents
        if self.coverage is not None:
            self.coverage = gather_beams(self.coverage, parents)

    def keep_documents(self, documents: Tensor) -> None:
        """Keep only the documents with the given row indices (n,)."""
        for name, value in vars(self).items():
            if value is not None:
                setattr(self, name, value.index_select(0, documents))


class FinishedHypotheses:
    """The finished hypotheses, at most ``size`` per document, and the recorded attention of all steps.

    Args:
        documents: B, the number of documents in the original batch.
        size: the maximum number of hypotheses per document.
        longest: the maximum number of tokens in a hypothesis, including the end symbol.
        device: the device of the tensors.
        by_score: whether to keep the ``size`` hypotheses with the best scores, sorted from best to worst, instead of
            the ``size`` hypotheses that end first.

    Attributes:
        score: the scores of the hypotheses (B, size), -inf where there is no hypothesis.
        length: the number of tokens in each hypothesis (B, size), including the end symbol, or 0 where there is no
            hypothesis.
        tokens, log_probs, ancestors: tensors (B, size, longest) with the same meaning as in :class:`ActiveHypotheses`.
            The start symbol is not included.
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

    def count_finished(self, batch_rows: Tensor) -> Tensor:
        """Return the number of finished hypotheses (n,) of each document in ``batch_rows`` (n,)."""
        return self.length[batch_rows].gt(0).sum(1)

    def record_attention(self, batch_rows: Tensor, attention: Tensor) -> None:
        """Store the attention weights (n, beam, S) of this step for :meth:`collect_results`."""
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
            batch_rows: the rows of the n documents in the original batch (n,).
            ended: the boolean mask (n, beam), True for hypotheses that end in this step.
            score: the scores of the hypotheses (n, beam).
            tokens, log_probs, ancestors: tensors (n, beam, length) with the same meaning as in
                :class:`ActiveHypotheses`. The end symbol is included.
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
                kept[batch_rows] = gather_beams(torch.cat([kept[batch_rows], new], dim=1), order)

    def collect_results(self) -> Results:
        """Return a list of hypotheses for each document, sorted from best to worst, in fairseq's format."""
        order = self.score.argsort(dim=1, descending=True, stable=True)
        # hypotheses with the score -inf precede missing hypotheses, which have the same score
        order = order.gather(1, self.length.gather(1, order).eq(0).int().argsort(dim=1, stable=True))
        first = self.log_probs[:, :, :1]
        steps = torch.cat([first, self.log_probs[:, :, 1:] - self.log_probs[:, :, :-1]], dim=2)
        steps = steps.nan_to_num(nan=-math.inf, neginf=-math.inf)
        attention = self._gather_attention()
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

    def _gather_attention(self) -> Optional[Tensor]:
        """Return the attention weights (B, size, S, longest) of all hypotheses, or None if they were not recorded."""
        if not self._attention:
            return None
        documents, size, longest = self.tokens.shape
        source_length = self._attention[0][1].size(2)
        result = torch.zeros(documents, size, source_length, longest, device=self.tokens.device)
        for step, (batch_rows, attention) in enumerate(self._attention):
            ancestors = self.ancestors[batch_rows, :, step].clamp(max=attention.size(1) - 1)
            result[batch_rows, :, :, step] = gather_beams(attention, ancestors)
        return result
