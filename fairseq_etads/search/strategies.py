"""Adapt fairseq's search strategies (sampling, diverse beams, allowed and required words) to this project's search.

fairseq's search objects have a state, fail for some option values, and expect dictionary ids instead of this project's
search ids (see :mod:`fairseq_etads.vocabulary.output`). Therefore, :func:`copy_strategy_for_search` creates an adapted
copy for each search.
"""

import copy
import logging
import math
import sys
from typing import Any, Iterable, List, Optional, Sequence, Tuple

import torch
from fairseq import search as fairseq_search
from fairseq.token_generation_constraints import pack_constraints, unpack_constraints
from torch import Tensor

from ..platform.command_options import check_option_choice
from ..vocabulary.output import OutputVocabulary
from .search_rules import SpecialTokens

logger = logging.getLogger(__name__)

CONSTRAINTS = ("ordered", "unordered")
GREEDY_SCORE = 1.0
"""Score that identifies the greedy hypothesis. The score of a sampled hypothesis is log P, which is at most 0."""
IMPROBABLE = -50.0
"""Minimum log P of a row's best word. Rows below it are rescaled for sampling, so that not all probabilities are 0."""


class DiverseSiblingsSearch(fairseq_search.DiverseSiblingsSearch):
    """Beam search that subtracts ``diversity_rate`` * i from the score of the i-th best extension of each hypothesis.

    i starts from 0. With this penalty, extensions of more hypotheses remain in the beam (Li et al. 2016). The penalty
    remains part of the score of a hypothesis. In fairseq's class, i starts from 1, and no penalty is applied in the
    first step. Therefore, fairseq's class prefers short hypotheses, which are less diverse.
    """

    def step(
        self, step: int, lprobs: Tensor, scores: Optional[Tensor], *words_and_ids: Any
    ) -> Tuple[Tensor, Tensor, Tensor]:
        """Select the best 2 * beam extensions, and return scores, words and parents; see fairseq's ``Search.step``."""
        _, beam, width = lprobs.shape
        count = min(2 * beam, width - 1)  # the padding symbol is never chosen
        totals = lprobs[:, :1] if step == 0 or scores is None else lprobs + scores[:, :, step - 1 : step]
        best, words = totals.topk(count, dim=2)  # (B, beam or 1, count)
        best = best - self.diversity_rate * torch.arange(count, device=best.device)
        best, places = best.flatten(1).topk(count, dim=1)
        return best, words.flatten(1).gather(1, places), places // count


class SamplingWithGreedyHypothesis(fairseq_search.Search):
    """A search strategy that samples all hypotheses of a document except one, which is decoded greedily.

    Sampled and greedy hypotheses are decoded in the same batch. The score of the greedy hypothesis is
    :data:`GREEDY_SCORE` instead of log P. Therefore, this hypothesis is the first result of the document and can be
    recognised at every step.
    """

    def step(
        self, step: int, lprobs: Tensor, scores: Optional[Tensor], *words_and_ids: Any
    ) -> Tuple[Tensor, Tensor, Tensor]:
        """Choose one extension for each hypothesis, and return scores, words and parents, (B, beam) each.

        The log-probabilities have the shape (B, beam, V) even in the first step. See also fairseq's ``Search.step``.
        """
        before = lprobs.new_zeros(lprobs.shape[:2]) if step == 0 or scores is None else scores[:, :, step - 1]
        is_greedy = before > GREEDY_SCORE / 2  # sums of log P may exceed 0 because of rounding
        if step == 0:
            is_greedy[:, 0] = True
        words = lprobs.argmax(dim=2)  # (B, beam)
        if lprobs.is_cpu:
            probs = (lprobs - _compute_log_prob_shifts(lprobs))[~is_greedy].exp()  # (B * (beam - 1), V)
            words[~is_greedy] = torch.multinomial(probs, 1)[:, 0]
        else:  # on a GPU, sampling in all rows is faster than synchronising to select rows
            words = torch.where(is_greedy, words, draw_indices((lprobs - _compute_log_prob_shifts(lprobs)).exp()))
        sums = before + lprobs.gather(2, words[:, :, None])[:, :, 0]
        parents = torch.arange(lprobs.shape[1], device=lprobs.device).expand_as(words)
        return sums.masked_fill(is_greedy, GREEDY_SCORE), words, parents


def _compute_log_prob_shifts(lprobs: Tensor) -> Tensor:
    """Return log P of the best word (B, beam, 1) where all words are so improbable that exp(log P) may be 0, or 0."""
    best = lprobs.amax(dim=2, keepdim=True)
    return best.masked_fill(best.isneginf() | (best > IMPROBABLE), 0)


def draw_indices(probs: Tensor) -> Tensor:
    """Sample one index from each row of unnormalised probabilities (…, n).

    Unlike ``torch.multinomial``, this function does not check the probabilities. Such a check would have to wait for a
    GPU.
    """
    return probs.div(torch.empty_like(probs).exponential_()).argmax(dim=-1)


class AdaptedSampling(fairseq_search.Sampling):
    """A version of fairseq's sampling strategy that can draw very improbable words if no other words are allowed.

    It does not wait for a GPU, where words are drawn from the same distribution, but with different random numbers.
    """

    def step(
        self, step: int, lprobs: Tensor, scores: Optional[Tensor], *words_and_ids: Any
    ) -> Tuple[Tensor, Tensor, Tensor]:
        """Sample one extension for each hypothesis, and return scores, words and parents, (B, beam) each."""
        documents, beam, width = lprobs.shape
        shifts = _compute_log_prob_shifts(lprobs)  # (B, beam, 1)
        lprobs = lprobs - shifts
        if lprobs.is_cpu:
            sums, words, parents = super().step(step, lprobs, scores, *words_and_ids)
            return sums + shifts[:, :, 0].gather(1, parents), words, parents
        lprobs = lprobs[:, :1].expand(-1, beam, -1) if step == 0 else lprobs
        shown: Optional[Tensor] = None
        if self.sampling_topp > 0:
            probs, shown = lprobs.exp().sort(descending=True)
            below = probs.cumsum(dim=2).lt(self.sampling_topp)
            # keep the most probable words until the sum of their probabilities reaches p
            kept = torch.arange(width, device=probs.device) <= below.sum(dim=2, keepdim=True)
            probs = probs.masked_fill(~kept, 0)
        elif self.sampling_topk > 0:
            best, shown = lprobs.topk(self.sampling_topk)
            probs = best.exp()
        else:
            probs = lprobs.exp()
        chosen = draw_indices(probs)  # (B, beam)
        sums = probs.gather(2, chosen[:, :, None])[:, :, 0].log() + shifts[:, :, 0]
        if shown is not None:
            chosen = shown.gather(2, chosen[:, :, None])[:, :, 0]
        if step == 0 or scores is None:
            return sums, chosen, torch.zeros_like(chosen)
        parents = torch.arange(beam, device=chosen.device).expand(documents, -1)
        return sums + scores[:, :, step - 1], chosen, parents


class AllowedWordsSearch(fairseq_search.PrefixConstrainedBeamSearch):
    """A version of fairseq's class for ``prefix_allowed_tokens_fn`` that waits for a GPU once per step, not per row."""

    def apply_mask(self, x: Tensor, prev_output_tokens: Tensor, original_batch_idxs: Tensor) -> Tensor:
        """Return a mask (rows, 1, V) that is 0 for allowed words and minus infinity for all other words."""
        numbers = original_batch_idxs.repeat_interleave(len(x) // len(original_batch_idxs))
        told = torch.cat([numbers[:, None], prev_output_tokens], dim=1).cpu()  # (rows, 1 + t)
        rows, words = [], []
        for row, so_far in enumerate(told):
            allowed = torch.as_tensor(self.prefix_allowed_tokens_fn(int(so_far[0]), so_far[1:]), dtype=torch.long)
            words.append(allowed.cpu().flatten())
            rows.append(torch.full_like(words[-1], row))
        places = torch.stack([torch.cat(rows), torch.cat(words)]).to(x.device)
        mask = torch.full_like(x[:, 0], -math.inf)
        mask[places[0], places[1]] = 0
        return mask[:, None]


class RequiredWordsSearch(fairseq_search.LexicallyConstrainedBeamSearch):
    """A version of fairseq's class for ``--constraints`` that runs on the CPU, because it reads individual elements.

    It ranks impossible extensions, with a log P of minus infinity, below all possible extensions.
    """

    num_cands: int

    def init_constraints(self, batch_constraints: Tensor, beam_size: int) -> None:
        super().init_constraints(batch_constraints.cpu(), beam_size)

    def prune_sentences(self, batch_idxs: Tensor) -> None:
        super().prune_sentences(batch_idxs.cpu())

    def update_constraints(self, active_hypos: Tensor) -> None:
        super().update_constraints(active_hypos.cpu())

    def step(self, step: int, lprobs: Tensor, scores: Optional[Tensor], *words_and_ids: Any) -> Tuple[Tensor, ...]:
        """Run fairseq's step on the CPU, with one copy to the CPU and one copy back."""
        if lprobs.is_cpu:
            return self._step_on_cpu(step, lprobs, scores)
        before = lprobs[:, :, :1] * 0 if scores is None or step == 0 else scores[:, :, step - 1 :]
        width = lprobs.size(2)
        both = torch.cat([lprobs, before], dim=2).cpu()
        sums = both.new_zeros(*both.shape[:2], step + 1)
        sums[:, :, max(step - 1, 0)] = both[:, :, width]
        found = self._step_on_cpu(step, both[:, :, :width].contiguous(), sums)
        # float64 is exact for ids, which are below 2^53
        together = torch.cat([part.double() for part in found], dim=1).to(lprobs.device)
        values, words, parents = together.chunk(3, dim=1)
        return values.to(lprobs.dtype), words.long(), parents.long()

    def _step_on_cpu(self, step: int, lprobs: Tensor, scores: Optional[Tensor]) -> Tuple[Tensor, ...]:
        """Run fairseq's step. In the first step, also forbid the end symbol for documents with required words.

        fairseq's class forbids it only in later steps. An empty summary remains possible if nothing else is allowed.
        """
        for row, states in zip(lprobs, self.constraint_states if step == 0 else []):
            if not states[0].finished and row[0].gt(-math.inf).sum() > 1:
                row[:, self.eos] = -math.inf
        return super().step(step, lprobs, scores)

    def step_sentence(self, *args: Any) -> Tuple[Tensor, Tensor, Tensor, List[Any]]:
        """Rank the extensions for one document, and return the best scores, words, parents and states.

        fairseq's class groups the extensions by the number of their required words, and takes the best of each group in
        turn. If a prefix forbids the required words, this selection would include impossible extensions. Therefore, all
        extensions are first ranked by fairseq's class, and then the best ones are selected, possible extensions first.
        """
        count, self.num_cands = self.num_cands, sys.maxsize
        scores, words, parents, states = super().step_sentence(*args)
        self.num_cands = count
        order = scores.isneginf().int().argsort(stable=True)[:count]  # otherwise, keep fairseq's order
        return scores[order], words[order], parents[order], [states[i] for i in order.tolist()]


def check_strategy(strategy: Any, beam: int, words: int) -> None:
    """Raise ValueError if one of fairseq's search classes would fail with this beam size and V = ``words``."""
    if isinstance(strategy, fairseq_search.Sampling):
        if strategy.sampling_topk > words:
            raise ValueError(
                f"--sampling-topk {strategy.sampling_topk}: choose 1 to {words}, the number of known words"
            )
        if not strategy.sampling_topp <= 1:
            raise ValueError(f"--sampling-topp {strategy.sampling_topp}: choose a probability of at most 1")
    elif isinstance(strategy, fairseq_search.DiverseBeamSearch):
        if beam % strategy.num_groups:
            raise ValueError(f"--diverse-beam-groups {strategy.num_groups}: choose a divisor of --beam, {beam}")
    elif isinstance(strategy, fairseq_search.LexicallyConstrainedBeamSearch):
        check_option_choice("--constraints", strategy.representation, CONSTRAINTS)


def copy_strategy_for_search(strategy: Any, vocabulary: Optional[OutputVocabulary], ids: Iterable[int]) -> Any:
    """Copy fairseq's search object for one search. The copy has a separate state and identifies documents by rows.

    ``vocabulary`` is None if the search uses dictionary ids; ``ids`` are the numbers that identify the documents for
    ``prefix_allowed_tokens_fn``.
    """
    strategy = copy.copy(strategy)
    if type(strategy) is fairseq_search.LexicallyConstrainedBeamSearch:
        strategy.__class__ = RequiredWordsSearch
    if type(strategy) is fairseq_search.PrefixConstrainedBeamSearch:
        strategy.__class__ = AllowedWordsSearch
    if type(strategy) is fairseq_search.Sampling:
        strategy.__class__ = AdaptedSampling
    if isinstance(strategy, fairseq_search.PrefixConstrainedBeamSearch):
        own = None if vocabulary is None else vocabulary.to("cpu")
        strategy.prefix_allowed_tokens_fn = _adapt_allowed_words(strategy.prefix_allowed_tokens_fn, own, list(ids))
    if isinstance(strategy, fairseq_search.Sampling) and vocabulary is not None and vocabulary.candidates is not None:
        strategy.sampling_topk = min(strategy.sampling_topk, len(vocabulary.candidates))
    if isinstance(strategy, fairseq_search.LexicallyConstrainedBeamSearch) and vocabulary is not None:
        slots = 0 if vocabulary.slots is None else vocabulary.slots.slot_words.size(1)
        strategy.vocab_size = max(strategy.vocab_size, vocabulary.known_words + slots)  # larger than every extended id
    return strategy


def _adapt_allowed_words(function: Any, vocabulary: Optional[OutputVocabulary], ids: List[int]) -> Any:
    """Wrap ``prefix_allowed_tokens_fn``, so that it takes rows and search ids instead of numbers and dictionary ids."""

    def list_allowed_words(row: int, words: Tensor) -> List[int]:
        if vocabulary is None:
            return list(function(ids[row], words))
        allowed = function(ids[row], vocabulary.convert_to_dictionary_ids(words, row))
        found = torch.tensor([int(word) for word in allowed], dtype=torch.long, device=words.device)
        return vocabulary.convert_words_to_search_ids(found, row).tolist()  # without words that cannot occur here

    return list_allowed_words


def convert_constraints_to_search_ids(
    constraints: Optional[Tensor],
    strategy: Any,
    vocabulary: Optional[OutputVocabulary],
    dictionary: Any,
    special: SpecialTokens,
    longest: Sequence[int],
    unknown_allowed: bool,
) -> Optional[Tensor]:
    """Convert packed constraints (B, n) from dictionary ids to search ids, on the CPU.

    Constraints that no summary can satisfy are left out with a warning, so that a run does not end: those with words
    that the summary cannot contain, or longer than ``longest``, the maximum number of tokens in each summary. Returns
    None if the strategy does not use constraints.
    """
    if not getattr(strategy, "supports_constraints", False):
        if constraints is not None:
            raise NotImplementedError(f"{type(strategy).__name__} does not support constraints on the summary")
        return None
    if constraints is None:
        raise ValueError(
            "--constraints: the input contains no constraints; fairseq-interactive reads them after a tab on each line"
        )
    constraints, extended = constraints.cpu(), []
    vocabulary = None if vocabulary is None else vocabulary.to("cpu")
    never = {special.pad, special.eos, *special.suppressed, *(() if unknown_allowed else (special.unk,))}
    for row, packed in enumerate(constraints):
        own: List[Tensor] = []
        for phrase in (phrase.long() for phrase in unpack_constraints(packed)):
            ids = phrase if vocabulary is None else vocabulary.convert_words_to_search_ids(phrase, row)
            if len(ids) < len(phrase) or never & set(phrase.tolist()):
                problem = "a token must be one of the words that the model can write or copy for this document"
            elif sum(map(len, own)) + len(ids) > longest[row]:
                problem = f"with the constraints before it, it is longer than a summary, {longest[row]} tokens"
            else:
                own.append(ids)
                continue
            words = " ".join(dictionary[word] for word in phrase.tolist())
            logger.warning(
                f'--constraints: the summary of document {row + 1} of the batch cannot contain "{words}", which is '
                f"left out: {problem}"
            )
        extended.append(own)
    return pack_constraints(extended).to(constraints)
