"""The large-vocabulary trick: which words a batch's softmax runs over (Nallapati et al. 2016, section 2.1).

They are the words of the texts at hand and then the most frequent words of the dictionary (those with the smallest ids)
until there are N. The softmax has a column for each of these *candidates*, in the order of their ids, so that the
special symbols keep their numbers.
"""

import copy
from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor


def words_of_softmax(model: Any) -> int:
    """How many words a model's --large-vocabulary-trick takes, 0 for a softmax over all."""
    return int(getattr(getattr(model, "decoder", None), "large_vocabulary_trick", 0))


class Candidates:
    """The candidates of a batch.

    Args:
        texts: (B, L), int64, ids of the dictionary of the output; ids from V on take no part.
        limit: N. A text that has more words keeps them all.
        size: V, how many words the model knows.
        specials: how many ids, from 0, are special symbols; they are always candidates.
        shared: all texts share one list of N words, as in the paper, instead of having N words each. With a list each,
            a document's distribution does not depend on the batch it is in.

    Attributes:
        words: (C,), ids of the candidates in ascending order: those of all lists together.
        allowed: (B, C) bool, which of them are on each text's list; None: all.
        size: V.
    """

    def __init__(self, texts: Tensor, limit: int, size: int, specials: int, shared: bool):
        self.size = size
        ids = texts.masked_fill(texts >= size, 0).view(1 if shared else len(texts), -1).sort(dim=1).values
        frequent = self._frequent(ids, min(limit, size), min(specials, size))
        cut = int(frequent.max()) if len(frequent) else size  # all ids below are on some list
        self.words = torch.cat([torch.arange(cut, device=texts.device), ids[ids >= cut].unique()])
        self.allowed: Optional[Tensor] = None
        if len(ids) > 1:
            listed = self.words < frequent[:, None]
            # ids among the frequent of others, too; all are in self.words
            self.allowed = listed.scatter(1, torch.searchsorted(self.words, ids), True)

    @staticmethod
    def _frequent(ids: Tensor, limit: int, specials: int) -> Tensor:
        """K (B,): the ids below K and a row's own words (sorted ids, (B, L)) are at least ``limit`` together."""
        first = torch.ones_like(ids, dtype=torch.bool)
        first[:, 1:] = ids[:, 1:] != ids[:, :-1]
        distinct = F.pad(first.cumsum(dim=1), (1, 0))  # how many distinct ids there are before each place
        grid = torch.arange(specials, max(limit, specials) + 1, device=ids.device).expand(len(ids), -1).contiguous()
        below = distinct.gather(1, torch.searchsorted(ids, grid))
        together = grid + distinct[:, -1:] - below
        return specials + (together >= limit).int().argmax(dim=1)

    def __len__(self) -> int:
        return len(self.words)

    def columns(self, ids: Tensor, unk: int) -> Tensor:
        """Extended ids (N, …), N a multiple of B, V + k for slot k -> columns, C + k for slot k.

        Words that are no candidates, or not on the list of the row's own text, are unknown.
        """
        place = torch.searchsorted(self.words, ids).clamp(max=len(self) - 1)
        listed = self.words[place] == ids
        if self.allowed is not None:
            rows = self.allowed.repeat_interleave(len(ids) // len(self.allowed), dim=0)
            listed &= rows.gather(1, place.flatten(1)).view_as(place)
        return torch.where(ids >= self.size, ids - self.size + len(self), torch.where(listed, place, unk))

    def known(self, ids: Tensor, unk: int) -> Tensor:
        """Extended ids (N, …) with the unknown word in the place of those that :meth:`columns` takes for unknown."""
        return torch.where(self.columns(ids, unk) == unk, unk, ids)

    def restrict(self, logits: Tensor) -> Tensor:
        """Logits (N, T, C), N a multiple of B, with minus infinity where a word is not on the document's own list."""
        if self.allowed is None:
            return logits
        allowed = self.allowed.repeat_interleave(len(logits) // len(self.allowed), dim=0)
        return logits.masked_fill(~allowed[:, None], float("-inf"))

    def spread(self, scores: Tensor) -> Tensor:
        """Log-probabilities (N, T, C + K) by column -> (N, T, V + K) by extended id, minus infinity elsewhere."""
        own = scores.shape[2] - len(self)
        wide = scores.new_full((*scores.shape[:2], self.size + own), float("-inf"))
        wide[:, :, self.words] = scores[:, :, : len(self)]
        if own:
            wide[:, :, self.size :] = scores[:, :, len(self) :]
        return wide

    def select(self, documents: Tensor) -> "Candidates":
        """Those of some of the documents (indices, (N,)); the columns stay the same."""
        chosen = copy.copy(self)
        chosen.allowed = None if self.allowed is None else self.allowed.index_select(0, documents)
        return chosen
