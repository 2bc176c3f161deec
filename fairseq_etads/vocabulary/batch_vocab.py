"""The vocabulary of one batch: the model's V words, and K slots for the words that only its documents have.

Word identity lives in the ids. The dictionary lists every word of every document (see ``dictionary.py``), so an id
from V on says which word it is, although the model has no vector for it. A :class:`BatchVocab` numbers such words V,
V+1, … within their document. Slots belong to a document: slot V of one row and slot V of another are different words.
"""

import copy
from typing import Optional, Tuple

import torch
from torch import Tensor

from .candidates import Candidates


def number_by_first_occurrence(ids: Tensor, wanted: Tensor) -> Tuple[Tensor, Tensor]:
    """Number the distinct ids of each row 0, 1, … in the order in which they first occur.

    Args:
        ids: (B, S), int64. wanted: (B, S) bool, the positions that take part.

    Returns:
        numbers (B, S), int64, 0 where not wanted; counts (B,), int64, how many distinct ids a row has.
    """
    length = ids.shape[1]
    places = torch.arange(length, device=ids.device).expand_as(ids)
    # a stable sort puts equal ids side by side, the first occurrence first, and the unwanted ones behind all
    ordered, order = ids.masked_fill(~wanted, torch.iinfo(ids.dtype).max).sort(dim=1, stable=True)
    starts = torch.ones_like(wanted)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    starts &= wanted.gather(1, order)
    first = torch.zeros_like(wanted).scatter(1, order, starts)  # back in the order of the text
    number_of_first = first.cumsum(dim=1) - 1
    run = places.masked_fill(~starts, 0).cummax(dim=1).values  # where, among the sorted, this id's run starts
    numbers = number_of_first.gather(1, order.gather(1, run))
    return torch.zeros_like(ids).scatter(1, order, numbers).masked_fill(~wanted, 0), first.sum(dim=1)


class BatchVocab:
    """Extended ids of a batch: 0 … V-1 are the dictionary's, V … V+K-1 the documents' own words.

    Args:
        src_tokens: documents (B, S), int64, ids of the dictionary.
        size: V, how many words the model knows.
        pad, bos, eos, unk: ids of the special symbols. The first three are never copied.
        candidates: the words that the softmax runs over, if not all V; the documents' words must be among them.

    Attributes:
        known: columns of the softmax: V, or how many candidates there are.
        size: known + K, with K the largest number of own words among the documents.
        source: (B, S) extended ids of the documents; with candidates, these and ``words`` are columns.
        copyable: (B, S) bool, True at words: not padding, not a begin or end symbol.
        words: (B, U) extended ids of each document's distinct words in order of first occurrence; 0 (the begin symbol,
            which nothing can copy) fills rows of documents that have fewer than U.
        column: (B, S) where in ``words`` the word of a position stands; 0 where not copyable.
        is_word: (B, U) bool, False at fillers.
        own_words: (B,) how many of the V+K ids each document really has beyond V.
    """

    def __init__(
        self,
        src_tokens: Tensor,
        size: int,
        *,
        pad: int,
        bos: int,
        eos: int,
        unk: int,
        candidates: Optional[Candidates] = None,
    ):
        self.words_known = size
        self.known = size if candidates is None else len(candidates)
        self.unk = unk
        own = src_tokens >= size
        slots, self.own_words = number_by_first_occurrence(src_tokens, own)
        extra = int(self.own_words.max()) if src_tokens.numel() else 0
        self.size = self.known + extra
        self.source = torch.where(own, slots + size, src_tokens)
        if candidates is not None:
            self.source = candidates.columns(self.source, unk)
        # dictionary id of each slot; writing every occurrence is writing the same id again
        table = src_tokens.new_full((len(src_tokens), extra + 1), unk)
        self._slot_words = table.scatter(1, torch.where(own, slots, extra), src_tokens.masked_fill(~own, unk))[
            :, :extra
        ]

        self.copyable = (src_tokens != pad) & (src_tokens != bos) & (src_tokens != eos)
        self.column, distinct = number_by_first_occurrence(src_tokens, self.copyable)
        width = max(1, int(distinct.max()) if src_tokens.numel() else 1)
        self.is_word = torch.arange(width, device=src_tokens.device) < distinct[:, None]
        filled = src_tokens.new_zeros(len(src_tokens), width + 1)
        column = torch.where(self.copyable, self.column, width)
        self.words = filled.scatter(1, column, self.source)[:, :width].masked_fill(~self.is_word, 0)

    def select(self, documents: Tensor) -> "BatchVocab":
        """The vocabulary of some of the documents (indices, (N,)), repeated or not, of the same size as this one.

        Of the same size, because scores over it have to keep their width when documents leave a batch.
        """
        chosen = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(chosen, name, value.index_select(0, documents))
        return chosen

    def encode(self, tokens: Tensor) -> Tensor:
        """Ids of the dictionary -> extended ids; a word that neither the model nor the document has becomes unknown.

        Args:
            tokens: (N, T), int64, N a multiple of B: rows of the same document follow one another.
        """
        own = tokens >= self.words_known
        slot_words = self.rows(self._slot_words, tokens)
        if slot_words.shape[1] == 0:
            return tokens.masked_fill(own, self.unk)
        same = tokens[:, :, None] == slot_words[:, None, :]  # (N, T, K)
        slots = same.int().argmax(dim=2) + self.words_known
        return torch.where(own, slots.masked_fill(~same.any(dim=2), self.unk), tokens)

    def decode(self, tokens: Tensor, row: Optional[int] = None) -> Tensor:
        """Extended ids (N, T) -> ids of the dictionary; a slot that the document does not have becomes unknown.

        Args:
            tokens: rows of the same document follow one another. row: the one document that all of them are of.
        """
        slot_words = self.rows(self._slot_words if row is None else self._slot_words[row : row + 1], tokens)
        if slot_words.shape[1] == 0:
            return tokens
        own = tokens >= self.words_known
        words = slot_words.gather(1, (tokens - self.words_known).clamp(min=0, max=slot_words.shape[1] - 1))
        return torch.where(own, words, tokens)

    @staticmethod
    def rows(table: Tensor, like: Tensor) -> Tensor:
        """One row of a per-document table (B, …) for each row of ``like`` (N, …)."""
        copies, rest = divmod(len(like), max(1, len(table)))
        if rest:
            raise ValueError(f"{len(like)} rows do not belong to {len(table)} documents evenly")
        return table if copies == 1 else table.repeat_interleave(copies, dim=0)
