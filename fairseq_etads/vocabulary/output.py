"""Translate between the numberings of words in a model's output.

A word has up to three numbers:

- its *id in the dictionary*: 0 … V-1 for the words that summaries know, and from V on for words that are only copied;
- its *extended id* in a batch: the same below V, then V + k for slot k of its document (see ``batch_vocab.py``).
  ``get_normalized_probs`` gives probabilities by extended id;
- its *column* in the decoder's logits: the same as the extended id unless the softmax runs over candidates only (see
  ``candidates.py``). The criterion and the pointer work with columns.

The search works with extended ids, or, with a shortlist (see ``shortlist.py``), with columns, so that no tensor in it
is as wide as the vocabulary. *Search ids* are the numbers that the search works with.
"""

from typing import Any, NamedTuple, Optional, Union

import torch
from torch import Tensor

from .batch_vocab import BatchVocab
from .candidates import Candidates
from .dictionary import hide_unknown_words, known_words


class OutputVocabulary(NamedTuple):
    """The words in the distributions for a batch of B documents.

    Methods take ids (N, T), int64, N a multiple of B; rows of the same document are adjacent.

    Attributes:
        known_words: V.
        unk: id of the unknown word.
        slots: the words of the documents that can be copied; None for a model without a pointer.
        candidates: the words of the softmax; None: all V.
        by_column: whether ``get_normalized_probs`` gives probabilities by column, and search ids are columns.
    """

    known_words: int
    unk: int
    slots: Optional[BatchVocab] = None
    candidates: Optional[Candidates] = None
    by_column: bool = False

    @classmethod
    def of(
        cls,
        src_tokens: Tensor,
        dictionary: Any,
        pointer: bool,
        candidates: Optional[Candidates] = None,
        bounded: bool = False,
    ) -> "OutputVocabulary":
        """Make the output vocabulary of documents (B, S), with slots if the model has a ``pointer``.

        Args:
            bounded: the argument of :class:`BatchVocab`.
        """
        size, pad, bos, eos, unk = (
            known_words(dictionary),
            dictionary.pad(),
            dictionary.bos(),
            dictionary.eos(),
            dictionary.unk(),
        )
        slots = None
        if pointer:
            special = {"pad": pad, "bos": bos, "eos": eos, "unk": unk}
            slots = BatchVocab(src_tokens, size, **special, candidates=candidates, bounded=bounded)
        return cls(size, unk, slots, candidates)

    def extended_ids(self, tokens: Tensor) -> Tensor:
        """Turn ids of the dictionary into extended ids; words that neither the model nor the document has become
        unknown.
        """
        if self.slots is None:
            return hide_unknown_words(tokens, self.known_words, self.unk)
        return self.slots.encode(tokens)

    def target_columns(self, tokens: Tensor) -> Tensor:
        """Turn ids of the dictionary into columns; words that have none become unknown."""
        extended = self.extended_ids(tokens)
        return extended if self.candidates is None else self.candidates.columns(extended)

    def producible_ids(self, tokens: Tensor) -> Tensor:
        """Like :meth:`extended_ids`, but a word without a column becomes unknown, too, so that all have a
        probability.
        """
        extended = self.extended_ids(tokens)
        if self.candidates is None:
            return extended
        return extended.masked_fill(self.candidates.columns(extended) == self.unk, self.unk)

    def search_ids(self, tokens: Tensor) -> Tensor:
        """Turn ids of the dictionary into search ids; words that have none become unknown."""
        return self.target_columns(tokens) if self.by_column else self.extended_ids(tokens)

    def _from_search(self, search_ids: Tensor) -> Tensor:
        """Turn search ids of any shape into extended ids."""
        if self.by_column and self.candidates is not None:
            return self.candidates.extended_ids(search_ids)
        return search_ids

    def by_search_id(self, scores: Tensor) -> Tensor:
        """Reorder log-probabilities (N, T, C + K) from columns to search ids; minus infinity for words without a
        column.
        """
        return scores if self.by_column or self.candidates is None else self.candidates.spread(scores)

    def dictionary_ids(self, search_ids: Tensor, document: Optional[int] = None) -> Tensor:
        """Turn search ids (N, T), or (T,) of one document's summary, into ids of the dictionary."""
        extended = self._from_search(search_ids)
        if self.slots is None:
            return extended
        return self.slots.decode(extended) if document is None else self.slots.decode(extended[None], document)[0]

    def known_ids(self, search_ids: Tensor) -> Tensor:
        """Turn search ids (any shape) into ids of known words, for a model that has no others: a slot becomes
        unknown.
        """
        return hide_unknown_words(self._from_search(search_ids), self.known_words, self.unk)

    def add_known_scores(self, scores: Tensor, known: Tensor) -> None:
        """Add the scores of a model with only known words to scores by search id, (…, V + K) or (…, C + K); in place.

        Args:
            known: (…, at least V), by id. Each slot gets the score of the unknown word.
        """
        if self.by_column and self.candidates is not None:
            own = known[..., self.candidates.words]  # (…, C)
        else:
            own = known[..., : self.known_words]
        scores[..., : own.shape[-1]] += own
        scores[..., own.shape[-1] :] += known[..., self.unk, None]

    def own_words(self, words: Tensor, document: int) -> Tensor:
        """Return the search ids (m,) of the words (n,), ids of the dictionary, that a summary can contain."""
        vocabulary = self.select(torch.tensor([document], device=words.device))
        translate = vocabulary.target_columns if self.by_column else vocabulary.producible_ids
        ids = translate(words[None])[0]
        return ids[ids.ne(self.unk) | words.eq(self.unk)]

    def to(self, device: Union[str, torch.device]) -> "OutputVocabulary":
        """Return the same vocabulary on a device."""
        slots = None if self.slots is None else self.slots.to(device)
        candidates = None if self.candidates is None else self.candidates.to(device)
        return self._replace(slots=slots, candidates=candidates)

    def select(self, documents: Tensor) -> "OutputVocabulary":
        """Return the output vocabulary of the documents with indices (N,), repeated or not."""
        slots = None if self.slots is None else self.slots.select(documents)
        candidates = None if self.candidates is None else self.candidates.select(documents)
        return self._replace(slots=slots, candidates=candidates)
