"""The large-vocabulary trick: a softmax over only the words that a batch may need (Nallapati et al. 2016, section 2.1).

The *candidates* are the words in the texts of the batch and the most frequent words in the dictionary (the words with
the smallest ids), N words in total. The softmax has one column for each candidate. The columns are sorted by id, so the
columns of special symbols are equal to their ids.
"""

import copy
import math
from typing import Optional, Union

import torch
import torch.nn.functional as F
from torch import Tensor


class CandidateWords:
    """The candidates of a batch of B texts.

    Args:
        texts: the ids of the texts' words in the target dictionary (B, L), int64. Ids of V or more are ignored.
        limit: N, the number of candidates. There are more candidates if a text contains more than N distinct words.
        known_words: V, the number of known words.
        specials: the number of special symbols, which have the smallest ids and are always candidates.
        unk: the id of the unknown word.
        shared: whether all texts share one list of candidates, as in the paper. Otherwise, each text has its own list,
            and the distribution for a text does not depend on the batch.
    """

    words: Tensor  # ids of the C words on all lists (C,), in ascending order
    allowed: Optional[Tensor] = None  # mask (B, C), True for words on the list of each text, if the lists differ

    def __init__(self, texts: Tensor, limit: int, known_words: int, specials: int, unk: int, shared: bool):
        self.known_words, self.unk = known_words, unk
        ids = texts.masked_fill(texts >= known_words, unk)
        if shared or not len(texts):
            ids = ids.view(1, -1)
        ids = ids.sort(dim=1).values
        frequent = self._count_frequent_candidates(ids, min(limit, known_words), min(specials, known_words))
        # The ids below the maximum of ``frequent``, and those of the texts. The CPU waits for a GPU only once.
        listed = torch.arange(known_words, device=ids.device) < frequent.max()
        self.words = listed.index_fill(0, ids.flatten(), True).nonzero().flatten()
        if len(ids) > 1:
            # the list of a text contains its own number of frequent words and the words of the text
            self.allowed = (self.words < frequent[:, None]).scatter(1, torch.searchsorted(self.words, ids), True)

    @staticmethod
    def _count_frequent_candidates(ids: Tensor, limit: int, specials: int) -> Tensor:
        """Compute the smallest K (B,) for which the ids below K and the text contain at least ``limit`` distinct words.

        K is at least ``specials``. The ids of each text (B, L) are sorted.
        """
        is_new = torch.ones_like(ids, dtype=torch.bool)
        is_new[:, 1:] = ids[:, 1:] != ids[:, :-1]
        distinct = F.pad(is_new.cumsum(dim=1), (1, 0))  # (B, L + 1), numbers of distinct ids before each position
        cuts = torch.arange(specials, max(limit, specials) + 1, device=ids.device).expand(len(ids), -1).contiguous()
        own_below = distinct.gather(1, torch.searchsorted(ids, cuts))  # distinct words in the text below each cutoff
        together = cuts + distinct[:, -1:] - own_below
        return specials + (together >= limit).int().argmax(dim=1)

    def __len__(self) -> int:
        return len(self.words)

    def convert_to_columns(self, ids: Tensor) -> Tensor:
        """Convert extended ids (N, …) to columns. Slot k has the extended id V + k and the column C + k.

        N is a multiple of B, and rows that belong to the same text are adjacent. Words that are not on the list of the
        text receive the column of the unknown word.
        """
        place = torch.searchsorted(self.words, ids).clamp(max=len(self) - 1)
        listed = self.words[place] == ids
        if self.allowed is not None:
            allowed = self.allowed.repeat_interleave(len(ids) // len(self.allowed), dim=0)
            listed &= allowed.gather(1, place.flatten(1)).view_as(place)
        is_slot = ids >= self.known_words
        return torch.where(is_slot, ids - self.known_words + len(self), torch.where(listed, place, self.unk))

    def convert_to_extended_ids(self, columns: Tensor) -> Tensor:
        """Convert columns of any shape to extended ids, as the inverse of :meth:`convert_to_columns`."""
        is_slot = columns >= len(self)
        return torch.where(is_slot, columns - len(self) + self.known_words, self.words[columns.masked_fill(is_slot, 0)])

    def mask_unlisted_words(self, logits: Tensor) -> Tensor:
        """Set the logits (N, T, C) to minus infinity for words that are not on the list of the text.

        N is as in :meth:`convert_to_columns`. If gradients are disabled, the logits are changed in place.
        """
        if self.allowed is None:
            return logits
        allowed = self.allowed.repeat_interleave(len(logits) // len(self.allowed), dim=0)
        fill = logits.masked_fill if torch.is_grad_enabled() else logits.masked_fill_
        return fill(~allowed[:, None], -math.inf)

    def reindex_by_extended_id(self, scores: Tensor) -> Tensor:
        """Convert log-probabilities (N, T, C + K), indexed by column, to (N, T, V + K), indexed by extended id.

        The log-probability of words that are not candidates is -inf.
        """
        slots = scores.shape[2] - len(self)
        wide = scores.new_full((*scores.shape[:2], self.known_words + slots), -math.inf)
        wide[:, :, self.words] = scores[:, :, : len(self)]
        if slots:
            wide[:, :, self.known_words :] = scores[:, :, len(self) :]
        return wide

    def to(self, device: Union[str, torch.device]) -> "CandidateWords":
        """Return a copy of the candidates with all tensors moved to ``device``."""
        moved = copy.copy(self)
        moved.words, moved.allowed = self.words.to(device), None if self.allowed is None else self.allowed.to(device)
        return moved

    def select(self, texts: Tensor) -> "CandidateWords":
        """Return the candidates for the texts with the given indices (N,). The columns do not change."""
        chosen = copy.copy(self)
        chosen.allowed = None if self.allowed is None else self.allowed.index_select(0, texts)
        return chosen
