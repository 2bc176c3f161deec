"""One search over one batch: what :class:`fairseq_etads.generation.SummaryGenerator` does, step by step."""

import math
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from fairseq import search as fairseq_search
from fairseq.token_generation_constraints import pack_constraints, unpack_constraints
from torch import Tensor, nn

from ..layers.capabilities import decoder_capabilities
from ..vocabulary.output import OutputVocabulary
from .ensemble import Ensemble
from .hypotheses import Finished, Living, take_beams
from .penalties import Scoring

if TYPE_CHECKING:
    from ..generation import SummaryGenerator


class Source(NamedTuple):
    """What the search must know of the documents."""

    padding: Optional[Tensor]  # (B, S), True at padding; None if the source is not tokens
    lengths: Tensor  # (B,), as fairseq counts them
    width: int  # S


class Candidates(NamedTuple):
    """Extensions of living hypotheses, (B, k) each, best first."""

    rank: Tensor  # what they were chosen by
    log_probs: Tensor
    words: Tensor
    beams: Tensor  # the beam that is extended


def describe_source(net_input: Dict[str, Tensor], eos: int, pad: int) -> Source:
    """Read padding and lengths from a batch, which may also be speech, as with fairseq."""
    if "src_tokens" in net_input:
        tokens = net_input["src_tokens"]
        padding = tokens.eq(pad) if tokens.dim() == 2 else None
        lengths = net_input.get("src_lengths")
        if lengths is None:
            lengths = (tokens.ne(eos) & tokens.ne(pad)).long().sum(dim=1)
        return Source(padding, lengths, tokens.size(1))
    for name in ("source", "features"):
        if name in net_input:
            frames, padding = net_input[name], net_input["padding_mask"]
            count = frames.new_full((len(frames),), frames.size(-1), dtype=torch.long)
            return Source(None, count if padding is None else padding.size(-1) - padding.sum(-1), frames.size(1))
    raise ValueError(f"expected src_tokens, source or features in net_input, which has {', '.join(net_input)}")


TOP_BLOCK = 128
"""Width of the blocks in which :func:`top_values` looks; narrow distributions are searched at once."""


def top_values(x: Tensor, k: int, offset: Tensor) -> Tuple[Tensor, Tensor]:
    """``(x + offset).flatten(1).topk(k)``: values and flat indices (B, k), best first, without ever holding the sum.

    Args:
        x: (B, beam, V). offset: (B, beam, 1).

    The k best are in the k blocks with the best maxima. Finding maxima is several times faster than sorting, so in a
    large vocabulary the blocks are found first.
    """
    documents, beam, width = x.shape
    blocks = width // TOP_BLOCK
    if blocks * beam < 8 * k:
        return (x + offset).flatten(1).topk(k)
    body = x[..., : blocks * TOP_BLOCK].unflatten(2, (blocks, TOP_BLOCK))
    best = (body.amax(3) + offset).flatten(1).topk(k).indices  # (B, k) of beam * blocks
    origin = (best // blocks) * width + (best % blocks) * TOP_BLOCK
    rest = torch.arange(blocks * TOP_BLOCK, width, device=x.device)
    rest = (torch.arange(beam, device=x.device).unsqueeze(1) * width + rest).flatten().expand(documents, -1)
    within = torch.arange(TOP_BLOCK, device=x.device)
    index = torch.cat([(origin.unsqueeze(2) + within).flatten(1), rest], dim=1)
    values = x.flatten(1).gather(1, index) + offset.flatten(1).gather(1, index // width)
    values, order = values.topk(k)
    return values, index.gather(1, order)


class BeamSearch:
    """One batch.

    Args:
        options: the generator, read only.
        models: the ensemble, in evaluation mode.
        sample, prefix_tokens, constraints, bos_token: see ``SummaryGenerator.generate``.

    Raises:
        ValueError: an option does not fit this batch or these models.
    """

    def __init__(
        self,
        options: "SummaryGenerator",
        models: List[nn.Module],
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor],
        constraints: Optional[Tensor],
        bos_token: Optional[int],
    ):
        self.options: Any = options
        self.scoring: Scoring = options.scoring
        net_input = sample["net_input"]
        self.source = describe_source(net_input, options.eos, options.pad)
        self.documents = len(self.source.lengths)
        self.device = self.source.lengths.device
        self.min_len, self.max_len = self._length_limits()
        self.start = options.eos if bos_token is None else bos_token
        self.search = options.search
        if constraints is not None and not self.search.supports_constraints:
            raise NotImplementedError(f"{type(self.search).__name__} does not support constraints on the summary")
        self.constraints = constraints
        ids = sample.get("id")
        # DiverseBeamSearch takes the numbers for rows of a table with a row for each document of the batch
        numbers = isinstance(self.search, fairseq_search.DiverseBeamSearch) or not isinstance(ids, Tensor)
        self.ids: Tensor = torch.arange(self.documents, device=self.device)
        if not numbers and ids is not None:
            self.ids = ids
        self.ensemble = Ensemble(models, net_input, self.documents, options.beam_size, options.temperature)
        self.vocabulary = self._output_vocabulary(models, net_input)
        self.prefix = prefix_tokens
        if prefix_tokens is not None and self.vocabulary is not None:
            self.prefix = self.vocabulary.extended_ids(prefix_tokens)
        if constraints is not None and any(decoder_capabilities(model).large_vocabulary_trick for model in models):
            raise NotImplementedError(
                "--constraints: a model with --large-vocabulary-trick cannot be made to use a word"
            )
        if constraints is not None and self.vocabulary is not None:
            documents = [self.vocabulary.select(self.ids.new_tensor([row])) for row in range(self.documents)]
            encoded = [
                [document.extended_ids(words[None])[0] for words in unpack_constraints(row)]
                for row, document in zip(constraints, documents)
            ]
            self.constraints = pack_constraints(encoded).to(constraints)

    @staticmethod
    def _output_vocabulary(models: List[nn.Module], net_input: Dict[str, Tensor]) -> Optional[OutputVocabulary]:
        """The words of the ensemble's distributions: with the documents' own if one of the models has a pointer."""
        able: List[Any] = [model for model in models if decoder_capabilities(model).has_output_vocabulary]
        able.sort(key=lambda model: decoder_capabilities(model).pointer is None)
        return able[0].decoder.output_vocabulary(net_input["src_tokens"]) if able else None

    def decode_words(self, results: List[List[Dict[str, Tensor]]]) -> List[List[Dict[str, Tensor]]]:
        """Extended ids to those of the dictionary, in the hypotheses' "tokens"."""
        if self.vocabulary is not None:
            for document, hypotheses in enumerate(results):
                for hypothesis in hypotheses:
                    hypothesis["tokens"] = self.vocabulary.dictionary_ids(hypothesis["tokens"], document)
        return results

    def _length_limits(self) -> Tuple[int, int]:
        """Fewest and most tokens before the end symbol."""
        o = self.options
        if o.exact_length:
            return o.exact_length, o.exact_length
        longest = min(int(o.max_len_a * self.source.width + o.max_len_b), o.max_len - 1)
        if o.match_source_len:
            longest = int(self.source.lengths.max())
        if o.min_len > longest:
            raise ValueError(
                f"--min-len {o.min_len} is more than the longest summary allowed here, {longest} tokens "
                "(--max-len-a, --max-len-b and the model's positions)"
            )
        return o.min_len, longest

    def run(self) -> List[List[Dict[str, Tensor]]]:
        """The finished hypotheses of each document, best first."""
        start = torch.full((self.documents, self.options.beam_size, 1), self.start, device=self.device)
        lprobs, attention = self.ensemble.step(start, first=True)
        beam = max(1, min(self.options.beam_size, lprobs.size(-1) - 1))  # the padding symbol is never chosen
        self.live = Living(self.documents, beam, self.max_len + 1, self.start, self.device, self.options.keep_attention)
        by_score = self.options.early_stopping == "admissible"
        self.done = Finished(self.documents, beam, self.max_len + 1, self.device, by_score)
        self.search.init_constraints(self.constraints, beam)
        for step in range(self.max_len + 1):
            if step:
                lprobs, attention = self.ensemble.step(self.live.tokens[:, :, : step + 1], first=False)
            if not self._advance(step, lprobs, attention):
                break
        return self.decode_words(self.done.results())

    def _advance(self, step: int, lprobs: Tensor, attention: Optional[Tensor]) -> bool:
        """One step of the search; False when no document is left.

        Args:
            lprobs: (B, beam, V), changed in place. attention: (B, beam, S). beam is 1 in the first step.
        """
        live, beam = self.live, self.live.beam
        self._adjust(step, lprobs)
        cost = self._cover(attention)
        candidates = self._candidates(step, lprobs, cost)
        ends = candidates.words.eq(self.options.eos) & candidates.rank.ne(-math.inf)
        ends[:, :beam] &= ~live.ignored
        self._finish(step, candidates, ends[:, :beam], cost)
        if step == self.max_len:
            self._finish_stuck(step, candidates, torch.ones_like(live.original, dtype=torch.bool))
            return False

        ends[:, :beam] |= live.ignored
        order = torch.arange(ends.size(1), device=self.device) + ends * ends.size(1)
        order, active = order.topk(beam, dim=1, largest=False)
        parents, words = candidates.beams.gather(1, active), candidates.words.gather(1, active)
        log_probs = candidates.log_probs.gather(1, active)
        overflow = order.ge(ends.size(1))
        if self.options.early_stopping == "fairseq":
            live.ignored = overflow
        else:
            log_probs = log_probs.masked_fill(overflow, -math.inf)  # ended already, and only here to fill the beam
        live.extend(step, parents, words, log_probs)
        self.search.update_constraints(active)

        stuck = log_probs.amax(1).eq(-math.inf)
        self._finish_stuck(step, candidates, stuck)
        left = ~(stuck | self._decided(step, log_probs, None if cost is None else take_beams(cost, parents)))
        return self._continue(step, parents, left)

    def _continue(self, step: int, parents: Tensor, left: Tensor) -> bool:
        """Tell the models who continues whom; finished documents leave the batch. False if none is left."""
        documents: Optional[Tensor] = None
        if not left.all():
            documents = left.nonzero().flatten()
            if not len(documents):
                return False
            self.live.keep(documents)
            parents = parents[documents]
            self.ids = self.ids[documents]
            padding, lengths, width = self.source
            self.source = Source(None if padding is None else padding[documents], lengths[documents], width)
            self.prefix = None if self.prefix is None else self.prefix[documents]
            self.search.prune_sentences(documents)
        self.ensemble.reorder(parents, documents, self.live.beam, first=step == 0)
        return True

    def _adjust(self, step: int, lprobs: Tensor) -> None:
        """Forbid and force words, in fairseq's order; lprobs (B, beam, V), in place."""
        o = self.options
        if o.lm_model is not None:
            self._add_language_model(step, lprobs)
        lprobs[..., o.pad] = -math.inf
        unknown = lprobs[..., o.unk].clone()
        if o.unk_penalty:
            lprobs[..., o.unk] -= o.unk_penalty
        if step >= self.max_len:
            end = lprobs[..., o.eos].clone()
            lprobs.fill_(-math.inf)
            # where the length is given, ending is not the model's choice and says nothing about the summary
            lprobs[..., o.eos] = 0.0 if o.exact_length else end
        exempt: Optional[Tensor] = None
        if self.prefix is not None and step < min(self.prefix.size(1), self.max_len):
            exempt = self._force_prefix(step, lprobs, unknown)
        else:
            if step < self.min_len:
                lprobs[..., o.eos] = -math.inf
            if o.suppressed:
                lprobs[..., o.suppressed] = -math.inf
        if o.blocker is not None and 0 < step < self.max_len:
            rows = None if exempt is None else exempt.repeat_interleave(lprobs.size(1))
            o.blocker(self.live.tokens[:, :, 1 : step + 1].flatten(0, 1), lprobs.flatten(0, 1), rows)
        if self.search_sets_lengths:
            self.search.set_src_lengths(self.source.lengths)

    @property
    def search_sets_lengths(self) -> bool:
        return bool(getattr(self.search, "needs_src_lengths", False))

    def _add_language_model(self, step: int, lprobs: Tensor) -> None:
        model = self.options.lm_model
        assert model is not None
        documents, beam, width = lprobs.shape
        out = model(self.live.tokens[:, :beam, : step + 1].flatten(0, 1))
        words = model.get_normalized_probs(out, log_probs=True, sample=None)[:, -1].view(documents, beam, -1)
        known = min(width, words.size(-1))
        lprobs[..., :known] += words[..., :known] * self.options.lm_weight

    def _force_prefix(self, step: int, lprobs: Tensor, unknown: Tensor) -> Tensor:
        """Leave only the prefix's word; returns which documents (B,) had one.

        A word that cannot be chosen, because it is not on the document's list (--large-vocabulary-trick) or because it
        is the unknown word and that is forbidden, is as likely as the unknown word was: ``unknown`` (B, beam).
        """
        assert self.prefix is not None
        word = self.prefix[:, step]
        forced = word.ne(self.options.pad)
        index = word[:, None, None].expand(-1, lprobs.size(1), -1)
        scores = lprobs.gather(2, index)
        scores = torch.where(scores.isneginf(), unknown[:, :, None], scores)
        only = torch.full_like(lprobs, -math.inf).scatter_(2, index, scores)
        lprobs[forced] = only[forced]
        ended = word.eq(self.options.eos)
        if ended.any():
            # the whole beam ends as its first hypothesis, the only one that has kept to the prefix
            first = torch.zeros_like(self.live.ignored, dtype=torch.long)[ended]
            for x in (lprobs, self.live.tokens, self.live.log_probs):
                x[ended] = take_beams(x[ended], first[:, : x.size(1)])
        return forced

    def _cover(self, attention: Optional[Tensor]) -> Optional[Tensor]:
        """Take in the attention (B, beam, S) of this step; returns the coverage cost (B, beam) so far, or None."""
        live = self.live
        if attention is not None and self.options.keep_attention:
            self.done.watch(live.original, attention)
        if not self.scoring.coverage_penalty:
            return None
        padding = self.source.padding
        if attention is None or padding is None or attention.size(-1) != padding.size(1):
            raise ValueError("--coverage-penalty: the model returns no attention to the source's tokens")
        attention = attention.expand(-1, live.beam, -1)
        live.coverage = attention.contiguous() if live.coverage is None else live.coverage + attention
        return self.scoring.coverage_cost(live.coverage, padding)

    def _candidates(self, step: int, lprobs: Tensor, cost: Optional[Tensor]) -> Candidates:
        """The best extensions; lprobs (B, beam or 1, V)."""
        found = self._rank(step, lprobs, cost)
        if found.rank.isnan().any():  # NaN counts as the largest number, so that it is always among the best
            lprobs.masked_fill_(lprobs.isnan(), -math.inf)
            found = self._rank(step, lprobs, cost)
        return found

    def _rank(self, step: int, lprobs: Tensor, cost: Optional[Tensor]) -> Candidates:
        live, beam = self.live, self.live.beam
        before = live.log_probs[:, :, step - 1] if step else torch.zeros_like(live.log_probs[:, :1, 0])
        if type(self.search) is not fairseq_search.BeamSearch:
            words = live.tokens[:, :, : step + 1].flatten(0, 1)
            lprobs = lprobs.expand(-1, beam, -1).contiguous()  # in the first step, for all beams
            rank, words, beams = self.search.step(step, lprobs, live.log_probs[:, :, :step], words, self.ids)
            return Candidates(rank, rank, words, beams)
        stepwise = self.scoring.stepwise_coverage_penalty and cost is not None
        offset = before - cost[:, : lprobs.size(1)] if stepwise and cost is not None else before
        width = lprobs.size(2)
        k = min(2 * beam, (beam if step else 1) * width - 1)  # twice the beam, as half of them may end
        rank, index = top_values(lprobs, k, offset.unsqueeze(2))
        log_probs = rank
        if stepwise:
            log_probs = lprobs.flatten(1).gather(1, index) + before.gather(1, index // width)
            log_probs = log_probs.masked_fill(rank.eq(-math.inf), -math.inf)
        return Candidates(rank, log_probs, index % width, index // width)

    def _finish(self, step: int, candidates: Candidates, ends: Tensor, cost: Optional[Tensor]) -> None:
        """Put the candidates that end (B, beam) among the finished hypotheses."""
        documents = ends.any(1).nonzero().flatten()
        if not len(documents):
            return
        live, beam = self.live, ends.size(1)
        parents = candidates.beams[documents, :beam]
        log_probs = candidates.log_probs[documents, :beam]
        score = self.scoring.final(log_probs, step + 1, None if cost is None else take_beams(cost[documents], parents))
        if self.options.match_source_len:
            score = score.masked_fill(self.source.lengths[documents, None].lt(step), -math.inf)
        end = torch.full_like(parents, self.options.eos).unsqueeze(2)
        words = take_beams(live.tokens[documents, :, 1 : step + 1], parents)
        sums = take_beams(live.log_probs[documents, :, :step], parents)
        slots = None
        if live.slots is not None:
            slots = torch.cat([take_beams(live.slots[documents, :, :step], parents), parents.unsqueeze(2)], dim=2)
        self.done.add(
            live.original[documents],
            ends[documents],
            score,
            torch.cat([words, end], dim=2),
            torch.cat([sums, log_probs.unsqueeze(2)], dim=2),
            slots,
        )

    def _finish_stuck(self, step: int, candidates: Candidates, stuck: Tensor) -> None:
        """Documents (B,) that cannot go on and have no hypothesis get one, of score -inf: an answer for each."""
        stuck = stuck & self.done.count(self.live.original).eq(0)
        if stuck.any():
            ends = torch.zeros_like(self.live.ignored)
            ends[stuck, 0] = True
            nothing = candidates._replace(log_probs=torch.full_like(candidates.log_probs, -math.inf))
            self._finish(step, nothing, ends, None)

    def _decided(self, step: int, log_probs: Tensor, cost: Optional[Tensor]) -> Tensor:
        """Which documents (B,) need no step more; log_probs and cost (B, beam) are of those that would go on."""
        options, live = self.options, self.live
        if options.early_stopping == "fairseq":
            return self.done.count(live.original) >= live.beam
        worst = self.done.score[live.original, min(options.nbest, live.beam) - 1]
        lengths = None if self.source.padding is None else (~self.source.padding).sum(1)
        gain = max(0.0, -options.unk_penalty)
        bound = self.scoring.bound(log_probs, step + 2, self.max_len + 1, cost, lengths, gain)
        return worst >= bound.amax(1)
