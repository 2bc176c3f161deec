"""The active and finished hypotheses of a batch, their best extensions and their scores.

    score(Y) = log P(Y) / lp(Y) - cp(Y)

lp is the length penalty and cp the coverage penalty. As in fairseq, |Y| is the number of words including the end
symbol, so an empty summary has the length 1. The coverage is the sum of the decoder's attention weights over these |Y|
steps. Tensors of hypotheses have one row per document.
"""

import math
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

import torch
import torch.nn.functional as F
from torch import Tensor

from ..platform.command_options import join_choices
from ..vocabulary.output import OutputVocabulary, number_by_first_occurrence
from .options import COVERAGE_KINDS, LENGTH_KINDS, LENGTH_PENALTY_BETA, DecodingOptions

Number = TypeVar("Number", int, float, Tensor)


def length_penalty(length: Number, alpha: float, beta: float = LENGTH_PENALTY_BETA, kind: str = "wu") -> Number:
    """Compute the length penalty lp(Y), by which log P(Y) is divided.

    Args:
        length: the length |Y| including the end symbol, at least 1, as a number or a tensor of any shape.
        alpha: the strength of the penalty. With 0, log P(Y) is not normalised.
        beta: the constant beta, which is used only by the kind "wu".
        kind: "wu" for ((beta + |Y|) / (beta + 1))^alpha (Wu et al. 2016, equation 14), or "avg" for |Y|^alpha
            (fairseq).

    Raises:
        ValueError: the kind is unknown.
    """
    if kind not in LENGTH_KINDS:
        raise ValueError(f'length penalty type "{kind}": choose {join_choices(LENGTH_KINDS)}')
    if kind == "avg":
        return length**alpha
    return ((beta + length) / (beta + 1)) ** alpha


def coverage_penalty(
    coverage: Tensor, weight: float, kind: str = "summary", padding_mask: Optional[Tensor] = None
) -> Tensor:
    """Compute the coverage penalty cp(Y), which is subtracted from the normalised log-probability.

    If the weight is not negative, the penalty is not negative either.

    Args:
        coverage: the coverage c_j (…, S), which is the sum of the attention weights of source token j over all steps of
            the hypothesis. The weights before any gate are used.
        weight: the weight w of the penalty.
        kind: "summary" for w Σ_j (max(c_j, 1) - 1), which penalises attending to the same words repeatedly, or "wu" for
            -w Σ_j log(min(c_j, 1)), which penalises words that receive little attention (Wu et al. 2016, equation 14).
        padding_mask: the padding mask (B, S) for a coverage (B, …, S), True at padding, or None if there is no padding.
            Padding has no penalty.

    Returns:
        The penalties (…). With "wu", a token without any attention costs 87 w instead of infinity, because the
        logarithm of the smallest normal float32 number is -87.

    Raises:
        ValueError: the kind is unknown.
    """
    if kind not in COVERAGE_KINDS:
        raise ValueError(f'coverage penalty type "{kind}": choose {join_choices(COVERAGE_KINDS)}')
    if kind == "summary":
        cost = (coverage - 1).clamp(min=0)
    else:
        cost = -torch.log(coverage.clamp(min=torch.finfo(torch.float32).tiny, max=1))
    if padding_mask is not None:
        batch, length = padding_mask.shape
        cost = cost.masked_fill(padding_mask.view(batch, *(1,) * (cost.dim() - 2), length), 0.0)
    return weight * cost.sum(-1)


@dataclass(frozen=True)
class HypothesisScorer:
    """The function that computes the scores of hypotheses, according to the decoding options."""

    options: DecodingOptions

    def compute_length_penalty(self, length: Any) -> Any:
        """Compute the length penalty lp for a length |Y|, or in float64 for each length in a tensor (B,)."""
        options = self.options
        length = length.double() if isinstance(length, Tensor) else float(length)
        if options.unnormalized:
            return length * 0 + 1
        return length_penalty(length, options.lenpen, options.length_penalty_beta, options.length_penalty_type)

    def compute_final_scores(self, log_probs: Tensor, length: int, cost: Optional[Tensor]) -> Tensor:
        """Compute the scores (…) of hypotheses from log-probabilities (…), their length and coverage costs (…)."""
        scores = log_probs / self.compute_length_penalty(length)
        return scores if cost is None else scores - cost

    def compute_upper_bound(
        self,
        log_probs: Tensor,
        shortest: int,
        longest: Union[int, Tensor],
        cost: Optional[Tensor],
        source_lengths: Optional[Tensor],
        gain: float = 0.0,
    ) -> Tensor:
        """Compute an upper bound (B, beam) for the scores of hypotheses with ``shortest`` to ``longest`` words.

        The arguments are log P and the coverage cost of the words so far, both (B, beam), the numbers of source tokens
        (B,), and an upper bound for the increase of log P in each remaining step, which is 0 unless a negative --unkpen
        rewards the unknown word or a term of the search increases log P. ``longest`` may be a tensor (B,).

        Without a gain, log P can only decrease. lp is monotonic in the length, so log P / lp is largest for the
        shortest or the longest summary. The "summary" cost can only increase, because the coverage can only increase.
        The "wu" cost can decrease, but it has a lower bound, because the attention weights of each step sum to 1: by
        Jensen's inequality, the logarithms of S numbers that sum to n add up to at most S log(n / S).
        """
        if isinstance(longest, Tensor):
            largest: Any = self.compute_length_penalty(longest).to(log_probs.dtype)[:, None]  # (B, 1)
            steps: Any = longest[:, None] - shortest + 1
        else:
            largest, steps = self.compute_length_penalty(longest), longest - shortest + 1
        best = log_probs + gain * steps
        if gain == math.inf:
            best = best.masked_fill(log_probs.eq(-math.inf), -math.inf)  # otherwise the bound would be NaN
        best = torch.maximum(best / self.compute_length_penalty(shortest), best / largest)
        if cost is None:
            return best
        if self.options.coverage_penalty_type == "summary":
            return best - cost
        assert source_lengths is not None
        least = source_lengths * (source_lengths / longest).log() * self.options.coverage_penalty  # (B,)
        return best - least.clamp(min=0).unsqueeze(1)

    def describe_formula(self) -> str:
        """Return the formula of the score as a string for the log."""
        options, beta = self.options, self.options.length_penalty_beta
        name = {"avg": "|Y|^{a:g}", "wu": "(({b:g}+|Y|)/{c:g})^{a:g}"}[options.length_penalty_type]
        text = name.format(a=options.lenpen, b=beta, c=beta + 1)
        text = "log P" if options.unnormalized or math.isclose(options.lenpen, 0.0) else f"log P / {text}"
        if options.coverage_penalty:
            how = "at every step" if options.stepwise_coverage_penalty else "at the end"
            text += f" - {options.coverage_penalty:g} x {options.coverage_penalty_type} coverage, {how}"
        return text


class Extensions(NamedTuple):
    """The k best extensions for each document, sorted from best to worst. All tensors have the shape (B, k)."""

    selection_score: Tensor  # the score used for selection, which is -inf if the extension must not be chosen
    log_probs: Tensor  # the log-probability of the hypothesis including the new word
    words: Tensor  # ids of the new words
    parents: Tensor  # indices of the beams that are extended


def find_best_extensions(lprobs: Tensor, before: Tensor, k: int, coverage_cost: Optional[Tensor] = None) -> Extensions:
    """Find the k best extensions for each document, ranked by log P minus an optional coverage cost (B, beam).

    ``lprobs`` (B, beam, V) are the log-probabilities of the next words, and ``before`` (B, beam) the
    log-probabilities of the hypotheses so far. The coverage cost does not affect the returned log P.
    """
    width = lprobs.size(2)
    offset = before if coverage_cost is None else before - coverage_cost
    score, index = find_top_values(lprobs, k, offset.unsqueeze(2))
    words, parents = index % width, index // width
    if coverage_cost is None:
        return Extensions(score, score, words, parents)
    log_probs = lprobs.flatten(1).gather(1, index) + before.gather(1, parents)
    return Extensions(score, log_probs, words, parents)


TOP_BLOCK = 128
"""Number of words in each block of :func:`find_top_values`."""


def find_top_values(x: Tensor, k: int, offset: Tensor) -> Tuple[Tensor, Tensor]:
    """Compute ``(x + offset).flatten(1).topk(k)`` for ``x`` (B, beam, V) and ``offset`` (B, beam, 1).

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


def recombine_extensions(
    best: Callable[[int], Extensions], tokens: Tensor, words: int, end: int, count: int, most: int
) -> Extensions:
    """Find the best ``count`` of the ``most`` possible extensions, with different last ``words``.

    Extensions with the end symbol are always kept, because they have no further continuations. If a document has fewer
    than ``count``, the remaining entries have the score -inf. ``best`` returns the n best extensions, given n, of the
    hypotheses ``tokens`` (B, beam, t).
    """
    recent = tokens[:, :, max(0, tokens.size(2) - words + 1) :]
    is_same = (recent[:, :, None] == recent[:, None]).all(dim=3)  # (B, beam, beam)
    group = is_same.int().argmax(dim=2)  # (B, beam), the first hypothesis with the same last words
    # At most ``largest`` extensions have the same last words, so ``count`` * ``largest`` extensions are enough.
    largest = tokens.size(1)
    if tokens.is_cpu:  # on a GPU, more extensions are faster than a synchronisation
        largest = int(is_same.sum(dim=2).max())
    found = best(min(most, count * largest))
    compared = found.words.ne(end)
    # a unique number for each combination of last words
    last_words = found.words * tokens.size(1) + group.gather(1, found.parents)
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
        """Replace the hypotheses with extensions by one word, given parents, words and log-probabilities (B, beam)."""
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
    """The finished hypotheses, at most ``size`` for each of B documents, and the recorded attention of all steps.

    With ``by_score``, the hypotheses with the best scores are kept, sorted from best to worst, instead of the first
    that end.

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

        ``batch_rows`` (n,) are the rows of the documents in the original batch, and ``ended`` (n, beam) is True for
        hypotheses that end, with ``score`` (n, beam). The other tensors (n, beam, length) have the same meaning as in
        :class:`ActiveHypotheses`, with the end symbol.
        """
        length = torch.where(ended, tokens.size(2), 0)
        lengths = torch.cat([self.length[batch_rows], length], dim=1)  # (n, size + beam)
        scores = torch.cat([self.score[batch_rows], score], dim=1)
        missing = lengths == 0
        # A hypothesis with probability 0 is still a result, so it must rank above missing hypotheses.
        lowest = torch.finfo(scores.dtype).min
        key = scores.nan_to_num(nan=lowest) if self.by_score else torch.zeros_like(scores)
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
        first = self._attention[0][1]
        result = first.new_zeros(documents, size, first.size(2), longest)
        for step, (batch_rows, attention) in enumerate(self._attention):
            ancestors = self.ancestors[batch_rows, :, step].clamp(max=attention.size(1) - 1)
            result[batch_rows, :, :, step] = gather_beams(attention, ancestors)
        return result


class BestHypothesis(NamedTuple):
    """The best finished or active hypothesis of a document after a step.

    Attributes:
        row: the row of the document in the batch.
        tokens: the dictionary ids of the hypothesis (t,), including the end symbol if the hypothesis has ended.
        score: the score of the hypothesis. An active hypothesis is scored as if it ended after this step.
        attention, copying: the attention weights and the copy distribution (S,) of the last word. They are None if the
            hypothesis has ended, or if the models do not return them.
    """

    row: int
    tokens: Tensor
    score: float
    attention: Optional[Tensor] = None
    copying: Optional[Tensor] = None


OnStep = Callable[[List[BestHypothesis]], None]
"""A function that is called with the best hypothesis of each unfinished document after each step except the last.

If the function raises an exception, the search stops and the caller receives the exception.
"""


def find_best_hypotheses(
    step: int,
    live: ActiveHypotheses,
    done: FinishedHypotheses,
    scores: Tensor,
    parents: Tensor,
    read: Sequence[Optional[Tensor]],
    vocabulary: Optional[OutputVocabulary],
) -> List[BestHypothesis]:
    """Find the best hypothesis of each of the B remaining documents after a step.

    ``scores`` (B, beam) are the scores of active hypotheses if they ended now, and -inf in slots of finished
    hypotheses; ``parents`` (B, beam) are the beams that they continue. ``read`` are the attention weights and the copy
    distribution (B, beam or 1, S) of this step, before reordering, or None if the models do not return them.
    """
    found = []
    best_score, best = scores.max(dim=1)
    ended_score, ended = done.score[live.batch_rows].max(dim=1)
    read = [None if x is None else gather_beams(x.expand(-1, parents.size(1), -1), parents) for x in read]
    for place, row in enumerate(live.batch_rows.tolist()):
        beam = int(best[place])
        last_read: List[Optional[Tensor]] = []
        if ended_score[place] >= best_score[place] and done.length[row, ended[place]]:
            tokens = done.tokens[row, ended[place], : done.length[row, ended[place]]]
        else:
            tokens = live.tokens[place, beam, 1 : step + 2]
            last_read = [None if x is None else x[place, beam] for x in read]
        score = float(best_score[place].maximum(ended_score[place]))
        if vocabulary is not None:
            tokens = vocabulary.convert_to_dictionary_ids(tokens, row)
        found.append(BestHypothesis(row, tokens, score, *last_read))
    return found
