"""fairseq's search classes (sampling, diverse beams, allowed and required words), adapted to the search.

They keep a state, fail on unsuitable numbers, and expect ids of the dictionary, while the search works with extended
ids (see :mod:`fairseq_etads.vocabulary.output`). So every search has its own copy, made by :func:`for_one_search`.
"""

import copy
from typing import Any, Iterable, List, Optional, Sequence, Tuple

import torch
from fairseq import search as fairseq_search
from fairseq.token_generation_constraints import pack_constraints, unpack_constraints
from torch import Tensor

from ..vocabulary.output import OutputVocabulary
from .penalties import check_choice
from .settings import SpecialTokens

CONSTRAINTS = ("ordered", "unordered")
GREEDY_SCORE = 1.0
"""Score of a greedy hypothesis among sampled ones; log P is at most 0."""


class DiverseSiblings(fairseq_search.DiverseSiblingsSearch):
    """Beam search that penalises the i-th best continuation of a hypothesis, i from 0, by ``diversity_rate`` times i.

    So hypotheses of several parents survive (Li et al. 2016). The penalty stays in a hypothesis's score. fairseq's
    class counts from 1 and has no penalty in the first step, so that it prefers short hypotheses, which differ less.
    """

    def step(
        self,
        step: int,
        lprobs: Tensor,
        scores: Optional[Tensor],
        prev_output_tokens: Optional[Tensor] = None,
        original_batch_idxs: Optional[Tensor] = None,
    ) -> Tuple[Tensor, Tensor, Tensor]:
        """The best 2 * beam extensions: scores, words and parents; see fairseq's ``Search.step``."""
        _, beam, width = lprobs.shape
        count = min(2 * beam, width - 1)  # the padding symbol is never chosen
        totals = lprobs[:, :1] if step == 0 or scores is None else lprobs + scores[:, :, step - 1 : step]
        best, words = totals.topk(count, dim=2)  # (B, beam or 1, count)
        best = best - self.diversity_rate * torch.arange(count, device=best.device)
        best, places = best.flatten(1).topk(count, dim=1)
        return best, words.flatten(1).gather(1, places), places // count


class SamplingWithGreedy(fairseq_search.Search):
    """Sampling word by word for all hypotheses of a document except one, which takes the likeliest word each time.

    So both come from the same calls of the decoder. The greedy hypothesis has :data:`GREEDY_SCORE` instead of its log
    P: it is the first of the document's results, and can be recognised wherever the search has put it.
    """

    def step(
        self,
        step: int,
        lprobs: Tensor,
        scores: Optional[Tensor],
        prev_output_tokens: Optional[Tensor] = None,
        original_batch_idxs: Optional[Tensor] = None,
    ) -> Tuple[Tensor, Tensor, Tensor]:
        """One extension of each hypothesis: scores, words and parents, each (B, beam); see fairseq's ``Search.step``.

        lprobs are (B, beam, V) in the first step, too.
        """
        before = lprobs.new_zeros(lprobs.shape[:2]) if step == 0 or scores is None else scores[:, :, step - 1]
        is_greedy = before > GREEDY_SCORE / 2  # sums of log P may exceed 0 because of rounding
        if step == 0:
            is_greedy[:, 0] = True
        words = lprobs.argmax(dim=2)  # (B, beam)
        probs = lprobs[~is_greedy].exp()  # (B * (beam - 1), V)
        words[~is_greedy] = torch.multinomial(probs, 1)[:, 0]
        sums = before + lprobs.gather(2, words[:, :, None])[:, :, 0]
        parents = torch.arange(lprobs.shape[1], device=lprobs.device).expand_as(words)
        return sums.masked_fill(is_greedy, GREEDY_SCORE), words, parents


def check_strategy(strategy: Any, beam: int, words: int) -> None:
    """Raise ValueError for numbers with which one of fairseq's search classes would fail.

    Args:
        beam: ``--beam``. words: V.
    """
    if isinstance(strategy, fairseq_search.Sampling):
        if strategy.sampling_topk > words:
            raise ValueError(f"--sampling-topk {strategy.sampling_topk}: choose 1 to {words}, the known words")
        if not strategy.sampling_topp <= 1:
            raise ValueError(f"--sampling-topp {strategy.sampling_topp}: choose a probability of at most 1")
    elif isinstance(strategy, fairseq_search.DiverseBeamSearch):
        if beam % strategy.num_groups:
            raise ValueError(f"--diverse-beam-groups {strategy.num_groups}: choose a divisor of --beam, {beam}")
    elif isinstance(strategy, fairseq_search.LexicallyConstrainedBeamSearch):
        check_choice("--constraints", strategy.representation, CONSTRAINTS)


def continues_in_place(strategy: Any) -> bool:
    """Tell whether each hypothesis continues in its own slot, so that a finished one cannot reappear in another."""
    return isinstance(strategy, (fairseq_search.Sampling, SamplingWithGreedy))


def widest_beam(strategy: Any, beam: int, width: int) -> int:
    """Largest beam size, up to ``beam``, for which the strategy finds enough words among V + K = ``width``."""
    beam = min(beam, width - 1)  # the padding symbol is never chosen
    if isinstance(strategy, (fairseq_search.LexicallyConstrainedBeamSearch, fairseq_search.DiverseSiblingsSearch)):
        beam = min(beam, (width - 1) // 2)  # these two need twice as many words of a single hypothesis
    if isinstance(strategy, fairseq_search.DiverseBeamSearch):
        beam -= beam % strategy.num_groups
    return max(1, beam)


def for_one_search(strategy: Any, vocabulary: Optional[OutputVocabulary], ids: Iterable[int]) -> Any:
    """Copy the strategy with its own state, which numbers documents by their rows in the batch.

    Args:
        vocabulary: of the search; None: ids are the dictionary's.
        ids: the documents' numbers for ``prefix_allowed_tokens_fn``.
    """
    strategy = copy.copy(strategy)
    if isinstance(strategy, fairseq_search.PrefixConstrainedBeamSearch):
        strategy.prefix_allowed_tokens_fn = _AllowedWords(strategy.prefix_allowed_tokens_fn, vocabulary, list(ids))
    if isinstance(strategy, fairseq_search.Sampling) and vocabulary is not None and vocabulary.candidates is not None:
        strategy.sampling_topk = min(strategy.sampling_topk, len(vocabulary.candidates))
    if isinstance(strategy, fairseq_search.LexicallyConstrainedBeamSearch) and vocabulary is not None:
        slots = 0 if vocabulary.slots is None else vocabulary.slots.slot_words.size(1)
        strategy.vocab_size = max(strategy.vocab_size, vocabulary.known_words + slots)  # larger than any extended id
    return strategy


class _AllowedWords:
    """A ``prefix_allowed_tokens_fn`` that takes and returns extended ids, and identifies documents by their rows.

    Args:
        function: (number of the document, ids (t,) so far) -> ids that may follow, all of the dictionary. Ids that the
            document's summary cannot contain are left out.
    """

    def __init__(self, function: Any, vocabulary: Optional[OutputVocabulary], ids: List[int]):
        self.function, self.vocabulary, self.ids = function, vocabulary, ids

    def __call__(self, row: int, words: Tensor) -> List[int]:
        if self.vocabulary is None:
            return list(self.function(self.ids[row], words))
        allowed = self.function(self.ids[row], self.vocabulary.dictionary_ids(words, row))
        found = torch.tensor([int(word) for word in allowed], dtype=torch.long, device=words.device)
        return self.vocabulary.own_words(found, row).tolist()


def extended_constraints(
    constraints: Optional[Tensor],
    strategy: Any,
    vocabulary: Optional[OutputVocabulary],
    dictionary: Any,
    special: SpecialTokens,
    longest: Sequence[int],
    unknown_allowed: bool,
) -> Optional[Tensor]:
    """Translate packed constraints from ids of the dictionary to extended ids; None if the strategy has none.

    Args:
        constraints: (B, n) or None. longest: maximum number of tokens of each summary before the end symbol.
        unknown_allowed: whether the unknown word may be written.

    Raises:
        NotImplementedError: the strategy does not support constraints.
        ValueError: it needs constraints, or no summary can meet a document's constraints.
    """
    if not getattr(strategy, "supports_constraints", False):
        if constraints is not None:
            raise NotImplementedError(f"{type(strategy).__name__} does not support constraints on the summary")
        return None
    if constraints is None:
        raise ValueError("--constraints: there are none; fairseq-interactive reads them after a tab in each line")
    extended = []
    for row, packed in enumerate(constraints):
        phrases = [phrase.long() for phrase in unpack_constraints(packed)]
        count = sum(map(len, phrases))
        if count > longest[row]:
            raise ValueError(
                f"--constraints: document {row + 1} of the batch must use {count} tokens, but a summary has at most "
                f"{longest[row]} (--max-len-a, --max-len-b, --exact-length, --match-source-len)"
            )
        never = {special.pad, special.eos, *special.suppressed, *(() if unknown_allowed else (special.unk,))}
        own = []
        for phrase in phrases:
            ids = phrase if vocabulary is None else vocabulary.own_words(phrase, row)
            if len(ids) < len(phrase) or never & set(phrase.tolist()):
                raise ValueError(
                    f'--constraints: the summary of document {row + 1} of the batch cannot hold "'
                    f'{" ".join(dictionary[word] for word in phrase.tolist())}": a token must be one of the words that '
                    "the model can write or copy for this document"
                )
            own.append(ids)
        extended.append(own)
    return pack_constraints(extended).to(constraints)
