"""Run beam search over a batch, step by step.

If none of this project's options are set, the results are the same as in fairseq, because operations run in the same
order and ties are resolved in the same way.
"""

import math
from functools import partial
from typing import Any, Dict, List, Optional, Union

import torch
from fairseq import search as fairseq_search
from torch import Tensor, nn

from ..layers.pointer import Selection
from ..vocabulary.output import CandidateWords
from .ensemble import EncodedBatch, Ensemble
from .hypotheses import (
    ActiveHypotheses,
    Extensions,
    FinishedHypotheses,
    OnStep,
    Results,
    coverage_penalty,
    find_best_extensions,
    find_best_hypotheses,
    gather_beams,
    recombine_extensions,
)
from .inference import convert_to_search_ids, find_batch_candidates
from .options import DecodingOptions
from .search_rules import SearchStep, SourceLengths, SpecialTokens, check_minimum_length, make_search_rules
from .strategies import SamplingWithGreedyHypothesis, convert_constraints_to_search_ids, copy_strategy_for_search
from .terms import ActiveTerm, TermBatch, compute_largest_gain

STEPS_BETWEEN_LOOKS = 4
"""Number of steps between checks for finished documents on a GPU. Checks are rare, because each waits for the GPU.

Finished documents remain in the batch until the next check, but they do not receive any new hypotheses.
"""


class BeamSearch:
    """A search over a batch of B documents.

    Its arguments are the ``SummaryGenerator``, the models of the ensemble in evaluation mode, and the arguments of
    ``SummaryGenerator.generate`` with the same names.

    Internally, words are represented by search ids (see :mod:`fairseq_etads.vocabulary.output`). V is the number of
    words in the models' distributions.

    Attributes:
        batch: the batch in the format that terms receive.
        candidates: the words over which the softmax is computed with a shortlist, or None without a shortlist.
        selection: the words that pointers may copy from the documents, or None if they may copy all words.

    Raises:
        ValueError: an option is incompatible with this batch or these models.
        NotImplementedError: constraints are given, but the strategy does not support them.
    """

    def __init__(
        self,
        generator: Any,
        models: List[nn.Module],
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        bos_token: Optional[int] = None,
        encoded: Optional[EncodedBatch] = None,
        on_step: Optional[OnStep] = None,
    ):
        options: DecodingOptions = generator.options
        special: SpecialTokens = generator.special
        net_input = sample["net_input"]
        self.options, self.scoring, self.on_step = options, generator.scoring, on_step
        self.source = SourceLengths.from_net_input(net_input, special.eos, special.pad)
        self.documents, self.device = len(self.source.lengths), self.source.lengths.device
        limits = self._compute_length_limits(special, prefix_tokens)
        self.longest = torch.tensor(limits, dtype=torch.long, device=self.device)  # (B,), without the end symbol
        self.limits = limits = limits or [0]
        self.max_len, self.same_length = max(limits), len(set(limits)) == 1
        if not (options.exact_length or options.match_source_len):
            # If each document has its own limit, this limit takes precedence over the minimum length.
            longest = options.positions - 1
            if not options.max_len_per_document:
                longest = min(limits)
            elif not options.max_len_a:
                longest = min(longest, options.max_len)
            check_minimum_length(options.min_len, longest)
        start = special.eos if bos_token is None else bos_token
        self.candidates: Optional[CandidateWords] = None
        self.special, self.start = special, start
        if generator.shortlist is not None:
            self.candidates = find_batch_candidates(
                generator.shortlist, net_input, prefix_tokens, constraints, special, start, options.beam
            )
            self.special, self.start = convert_to_search_ids(special, start, self.candidates)
        self.selection: Optional[Selection] = None
        if "selection" in sample:
            self.selection = Selection(sample["selection"], options.selection_threshold, options.selection_factor)
        given = options.beam, options.temperature, encoded, self.selection, self.candidates
        self.ensemble = Ensemble(models, net_input, self.documents, *given)
        self.vocabulary = self.ensemble.vocabulary
        self.batch = TermBatch(net_input, self.vocabulary, generator.tgt_dict)
        begun = [term.begin(self.batch) for term in generator.terms]
        self.terms: List[ActiveTerm] = [term for term in begun if term is not None]
        self.prefix = None if prefix_tokens is None else self._convert_prefix(prefix_tokens)
        self.sample_ids = torch.arange(self.documents, device=self.device)
        self.strategy = generator.search
        # The search always selects the best extensions. fairseq's strategy then has no state.
        self.is_plain = type(self.strategy) is fairseq_search.BeamSearch
        self.packed_constraints: Optional[Tensor] = None  # for the strategy, which reads them on the CPU
        if constraints is not None or not self.is_plain:
            ids: Any = sample.get("id")
            has_ids = isinstance(ids, Tensor) and isinstance(self.strategy, fairseq_search.PrefixConstrainedBeamSearch)
            numbers = ids.tolist() if has_ids else range(self.documents)
            self.packed_constraints = convert_constraints_to_search_ids(
                constraints,
                self.strategy,
                self.vocabulary,
                generator.tgt_dict,
                special,
                limits,
                unknown_allowed=options.unkpen < math.inf,
            )
            self.strategy = copy_strategy_for_search(self.strategy, self.vocabulary, numbers)
        packed = self.packed_constraints
        self.constraints = None if packed is None else packed.to(self.device)
        end_counts = any(term.end_always_counts for term in self.terms)
        self.rules = make_search_rules(options, self.special, min(limits), end_counts)
        # Progress reports must not include finished documents.
        looks_always = self.device.type == "cpu" or self.on_step is not None
        self.steps_between_looks = 1 if looks_always else STEPS_BETWEEN_LOOKS

    def _compute_length_limits(self, special: SpecialTokens, prefix: Optional[Tensor]) -> List[int]:
        """Return the maximum number of tokens in each summary, not counting the end symbol.

        With ``max_len_per_document``, a summary is at most as long as its document, unless its prefix is longer.
        """
        options = self.options
        if options.exact_length:
            return [options.exact_length] * self.documents
        if options.match_source_len:
            longest = int(self.source.lengths.max())
            if longest >= options.positions:
                raise ValueError(
                    f"--match-source-len: a document has {longest} tokens, but the models have positions only "
                    f"for summaries of {options.positions - 1} tokens (--truncate-source shortens documents)"
                )
            # As in fairseq, the limit is the same for all documents. The rule limit_to_source_length ends each summary
            # at the length of its source document.
            return [longest] * self.documents
        if options.max_len_per_document:
            tokens = self.source.count_tokens().tolist()
            begun = [1] * self.documents
            if prefix is not None:
                begun = (prefix.ne(special.pad) & prefix.ne(special.eos)).sum(1).clamp(min=1).tolist()
            most = [min(max(n - 1, begin), options.positions - 1) for n, begin in zip(tokens, begun)]
        else:
            tokens, most = [self.source.width] * self.documents, [options.positions - 1] * self.documents
        return [min(int(options.max_len_a * n + options.max_len), limit) for n, limit in zip(tokens, most)]

    def _convert_prefix(self, prefix: Tensor) -> Tensor:
        """Convert summary prefixes (B, T) to search ids, and check their lengths."""
        prefix = prefix if self.vocabulary is None else self.vocabulary.convert_to_search_ids(prefix)
        if self.options.exact_length:  # ignore end symbols, because only this option determines the length
            prefix = prefix.masked_fill(prefix.eq(self.special.eos), self.special.pad)
        words = (prefix.ne(self.special.pad) & prefix.ne(self.special.eos)).sum(1)
        for count, most in zip(words.tolist(), self.limits):
            if count > most:
                raise ValueError(
                    f"--prefix-size: a summary must begin with {count} tokens but has at most {most} (--max-len-b, "
                    "--max-len-a, --exact-length, --match-source-len)"
                )
        return prefix

    def run(self) -> Results:
        """Run the search.

        Returns a list of finished hypotheses for each document, sorted from best to worst. The tokens of hypotheses are
        dictionary ids.
        """
        options = self.options
        start = torch.full((self.documents, options.beam, 1), self.start, device=self.device)
        lprobs, attention = self.ensemble.score_next_words(start, first=True)
        # Words that can only be copied do not count, because their number depends on the other documents of the batch.
        slots = self.vocabulary and self.vocabulary.slots
        width = slots.softmax_width if slots is not None else lprobs.size(-1)
        beam = _compute_widest_beam(self.strategy, options.beam, width)
        longest = self.max_len + 1  # including the end symbol
        self.live = ActiveHypotheses(self.documents, beam, longest, self.start, self.device, options.keep_attention)
        by_score = options.early_stopping != "fairseq"
        self.done = FinishedHypotheses(self.documents, beam, longest, self.device, by_score)
        self.strategy.init_constraints(self.packed_constraints, beam)
        for step in range(longest):
            if step:
                lprobs, attention = self.ensemble.score_next_words(self.live.tokens[:, :, : step + 1], first=False)
            if not self._run_step(step, lprobs, attention):
                break
        results = self.done.collect_results()
        if self.vocabulary is not None:
            for document, hypotheses in enumerate(results):
                for hypothesis in hypotheses:
                    hypothesis["tokens"] = self.vocabulary.convert_to_dictionary_ids(hypothesis["tokens"], document)
        return results

    def _run_step(self, step: int, lprobs: Tensor, attention: Optional[Tensor]) -> bool:
        """Run a step with log-probabilities (B, beam, V) and attention (B, beam, S). Returns False after the last."""
        live, beam = self.live, self.live.beam
        self._apply_terms_and_rules(step, lprobs)
        cost = self._accumulate_attention_coverage(attention)
        extensions = self._select_extensions(step, lprobs, cost)  # (B, 2 * beam)
        ends = extensions.words.eq(self.special.eos) & extensions.selection_score.ne(-math.inf)
        ends[:, :beam] &= ~live.used_up
        # end symbols outside the best ``beam`` extensions are ignored
        ended_now = ends[:, :beam] & ~live.decided[:, None]
        if step == self.max_len:
            self._finish_hypotheses(step, extensions, ended_now, torch.ones_like(live.decided), cost)
            return False

        ends[:, :beam] |= live.used_up
        chosen = ends.int().argsort(dim=1, stable=True)[:, :beam]  # active hypotheses first, in their original order
        fillers = ends.gather(1, chosen)  # finished hypotheses fill the remaining beam slots
        parents, words = extensions.parents.gather(1, chosen), extensions.words.gather(1, chosen)
        log_probs = extensions.log_probs.gather(1, chosen)
        if self.options.early_stopping == "fairseq":
            live.used_up = fillers
            ended = words.eq(self.special.eos)
        else:
            ended = fillers
        # With these strategies, finished hypotheses cannot reappear in other slots of the beam.
        if not isinstance(self.strategy, (fairseq_search.Sampling, SamplingWithGreedyHypothesis)):
            log_probs = log_probs.masked_fill(ended, -math.inf)  # finished hypotheses have no continuation
        stuck = log_probs.amax(1).eq(-math.inf)
        self._finish_hypotheses(step, extensions, ended_now, stuck, cost)
        live.extend(step, parents, words, log_probs)
        self.strategy.update_constraints(chosen)
        cost = None if cost is None else gather_beams(cost, parents)
        if self.on_step is not None:
            scores = self.scoring.compute_final_scores(log_probs, step + 1, cost).masked_fill(fillers, -math.inf)
            read = attention, self.ensemble.get_mean_copy_distribution()
            self.on_step(find_best_hypotheses(step, live, self.done, scores, parents, read, self.vocabulary))
        live.decided = live.decided | stuck | self._find_decided_documents(step, log_probs, cost)
        return self._reorder_state(step, parents)

    def _find_unfinished_documents(self, step: int) -> Optional[Tensor]:
        """Return the rows (n,) of the documents that remain in the batch, or None if all documents remain."""
        if (step + 1) % self.steps_between_looks:
            return None
        left = ~self.live.decided
        if left.is_cpu and left.all():
            return None
        documents = left.nonzero().flatten()
        return None if len(documents) == len(left) else documents

    def _reorder_state(self, step: int, parents: Tensor) -> bool:
        """Reorder all states by ``parents`` (B, beam), and remove finished documents. Returns False if none is left."""
        documents = self._find_unfinished_documents(step)
        if documents is not None:
            if not len(documents):
                return False
            parents = parents[documents]
            self.live.keep_documents(documents)
            self.sample_ids = self.sample_ids[documents]
            self.source = self.source.select(documents)
            self.longest = self.longest[documents]
            self.terms = [term.select(documents) for term in self.terms]
            self.prefix = None if self.prefix is None else self.prefix[documents]
            self.constraints = None if self.constraints is None else self.constraints[documents]
            self.strategy.prune_sentences(documents)
        self.ensemble.reorder(parents, documents, self.live.beam, first=step == 0)
        for term in self.terms:
            term.reorder(parents if step else torch.zeros_like(parents))  # in the first step, there is only one beam
        return True

    def _apply_terms_and_rules(self, number: int, lprobs: Tensor) -> None:
        """Add the scores of the terms to the log-probabilities (B, beam, V) in place, and then apply the rules."""
        for term in self.terms:
            term.add_to(lprobs, self.live.tokens[:, : lprobs.size(1), : number + 1])
        dictated: Optional[Tensor] = None
        if self.prefix is not None and number < min(self.prefix.size(1), self.max_len):
            dictated = self.prefix[:, number]
        inputs = self.live, self.source, self.longest, self.special, dictated
        step = SearchStep(number, lprobs, *inputs, self.ensemble.decided_against, self.constraints)
        for rule in self.rules:
            rule(step)

    def _accumulate_attention_coverage(self, attention: Optional[Tensor]) -> Optional[Tensor]:
        """Add the attention (B, beam, S) to the coverage. Returns its cost (B, beam), or None without a penalty."""
        live = self.live
        if attention is not None and self.options.keep_attention:
            self.done.record_attention(live.batch_rows, attention)
        if not self.options.coverage_penalty:
            return None
        padding = self.source.padding
        if attention is None or padding is None or attention.size(-1) != padding.size(1):
            raise ValueError("--coverage-penalty: the model returns no attention to the source tokens")
        attention = attention.expand(-1, live.beam, -1)  # in the first step, there is only one beam
        live.coverage = attention.contiguous() if live.coverage is None else live.coverage + attention
        options = self.options
        return coverage_penalty(live.coverage, options.coverage_penalty, options.coverage_penalty_type, padding)

    def _select_extensions(self, step: int, lprobs: Tensor, cost: Optional[Tensor]) -> Extensions:
        """Select the best extensions for each document, given log-probabilities (B, beam or 1, V)."""
        if not lprobs.is_cpu:  # on a GPU, another pass is faster than a synchronisation
            lprobs.masked_fill_(lprobs.isnan(), -math.inf)
            return self._select_extensions_unchecked(step, lprobs, cost)
        selected = self._select_extensions_unchecked(step, lprobs, cost)
        if selected.selection_score.isnan().any():  # topk would select NaN as the largest value
            lprobs.masked_fill_(lprobs.isnan(), -math.inf)
            selected = self._select_extensions_unchecked(step, lprobs, cost)
        return selected

    def _select_extensions_unchecked(self, step: int, lprobs: Tensor, cost: Optional[Tensor]) -> Extensions:
        live, beam = self.live, self.live.beam
        if getattr(self.strategy, "needs_src_lengths", False):
            self.strategy.set_src_lengths(self.source.lengths)
        if not self.is_plain:
            words_so_far = live.tokens[:, :, : step + 1].flatten(0, 1)
            lprobs = lprobs.expand(-1, beam, -1).contiguous()  # the first step is computed for only one beam
            sums = live.log_probs[:, :, :step]
            scores, words, parents = self.strategy.step(step, lprobs, sums, words_so_far, self.sample_ids)
            return Extensions(scores, scores, words, parents)
        before = live.log_probs[:, :, step - 1] if step else torch.zeros_like(live.log_probs[:, :1, 0])
        stepwise = cost if self.options.stepwise_coverage_penalty else None
        stepwise = None if stepwise is None else stepwise[:, : lprobs.size(1)]
        most = (beam if step else 1) * lprobs.size(2) - 1
        k = min(2 * beam, most)  # twice the beam size, because half of the extensions may end
        if not (self.options.recombine and step):
            return find_best_extensions(lprobs, before, k, stepwise)
        best = partial(find_best_extensions, lprobs, before, coverage_cost=stepwise)
        tokens, words = live.tokens[:, :, : step + 1], self.options.recombine
        return recombine_extensions(best, tokens, words, self.special.eos, k, most)

    def _finish_hypotheses(
        self, step: int, extensions: Extensions, ends: Tensor, stuck: Tensor, cost: Optional[Tensor]
    ) -> None:
        """Finish the extensions that end (B, beam), or one with the score -inf for a document (B,) that is stuck."""
        # ``cost`` (B, beam) includes the attention of this step, and is indexed by parent, not by extension
        on_cpu = ends.is_cpu  # on a GPU, processing all documents is faster than synchronising
        if on_cpu and not (ends.any() or stuck.any()):
            return
        live, beam = self.live, ends.size(1)
        unanswered = stuck & ~ends.any(1) & self.done.count_finished(live.batch_rows).eq(0)
        ends = torch.cat([ends[:, :1] | unanswered[:, None], ends[:, 1:]], dim=1)
        documents = ends.any(1).nonzero().flatten() if on_cpu else torch.arange(len(ends), device=ends.device)
        if not len(documents):
            return
        parents = extensions.parents[documents, :beam]
        log_probs = extensions.log_probs[documents, :beam].masked_fill(unanswered[documents, None], -math.inf)
        score = self.scoring.compute_final_scores(
            log_probs, step + 1, None if cost is None else gather_beams(cost[documents], parents)
        )
        end = torch.full_like(parents, self.special.eos).unsqueeze(2)
        words = gather_beams(live.tokens[documents, :, 1 : step + 1], parents)
        sums = gather_beams(live.log_probs[documents, :, :step], parents)
        ancestors: Optional[Tensor] = None
        if live.ancestors is not None:
            earlier = gather_beams(live.ancestors[documents, :, :step], parents)
            ancestors = torch.cat([earlier, parents.unsqueeze(2)], dim=2)
        self.done.add(
            live.batch_rows[documents],
            ends[documents],
            score,
            torch.cat([words, end], dim=2),
            torch.cat([sums, log_probs.unsqueeze(2)], dim=2),
            ancestors,
        )

    def _find_decided_documents(self, step: int, log_probs: Tensor, cost: Optional[Tensor]) -> Tensor:
        """Return a mask (B,) of the documents that need no further step, from log P and coverage costs (B, beam)."""
        options, live = self.options, self.live
        if options.early_stopping == "fairseq":
            return self.done.count_finished(live.batch_rows) >= live.beam
        worst = self.done.score[live.batch_rows, min(options.nbest, live.beam) - 1]
        lengths = None if self.source.padding is None else self.source.count_tokens()
        gain = max(0.0, -options.unkpen) + compute_largest_gain(self.terms)
        longest: Union[int, Tensor] = step + 2
        if options.early_stopping == "admissible":
            longest = self.max_len + 1 if self.same_length else (self.longest + 1).clamp(min=step + 2)
        bound = self.scoring.compute_upper_bound(log_probs, step + 2, longest, cost, lengths, gain)
        return worst >= bound.amax(1)


def _compute_widest_beam(strategy: Any, beam: int, width: int) -> int:
    """Return the largest possible beam size, up to ``beam``, for distributions over V = ``width`` words."""
    beam = min(beam, width - 1)  # the padding symbol is never chosen
    if isinstance(strategy, (fairseq_search.LexicallyConstrainedBeamSearch, fairseq_search.DiverseSiblingsSearch)):
        beam = min(beam, (width - 1) // 2)  # these two strategies select 2 * beam words from a single hypothesis
    if isinstance(strategy, fairseq_search.DiverseBeamSearch):
        beam -= beam % strategy.num_groups
    return max(1, beam)
