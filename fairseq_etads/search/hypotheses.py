"""Living and finished hypotheses of a batch, as tensors with a row per document."""

from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor


def take_beams(x: Tensor, parents: Tensor) -> Tensor:
    """(B, beam, …) and (B, beam') -> (B, beam', …): for each new beam, its parent's entry."""
    index = parents.view(*parents.shape, *(1,) * (x.dim() - 2)).expand(*parents.shape, *x.shape[2:])
    return x.gather(1, index)


class Living:
    """The hypotheses that the search still extends.

    Attributes:
        tokens: (B, beam, longest + 1), the start symbol first.
        log_probs: (B, beam, longest), log P of the first 1, 2, … words.
        slots: (B, beam, longest), which beam of each step the hypothesis descends from; None unless attention is kept.
        coverage: (B, beam, S) attention summed over the steps, or None.
        ignored: (B, beam), which ranks may not end a hypothesis any more: fairseq's beam has a place less for each
            hypothesis that has ended.
        original: (B,), which documents of the batch are left.
    """

    def __init__(self, documents: int, beam: int, longest: int, start: int, device: torch.device, keep_slots: bool):
        self.tokens = torch.full((documents, beam, longest + 1), start, device=device)
        self.log_probs = torch.zeros(documents, beam, longest, device=device)
        self.slots = torch.zeros(documents, beam, longest, dtype=torch.long, device=device) if keep_slots else None
        self.coverage: Optional[Tensor] = None
        self.ignored = torch.zeros(documents, beam, dtype=torch.bool, device=device)
        self.original = torch.arange(documents, device=device)

    @property
    def beam(self) -> int:
        return self.tokens.size(1)

    def extend(self, step: int, parents: Tensor, words: Tensor, log_probs: Tensor) -> None:
        """Each new beam (B, beam) continues ``parents`` with ``words``; ``log_probs`` are the new sums."""
        self.tokens = take_beams(self.tokens, parents)
        self.tokens[:, :, step + 1] = words
        self.log_probs = take_beams(self.log_probs, parents)
        self.log_probs[:, :, step] = log_probs
        if self.slots is not None:
            self.slots = take_beams(self.slots, parents)
            self.slots[:, :, step] = parents
        if self.coverage is not None:
            self.coverage = take_beams(self.coverage, parents)

    def keep(self, documents: Tensor) -> None:
        """Only these documents (n,) are left."""
        for name, value in vars(self).items():
            if value is not None:
                setattr(self, name, value.index_select(0, documents))


class Finished:
    """The hypotheses that have ended, at most ``size`` a document, and the attention of all steps if it is kept.

    Args:
        documents: of the whole batch.
        size: n-best list.
        longest: most tokens of a hypothesis, end symbol included.
        by_score: keep the best ``size``, best first; otherwise the first ``size``, in the order in which they ended.
    """

    def __init__(self, documents: int, size: int, longest: int, device: torch.device, by_score: bool):
        self.size = size
        self.by_score = by_score
        self.score = torch.full((documents, size), -torch.inf, device=device)
        self.length = torch.zeros(documents, size, dtype=torch.long, device=device)  # 0: no hypothesis
        self.tokens = torch.zeros(documents, size, longest, dtype=torch.long, device=device)
        self.log_probs = torch.zeros(documents, size, longest, device=device)
        self.slots = torch.zeros(documents, size, longest, dtype=torch.long, device=device)
        self._attention: List[Tuple[Tensor, Tensor]] = []

    def count(self, documents: Tensor) -> Tensor:
        """How many hypotheses each of these documents (n,) has, (n,)."""
        return self.length[documents].gt(0).sum(1)

    def watch(self, documents: Tensor, attention: Tensor) -> None:
        """Keep the attention (n, beam, S) of this step."""
        self._attention.append((documents, attention))

    def add(
        self,
        documents: Tensor,
        ended: Tensor,
        score: Tensor,
        tokens: Tensor,
        log_probs: Tensor,
        slots: Optional[Tensor],
    ) -> None:
        """Add hypotheses of a step.

        Args:
            documents: (n,). ended: (n, beam), which of the following are hypotheses.
            score: (n, beam). tokens, log_probs, slots: (n, beam, length), end symbol included.
        """
        length = torch.where(ended, tokens.size(2), 0)
        lengths = torch.cat([self.length[documents], length], dim=1)
        scores = torch.cat([self.score[documents], score], dim=1)
        lowest = torch.finfo(scores.dtype).min  # a hypothesis without probability is still one
        key = scores.nan_to_num(nan=lowest, neginf=lowest) if self.by_score else torch.zeros_like(scores)
        key = key.masked_fill(lengths == 0, -torch.inf)
        order = key.argsort(dim=1, descending=True, stable=True)[:, : self.size]
        self.length[documents] = lengths.gather(1, order)
        self.score[documents] = scores.gather(1, order).masked_fill(lengths.gather(1, order) == 0, -torch.inf)
        for mine, new in ((self.tokens, tokens), (self.log_probs, log_probs), (self.slots, slots)):
            if new is not None:
                new = torch.nn.functional.pad(new, (0, mine.size(2) - new.size(2)))
                mine[documents] = take_beams(torch.cat([mine[documents], new], dim=1), order)

    def results(self) -> List[List[Dict[str, Tensor]]]:
        """fairseq's lists of hypotheses, best first."""
        order = self.score.argsort(dim=1, descending=True, stable=True)
        order = order.gather(1, self.length.gather(1, order).eq(0).int().argsort(dim=1, stable=True))
        first = self.log_probs[:, :, :1]
        steps = torch.cat([first, self.log_probs[:, :, 1:] - self.log_probs[:, :, :-1]], dim=2)
        steps = steps.nan_to_num(nan=-torch.inf, neginf=-torch.inf)
        attention = self._gather_attention()
        empty = torch.empty(0)
        results = []
        for document, (ranks, lengths) in enumerate(zip(order.tolist(), self.length.tolist())):
            results.append(
                [
                    {
                        "tokens": self.tokens[document, rank, : lengths[rank]].clone(),
                        "score": self.score[document, rank].clone(),
                        "attention": empty if attention is None else attention[document, rank, :, : lengths[rank]],
                        "alignment": empty,
                        "positional_scores": steps[document, rank, : lengths[rank]].clone(),
                    }
                    for rank in ranks
                    if lengths[rank]
                ]
            )
        return results

    def _gather_attention(self) -> Optional[Tensor]:
        """(B, size, S, longest): for each hypothesis, the attention of its steps."""
        if not self._attention:
            return None
        documents, size, longest = self.tokens.shape
        source = self._attention[0][1].size(2)
        result = torch.zeros(documents, size, source, longest, device=self.tokens.device)
        for step, (present, attention) in enumerate(self._attention):
            slots = self.slots[present, :, step].clamp(max=attention.size(1) - 1)
            result[present, :, :, step] = take_beams(attention, slots)
        return result
