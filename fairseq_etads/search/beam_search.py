"""One beam search over one batch, step by step.

Results are fairseq's as long as no option of this project is used: order of operations and ties follow its search.
"""

import math
from typing import Any, Dict, List, Optional, Tuple

import torch
from fairseq import search as fairseq_search
from torch import Tensor, nn

from ..systems.abs.features import ExtractiveFeatures, is_of_release
from ..vocabulary.shortlist import Shortlist
from .blocking import NGramBlocker
from .encoded import EncodedBatch
from .ensemble import Ensemble, output_vocabulary
from .extensions import Extensions, best_extensions
from .hypotheses import Finished, Living, Results, take_beams
from .language_model import LanguageModel
from .progress import OnStep, Reading, best_so_far
from .recombination import recombined
from .settings import SearchSettings, SpecialTokens, check_least_length, selection_of
from .shortlisting import batch_candidates, in_columns
from .source import Source
from .strategies import extended_constraints, for_one_search, widest_beam


class BeamSearch:
    """The search over one batch of B documents.

    Inside, words have search ids (see :mod:`fairseq_etads.vocabulary.output`); V is the width of the models'
    distributions.

    Args:
        settings: resolved for these models (:meth:`SearchSettings.resolved`).
        special: the ids that go with them.
        strategy: fairseq's search object, which selects extensions; it is left as it is.
        models: the ensemble, in evaluation mode.
        language_model: its log-probabilities are added to the ensemble's, or None; in evaluation mode.
        dictionary: the target's, for messages.
        sample, prefix_tokens, constraints, bos_token, encoded, on_step: see ``SummaryGenerator.generate``.
        shortlist: what words there are for a document; None: all.

    Attributes:
        candidates: the words of the softmax with a shortlist; otherwise None.

    Raises:
        ValueError: an option does not fit this batch or these models.
        NotImplementedError: constraints, which the strategy or a model does not support.
    """

    def __init__(
        self,
        settings: SearchSettings,
        special: SpecialTokens,
        strategy: Any,
        models: List[nn.Module],
        language_model: Optional[Any],
        dictionary: Any,
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor],
        constraints: Optional[Tensor],
        bos_token: Optional[int],
        encoded: Optional[EncodedBatch] = None,
        on_step: Optional[OnStep] = None,
        shortlist: Optional[Shortlist] = None,
    ):
        self.on_step = on_step
        self.settings, self.scoring, self.special = settings, settings.scoring, special
        net_input = sample["net_input"]
        self.source = Source.of(net_input, special.eos, special.pad)
        self.documents, self.device = len(self.source.lengths), self.source.lengths.device
        self.min_len, self.max_len = self._length_limits()
        self.start = special.eos if bos_token is None else bos_token
        self.candidates = batch_candidates(
            shortlist, net_input, prefix_tokens, constraints, special, self.start, settings.beam_size
        )
        self.ensemble = Ensemble(
            models, net_input, self.documents, settings.beam_size, settings.temperature, encoded,
            selection_of(sample, settings), self.candidates,
        )  # fmt: skip
        self.vocabulary = output_vocabulary(models, net_input, self.candidates)
        self.special, self.start = in_columns(special, self.start, self.candidates)
        self.language_model: Optional[LanguageModel] = None
        if language_model is not None and settings.lm_weight:
            self.language_model = LanguageModel(language_model, settings.lm_weight, self.vocabulary)
        self.features: Optional[ExtractiveFeatures] = None
        if settings.extractive_weights:
            self.features = ExtractiveFeatures.of(net_input, settings.extractive_weights, self.vocabulary, dictionary)
        self.prefix = None if prefix_tokens is None else self._checked_prefix(prefix_tokens)
        self.sample_ids = torch.arange(self.documents, device=self.device)
        ids = sample.get("id")
        numbers = ids.tolist() if isinstance(ids, Tensor) else range(self.documents)
        self.strategy = for_one_search(strategy, self.vocabulary, numbers)
        self.constraints = extended_constraints(
            constraints, strategy, self.vocabulary, dictionary, special, self.max_len,
            unknown_allowed=settings.unk_penalty < math.inf,
        )  # fmt: skip
        self.blocker: Optional[NGramBlocker] = None
        if settings.no_repeat_ngram_size:
            self.blocker = NGramBlocker(settings.no_repeat_ngram_size, self.special.may_repeat)

    def _length_limits(self) -> Tuple[int, int]:
        """Fewest and most tokens before the end symbol."""
        settings = self.settings
        if settings.exact_length:
            return settings.exact_length, settings.exact_length
        if settings.match_source_len:
            longest = int(self.source.lengths.max())
            if longest >= settings.max_len:
                raise ValueError(
                    f"--match-source-len: a document has {longest} tokens, and the models have positions for summaries "
                    f"of {settings.max_len - 1} (--truncate-source reads fewer)"
                )
            return settings.min_len, longest
        longest = min(int(settings.max_len_a * self.source.width + settings.max_len_b), settings.max_len - 1)
        check_least_length(settings.min_len, longest)
        return settings.min_len, longest

    def _checked_prefix(self, prefix: Tensor) -> Tensor:
        """The words that summaries must begin with, (B, T), as search ids."""
        prefix = prefix if self.vocabulary is None else self.vocabulary.search_ids(prefix)
        if self.settings.exact_length:  # which alone says where a summary ends
            prefix = prefix.masked_fill(prefix.eq(self.special.eos), self.special.pad)
        words = prefix.ne(self.special.pad) & prefix.ne(self.special.eos)
        longest = int(words.sum(1).max()) if words.numel() else 0
        if longest > self.max_len:
            raise ValueError(
                f"--prefix-size: a summary must begin with {longest} tokens and has at most {self.max_len} "
                "(--max-len-a, --max-len-b, --exact-length, --match-source-len)"
            )
        return prefix

    def run(self) -> Results:
        """The finished hypotheses of each document, best first, with ids of the dictionary."""
        settings = self.settings
        start = torch.full((self.documents, settings.beam_size, 1), self.start, device=self.device)
        lprobs, attention = self.ensemble.step(start, first=True)
        beam = widest_beam(self.strategy, settings.beam_size, lprobs.size(-1))
        longest = self.max_len + 1  # with the end symbol
        self.live = Living(self.documents, beam, longest, self.start, self.device, settings.keep_attention)
        by_score = settings.early_stopping != "fairseq"
        self.done = Finished(self.documents, beam, longest, self.device, by_score)
        self.strategy.init_constraints(self.constraints, beam)
        for step in range(longest):
            if step:
                lprobs, attention = self.ensemble.step(self.live.tokens[:, :, : step + 1], first=False)
            if not self._advance(step, lprobs, attention):
                break
        results = self.done.results()
        if self.vocabulary is not None:
            for document, hypotheses in enumerate(results):
                for hypothesis in hypotheses:
                    hypothesis["tokens"] = self.vocabulary.dictionary_ids(hypothesis["tokens"], document)
        return results

    def _advance(self, step: int, lprobs: Tensor, attention: Optional[Tensor]) -> bool:
        """One step of the search; False when no document is left.

        Args:
            lprobs: (B, beam, V), changed in place. attention: (B, beam, S). beam is 1 in the first step.
        """
        live, beam = self.live, self.live.beam
        self._forbid_and_force(step, lprobs)
        cost = self._add_coverage(attention)
        extensions = self._select(step, lprobs, cost)  # (B, 2 * beam)
        ends = extensions.words.eq(self.special.eos) & extensions.selection_score.ne(-math.inf)
        ends[:, :beam] &= ~live.used_up
        self._finish(step, extensions, ends[:, :beam], cost)  # an end that is not among the best is not taken
        if step == self.max_len:
            self._answer_unanswered(step, extensions, torch.ones_like(live.batch_rows, dtype=torch.bool))
            return False

        ends[:, :beam] |= live.used_up
        chosen = ends.int().argsort(dim=1, stable=True)[:, :beam]  # living hypotheses first, in order
        fillers = ends.gather(1, chosen)  # hypotheses that have ended, where fewer than beam are living
        parents, words = extensions.parents.gather(1, chosen), extensions.words.gather(1, chosen)
        log_probs = extensions.log_probs.gather(1, chosen)
        if self.settings.early_stopping == "fairseq":
            live.used_up = fillers
        else:
            log_probs = log_probs.masked_fill(fillers, -math.inf)
        stuck = log_probs.amax(1).eq(-math.inf)
        self._answer_unanswered(step, extensions, stuck)
        live.extend(step, parents, words, log_probs)
        self.strategy.update_constraints(chosen)
        cost = None if cost is None else take_beams(cost, parents)
        if self.on_step is not None:
            scores = self.scoring.final(log_probs, step + 1, cost).masked_fill(fillers, -math.inf)
            read = Reading(attention, self.ensemble.copying())
            self.on_step(best_so_far(step, live, self.done, scores, parents, read, self.vocabulary))
        left = ~(stuck | self._is_decided(step, log_probs, cost))
        return self._continue(step, parents, left)

    def _continue(self, step: int, parents: Tensor, left: Tensor) -> bool:
        """Tell the models which hypotheses go on; False if no document is left.

        Args:
            parents: (B, beam), the beams that are continued. left: (B,), which documents stay in the batch.
        """
        documents: Optional[Tensor] = None
        if not left.all():
            documents = left.nonzero().flatten()
            if not len(documents):
                return False
            parents = parents[documents]
            self.live.keep_documents(documents)
            self.sample_ids = self.sample_ids[documents]
            self.source = self.source.select(documents)
            self.features = None if self.features is None else self.features.select(documents)
            self.prefix = None if self.prefix is None else self.prefix[documents]
            self.constraints = None if self.constraints is None else self.constraints[documents]
            self.strategy.prune_sentences(documents)
        self.ensemble.reorder(parents, documents, self.live.beam, first=step == 0)
        return True

    def _forbid_and_force(self, step: int, lprobs: Tensor) -> None:
        """Change the words' log-probabilities (B, beam, V) in place as the options want it, in fairseq's order."""
        settings, special = self.settings, self.special
        for more in (self.language_model, self.features):
            if more is not None:
                more.add_to(lprobs, self.live.tokens[:, : lprobs.size(1), : step + 1])
        lprobs[..., special.pad] = -math.inf
        unknown, end = lprobs[..., special.unk].clone(), lprobs[..., special.eos].clone()
        if settings.unk_penalty:
            lprobs[..., special.unk] -= settings.unk_penalty
        if step >= self.max_len:
            lprobs.fill_(-math.inf)
            # where the length is given, ending is not the model's choice and says nothing about the summary; the
            # release of ABS counts it
            is_free = settings.exact_length and not is_of_release(settings.extractive_weights)
            lprobs[..., special.eos] = 0.0 if is_free else end
        forced: Optional[Tensor] = None
        if self.prefix is not None and step < min(self.prefix.size(1), self.max_len):
            forced = self._force_prefix(self.prefix[:, step], lprobs, unknown)
        else:
            if step < self.min_len:
                lprobs[..., special.eos] = -math.inf
            if settings.min_sentences and step < self.max_len:
                begun = self._sentences(step)[:, : lprobs.size(1)]  # (B, beam), of a single beam in the first step
                lprobs[..., special.eos].masked_fill_(begun < settings.min_sentences, -math.inf)
            if special.suppressed:
                lprobs[..., special.suppressed] = -math.inf
        if settings.match_source_len:
            over = self.source.lengths.le(step)
            over = over if forced is None else over & ~forced
            lprobs[over] = -math.inf
            lprobs[..., special.eos] = torch.where(over.unsqueeze(1), end, lprobs[..., special.eos])
        if self.blocker is not None and 0 < step < self.max_len:
            exempt = None if forced is None else forced.repeat_interleave(lprobs.size(1))
            self.blocker(self.live.tokens[:, :, 1 : step + 1].flatten(0, 1), lprobs.flatten(0, 1), exempt)
        if self.ensemble.decided_against is not None:
            self._keep_to_decisions(lprobs, self.ensemble.decided_against)
        if getattr(self.strategy, "needs_src_lengths", False):
            self.strategy.set_src_lengths(self.source.lengths)

    def _sentences(self, step: int) -> Tensor:
        """How many sentences each hypothesis (B, beam) has begun: words behind a sentence mark, or the first one."""
        tokens = self.live.tokens[:, :, : step + 1].clone()  # (B, beam, step + 1), the start symbol first
        tokens[:, :, 0] = self.special.sentence_mark
        is_mark = tokens.eq(self.special.sentence_mark)
        return (is_mark[:, :, :-1] & ~is_mark[:, :, 1:]).sum(2)

    def _force_prefix(self, word: Tensor, lprobs: Tensor, unknown: Tensor) -> Tensor:
        """Leave only the prefix's word in lprobs (B, beam, V); returns which documents (B,) had one.

        Args:
            word: (B,), padding where a prefix is over.
            unknown: (B, beam), the unknown word's log-probability. A word that cannot be chosen gets it, because it is
                not on the document's list (--large-vocabulary-trick) or is the unknown word and that is forbidden.
        """
        forced = word.ne(self.special.pad)
        index = word[:, None, None].expand(-1, lprobs.size(1), -1)  # (B, beam, 1)
        scores = lprobs.gather(2, index)
        scores = torch.where(scores.isneginf(), unknown[:, :, None], scores)
        only = torch.full_like(lprobs, -math.inf).scatter_(2, index, scores)
        lprobs[forced] = only[forced]
        ended = word.eq(self.special.eos)
        if ended.any():
            # the whole beam ends as its first hypothesis, the only one that has kept to the prefix
            first = torch.zeros_like(self.live.used_up, dtype=torch.long)[ended]
            for x in (lprobs, self.live.tokens, self.live.log_probs):
                x[ended] = take_beams(x[ended], first[:, : x.size(1)])
        return forced

    def _keep_to_decisions(self, lprobs: Tensor, against: Tensor) -> None:
        """Forbid the words ``against`` (B, beam, V) which the models' switches decide, in lprobs (B, beam, V).

        A hypothesis that could then have no word at all (its end is forced, or every word of the document would repeat
        an n-gram) may have them nevertheless, and so may every hypothesis have the words that constraints require.
        """
        if self.constraints is not None:
            required = torch.zeros_like(against[:, 0]).scatter(1, self.constraints[:, 1:], True)  # (B, V)
            required[:, 0] = False  # fills and separates packed constraints
            against = against & ~required[:, None]
        none_left = lprobs.masked_fill(against, -math.inf).amax(dim=2, keepdim=True).eq(-math.inf)
        lprobs.masked_fill_(against & ~none_left, -math.inf)

    def _add_coverage(self, attention: Optional[Tensor]) -> Optional[Tensor]:
        """Add this step's attention (B, beam, S) to the coverage; returns the coverage cost (B, beam), or None."""
        live = self.live
        if attention is not None and self.settings.keep_attention:
            self.done.record_attention(live.batch_rows, attention)
        if not self.scoring.coverage_penalty:
            return None
        padding = self.source.padding
        if attention is None or padding is None or attention.size(-1) != padding.size(1):
            raise ValueError("--coverage-penalty: the model returns no attention to the source's tokens")
        attention = attention.expand(-1, live.beam, -1)  # there is one beam in the first step
        live.coverage = attention.contiguous() if live.coverage is None else live.coverage + attention
        return self.scoring.coverage_cost(live.coverage, padding)

    def _select(self, step: int, lprobs: Tensor, cost: Optional[Tensor]) -> Extensions:
        """The best extensions of each document; lprobs (B, beam or 1, V)."""
        selected = self._select_unchecked(step, lprobs, cost)
        if selected.selection_score.isnan().any():  # topk counts NaN as the largest number, so it would show up here
            lprobs.masked_fill_(lprobs.isnan(), -math.inf)
            selected = self._select_unchecked(step, lprobs, cost)
        return selected

    def _select_unchecked(self, step: int, lprobs: Tensor, cost: Optional[Tensor]) -> Extensions:
        live, beam = self.live, self.live.beam
        if type(self.strategy) is not fairseq_search.BeamSearch:
            words_so_far = live.tokens[:, :, : step + 1].flatten(0, 1)
            lprobs = lprobs.expand(-1, beam, -1).contiguous()  # in the first step, for all beams
            sums = live.log_probs[:, :, :step]
            scores, words, parents = self.strategy.step(step, lprobs, sums, words_so_far, self.sample_ids)
            return Extensions(scores, scores, words, parents)
        before = live.log_probs[:, :, step - 1] if step else torch.zeros_like(live.log_probs[:, :1, 0])
        stepwise = cost if self.scoring.stepwise_coverage_penalty else None
        stepwise = None if stepwise is None else stepwise[:, : lprobs.size(1)]
        most = (beam if step else 1) * lprobs.size(2) - 1
        k = min(2 * beam, most)  # twice the beam, as half of them may end
        if self.settings.recombine and step:
            tokens, words = live.tokens[:, :, : step + 1], self.settings.recombine
            return recombined(
                lambda count: best_extensions(lprobs, before, count, stepwise), tokens, words, self.special.eos, k, most
            )
        return best_extensions(lprobs, before, k, stepwise)

    def _finish(self, step: int, extensions: Extensions, ends: Tensor, cost: Optional[Tensor]) -> None:
        """Put the extensions that end (B, beam) among the finished hypotheses."""
        documents = ends.any(1).nonzero().flatten()
        if not len(documents):
            return
        live, beam = self.live, ends.size(1)
        parents = extensions.parents[documents, :beam]
        log_probs = extensions.log_probs[documents, :beam]
        score = self.scoring.final(log_probs, step + 1, None if cost is None else take_beams(cost[documents], parents))
        end = torch.full_like(parents, self.special.eos).unsqueeze(2)
        words = take_beams(live.tokens[documents, :, 1 : step + 1], parents)
        sums = take_beams(live.log_probs[documents, :, :step], parents)
        ancestors: Optional[Tensor] = None
        if live.ancestors is not None:
            earlier = take_beams(live.ancestors[documents, :, :step], parents)
            ancestors = torch.cat([earlier, parents.unsqueeze(2)], dim=2)
        self.done.add(
            live.batch_rows[documents],
            ends[documents],
            score,
            torch.cat([words, end], dim=2),
            torch.cat([sums, log_probs.unsqueeze(2)], dim=2),
            ancestors,
        )

    def _answer_unanswered(self, step: int, extensions: Extensions, stuck: Tensor) -> None:
        """Documents (B,) that cannot go on and have no hypothesis get one, of score -inf: an answer for each."""
        stuck = stuck & self.done.count(self.live.batch_rows).eq(0)
        if stuck.any():
            ends = torch.zeros_like(self.live.used_up)
            ends[stuck, 0] = True
            impossible = extensions._replace(log_probs=torch.full_like(extensions.log_probs, -math.inf))
            self._finish(step, impossible, ends, None)

    def _is_decided(self, step: int, log_probs: Tensor, cost: Optional[Tensor]) -> Tensor:
        """Which documents (B,) need no further step; log_probs and cost (B, beam) are of those that would go on."""
        settings, live = self.settings, self.live
        if settings.early_stopping == "fairseq":
            return self.done.count(live.batch_rows) >= live.beam
        worst = self.done.score[live.batch_rows, min(settings.nbest, live.beam) - 1]
        lengths = None if self.source.padding is None else (~self.source.padding).sum(1)
        gain = max(0.0, -settings.unk_penalty) + (0.0 if self.features is None else self.features.largest_gain)
        longest = self.max_len + 1 if settings.early_stopping == "admissible" else step + 2
        bound = self.scoring.bound(log_probs, step + 2, longest, cost, lengths, gain)
        return worst >= bound.amax(1)
