"""The large-vocabulary trick: a softmax over only the words that a batch may need (Nallapati et al. 2016, section 2.1).

The *candidates* are the words that occur in the texts of the batch and, up to a total of N, the most frequent words of
the dictionary (the words with the smallest ids). The softmax has one column for each candidate. The columns are in the
order of ids, so the columns of special symbols are equal to their ids.
"""

import copy
import math
from typing import Optional, Union

import torch
import torch.nn.functional as F
from torch import Tensor


class Candidates:
    """The candidates of a batch of B texts.

    Args:
        texts: texts (B, L), int64, as ids of the summaries' dictionary, where ids from V on are ignored.
        limit: N, the number of candidates, which is exceeded if a text contains more than N words.
        known_words: V, the number of known words.
        specials: number of special symbols, which have the smallest ids and are always candidates.
        unk: id of the unknown word.
        shared: whether all texts share one list of N words, as in the paper, or else each text has its own list, so
            that the distribution for a text does not depend on the batch.

    Attributes:
        words: ids (C,) of the candidates in ascending order, which are the union of all lists.
        allowed: bool mask (B, C), True for words on the text's own list, or None if all texts share a list.
    """

    def __init__(self, texts: Tensor, limit: int, known_words: int, specials: int, unk: int, shared: bool):
        self.known_words, self.unk = known_words, unk
        ids = texts.masked_fill(texts >= known_words, unk)
        if shared or not len(texts):
            ids = ids.view(1, -1)
        ids = ids.sort(dim=1).values
        frequent = self._frequent_words(ids, min(limit, known_words), min(specials, known_words))  # (B,) or (1,)
        if texts.device.type == "cpu":
            on_some_list = int(frequent.max())  # all smaller ids are on at least one list
            rare = ids[ids >= on_some_list].unique()
            self.words = torch.cat([torch.arange(on_some_list, device=texts.device), rare])
        else:  # the same result, but the program waits for the GPU only once instead of three times
            listed = torch.arange(known_words, device=texts.device) < frequent.max()
            self.words = listed.index_fill(0, ids.flatten(), True).nonzero().flatten()
        self.allowed: Optional[Tensor] = None
        if len(ids) > 1:
            # self.words also contains words that are on one list as frequent words and on another as words of the text.
            self.allowed = (self.words < frequent[:, None]).scatter(1, torch.searchsorted(self.words, ids), True)

    @staticmethod
    def _frequent_words(ids: Tensor, limit: int, specials: int) -> Tensor:
        """Compute the smallest K (B,) for which the ids below K and the text's own words add up to at least ``limit``.

        Args:
            ids: word ids (B, L), sorted in each row.
        """
        is_new = torch.ones_like(ids, dtype=torch.bool)
        is_new[:, 1:] = ids[:, 1:] != ids[:, :-1]
        distinct = F.pad(is_new.cumsum(dim=1), (1, 0))  # (B, L + 1), number of distinct ids before each position
        cuts = torch.arange(specials, max(limit, specials) + 1, device=ids.device).expand(len(ids), -1).contiguous()
        own_below = distinct.gather(
            1, torch.searchsorted(ids, cuts)
        )  # number of the text's own words below each cutoff
        together = cuts + distinct[:, -1:] - own_below
        return specials + (together >= limit).int().argmax(dim=1)

    def __len__(self) -> int:
        return len(self.words)

    def columns(self, ids: Tensor) -> Tensor:
        """Convert extended ids (N, …) to columns. Slot k, which has the id V + k, has the column C + k.

        N is a multiple of B, and the rows of the same text are adjacent. Words that are not candidates, or that are not
        on the text's list, receive the column of the unknown word.
        """
        place = torch.searchsorted(self.words, ids).clamp(max=len(self) - 1)
        listed = self.words[place] == ids
        if self.allowed is not None:
            allowed = self.allowed.repeat_interleave(len(ids) // len(self.allowed), dim=0)
            listed &= allowed.gather(1, place.flatten(1)).view_as(place)
        is_slot = ids >= self.known_words
        return torch.where(is_slot, ids - self.known_words + len(self), torch.where(listed, place, self.unk))

    def extended_ids(self, columns: Tensor) -> Tensor:
        """Convert columns of any shape to extended ids, which is the inverse of :meth:`columns`."""
        is_slot = columns >= len(self)
        return torch.where(is_slot, columns - len(self) + self.known_words, self.words[columns.masked_fill(is_slot, 0)])

    def restrict(self, logits: Tensor) -> Tensor:
        """Set the logits (N, T, C) of words that are not on the text's own list to minus infinity.

        N is a multiple of B, and the rows of the same text are adjacent. If gradients are disabled, the logits are
        changed in place.
        """
        if self.allowed is None:
            return logits
        allowed = self.allowed.repeat_interleave(len(logits) // len(self.allowed), dim=0)
        fill = logits.masked_fill if torch.is_grad_enabled() else logits.masked_fill_
        return fill(~allowed[:, None], -math.inf)

    def spread(self, scores: Tensor) -> Tensor:
        """Reorder log-probabilities (N, T, C + K) by column to (N, T, V + K) by extended id.

        Other words have the value -inf.
        """
        slots = scores.shape[2] - len(self)
        wide = scores.new_full((*scores.shape[:2], self.known_words + slots), -math.inf)
        wide[:, :, self.words] = scores[:, :, : len(self)]
        if slots:
            wide[:, :, self.known_words :] = scores[:, :, len(self) :]
        return wide

    def to(self, device: Union[str, torch.device]) -> "Candidates":
        """Return a copy of the candidates with all tensors moved to ``device``."""
        moved = copy.copy(self)
        moved.words, moved.allowed = self.words.to(device), None if self.allowed is None else self.allowed.to(device)
        return moved

    def select(self, texts: Tensor) -> "Candidates":
        """Return the candidates for the texts with the given indices (N,). The columns stay the same."""
        chosen = copy.copy(self)
        chosen.allowed = None if self.allowed is None else self.allowed.index_select(0, texts)
        return chosen
