"""Convert between the different ids of a word in a model's output.

A word is identified by up to three ids:

- its *dictionary id*: 0, …, V - 1 for known words, which can be generated, and V or more for words that can only be
  copied;
- its *extended id* in a batch: the same as the dictionary id if it is below V, and V + k for slot k of the document
  (see :class:`BatchVocab`). The probabilities from ``get_normalized_probs`` are indexed by extended id;
- its *column* in the decoder's logits: the same as the extended id, unless the softmax is computed over only the
  candidates (see :class:`CandidateWords`). The criterion and the pointer use columns.

The search uses extended ids. With a shortlist (see ``shortlist.py``), it uses columns instead, so that none of its
tensors is as large as the vocabulary. The ids or columns that the search uses are called *search ids*.

The large-vocabulary trick (Nallapati et al. 2016, section 2.1) is a softmax over only the words that a batch may need.
The *candidates* are the words in the texts of the batch and the most frequent words in the dictionary (the words with
the smallest ids), N words in total. The columns are sorted by id, so the columns of special symbols are equal to their
ids.
"""

import copy
import math
from typing import Any, Callable, NamedTuple, Optional, Tuple, Union

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
        # Lists all ids below the maximum of ``frequent``, and all ids in the texts. The CPU waits for a GPU only once.
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


def hide_unknown_words(tokens: Tensor, known_words: int, unk: int) -> Tensor:
    """Replace all ids of V = ``known_words`` or more in ``tokens``, of any shape, with ``unk``."""
    return tokens.masked_fill(tokens >= known_words, unk)


def number_by_first_occurrence(ids: Tensor, wanted: Tensor) -> Tuple[Tensor, Tensor]:
    """Number the distinct ids (B, S) in each row, where the mask ``wanted`` is True, by their first occurrence, from 0.

    Returns two int64 tensors: the numbers (B, S), 0 at other positions, and the number of distinct ids per row (B,).
    """
    positions = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    # A stable sort groups equal ids in the order of their occurrence, and moves unwanted positions to the end.
    ordered, order = ids.masked_fill(~wanted, torch.iinfo(ids.dtype).max).sort(dim=1, stable=True)
    starts_run = torch.ones_like(wanted)
    starts_run[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    starts_run &= wanted.gather(1, order)
    is_first = torch.zeros_like(wanted).scatter(1, order, starts_run)  # mask in the original order
    number_of_first = is_first.cumsum(dim=1) - 1
    run = positions.masked_fill(~starts_run, 0).cummax(dim=1).values  # start of each run of equal ids in the sorted row
    numbers = number_of_first.gather(1, order.gather(1, run))
    return torch.zeros_like(ids).scatter(1, order, numbers).masked_fill(~wanted, 0), is_first.sum(dim=1)


class BatchVocab:
    """The vocabulary for a batch of B documents: V known words, and K slots for other words of the documents.

    The distribution of a pointer has a *column* for each word in the softmax, followed by a column for each slot.
    Without candidates, the softmax is computed over all V words, and columns are equal to extended ids.

    Args:
        src_tokens: the dictionary ids of the source documents (B, S), int64.
        known_words: V, the number of known words.
        pad, bos, eos, unk: the ids of the special symbols. The first three symbols are never copied.
        candidates: the words over which the softmax is computed, which include all words of the documents, or None for
            all V words.
        bounded: whether K and U are S, their upper bound, on a GPU, so that the CPU does not wait for their values. The
            results are the same, but the distributions have more columns.
    """

    known_words: int  # V, the number of known words
    softmax_width: int  # number of columns in the softmax, which is V or the number of candidates
    output_width: int  # number of all columns: softmax_width + K, the largest number of slots that a document uses
    slots_used: Tensor  # number of slots that each document uses (B,)
    slot_words: Tensor  # dictionary ids of the words in the slots (B, K), or of the unknown word in unused slots
    copyable: Tensor  # mask (B, S), True for words and False for padding, start symbols and end symbols
    source_columns: Tensor  # column of the word at each document position (B, S)
    word_columns: Tensor  # columns of the distinct words in each document by first occurrence (B, U), padded with 0
    is_word: Tensor  # mask (B, U), True for words and False for padding in word_columns
    word_numbers: Tensor  # index in word_columns of each document position (B, S), 0 where nothing can be copied

    def __init__(
        self,
        src_tokens: Tensor,
        known_words: int,
        *,
        pad: int,
        bos: int,
        eos: int,
        unk: int,
        candidates: Optional[CandidateWords] = None,
        bounded: bool = False,
    ):
        self.known_words = known_words
        self.softmax_width = known_words if candidates is None else len(candidates)
        self.unk = unk
        outside = src_tokens >= known_words  # True for out-of-vocabulary words
        slots, self.slots_used = number_by_first_occurrence(src_tokens, outside)
        self.copyable = (src_tokens != pad) & (src_tokens != bos) & (src_tokens != eos)
        self.word_numbers, distinct = number_by_first_occurrence(src_tokens, self.copyable)
        if bounded and not src_tokens.is_cpu:
            slot_count = width = src_tokens.shape[1]
        else:  # the CPU waits for a GPU only once
            counts = torch.stack([self.slots_used, distinct])
            slot_count, width = counts.amax(dim=1).tolist() if len(src_tokens) else (0, 0)
        width = max(1, width)  # U
        self.output_width = self.softmax_width + slot_count
        # An additional column collects the positions without a slot.
        table = src_tokens.new_full((len(src_tokens), slot_count + 1), unk)
        table = table.scatter(1, torch.where(outside, slots, slot_count), src_tokens.masked_fill(~outside, unk))
        self.slot_words = table[:, :slot_count]

        extended = torch.where(outside, slots + known_words, src_tokens)
        self.source_columns = extended if candidates is None else candidates.convert_to_columns(extended)
        self.is_word = torch.arange(width, device=src_tokens.device) < distinct[:, None]
        columns = src_tokens.new_zeros(len(src_tokens), width + 1)
        columns = columns.scatter(1, torch.where(self.copyable, self.word_numbers, width), self.source_columns)
        self.word_columns = columns[:, :width].masked_fill(~self.is_word, 0)

    def select(self, documents: Tensor) -> "BatchVocab":
        """Return the vocabulary for the documents with the given indices (N,), which may be repeated.

        The number of columns does not change, so scores keep their shape when documents are removed from a batch.
        """
        return self._change_tensors(lambda table: table.index_select(0, documents))

    def to(self, device: Union[str, torch.device]) -> "BatchVocab":
        """Return a copy of the vocabulary with all tensors moved to ``device``."""
        return self._change_tensors(lambda table: table.to(device))

    def _change_tensors(self, change: Callable[[Tensor], Tensor]) -> "BatchVocab":
        changed = copy.copy(self)
        vars(changed).update({name: change(value) for name, value in vars(self).items() if isinstance(value, Tensor)})
        return changed

    def encode(self, tokens: Tensor) -> Tensor:
        """Convert dictionary ids (N, T), int64, to extended ids.

        Words that are neither known nor in the document are replaced with the unknown word. N is a multiple of B, and
        rows that belong to the same document are adjacent.
        """
        slot_words = self.expand_rows(self.slot_words, tokens)
        hidden = hide_unknown_words(tokens, self.known_words, self.unk)
        if slot_words.shape[1] == 0:
            return hidden
        matches = tokens[:, :, None] == slot_words[:, None, :]  # (N, T, K)
        slots = matches.int().argmax(dim=2) + self.known_words
        has_slot = (tokens >= self.known_words) & matches.any(dim=2)
        return torch.where(has_slot, slots, hidden)

    def decode(self, tokens: Tensor, document: Optional[int] = None) -> Tensor:
        """Convert extended ids (N, T) to dictionary ids. Slots that the document does not use become the unknown word.

        All rows belong to this ``document`` or, without one, to all documents, as in :meth:`encode`.
        """
        table = self.slot_words if document is None else self.slot_words[document : document + 1]
        slot_words = self.expand_rows(table, tokens)
        if slot_words.shape[1] == 0:
            return tokens
        words = slot_words.gather(1, (tokens - self.known_words).clamp(min=0, max=slot_words.shape[1] - 1))
        return torch.where(tokens >= self.known_words, words, tokens)

    @staticmethod
    def expand_rows(table: Tensor, like: Tensor) -> Tensor:
        """Repeat the rows of a tensor (B, …), which has one row per document, to match the rows of ``like`` (N, …)."""
        repeats, rest = divmod(len(like), max(1, len(table)))
        if rest:
            raise ValueError(f"{len(like)} rows cannot be divided evenly among {len(table)} documents")
        return table if repeats == 1 else table.repeat_interleave(repeats, dim=0)


class OutputVocabulary(NamedTuple):
    """The words in the output distributions for a batch of B documents.

    Methods expect ids (N, T), int64. N is a multiple of B, and rows that belong to the same document are adjacent. If
    ``by_column``, the probabilities from ``get_normalized_probs`` are indexed by column, and search ids are columns.
    """

    known_words: int  # V, the number of known words
    unk: int  # the id of the unknown word
    slots: Optional[BatchVocab] = None  # the words that can be copied, or None for a model without a pointer
    candidates: Optional[CandidateWords] = None  # the words over which the softmax is computed, or None for all V words
    by_column: bool = False

    @classmethod
    def from_source(
        cls,
        src_tokens: Tensor,
        dictionary: Any,
        pointer: bool,
        candidates: Optional[CandidateWords] = None,
        bounded: bool = False,
    ) -> "OutputVocabulary":
        """Create the output vocabulary for source documents (B, S), with slots if the model has a pointer.

        The ``dictionary`` contains the V known words in summaries, without a copy tail.
        """
        slots = None
        if pointer:
            symbols = {name: getattr(dictionary, name)() for name in ("pad", "bos", "eos", "unk")}
            slots = BatchVocab(src_tokens, len(dictionary), **symbols, candidates=candidates, bounded=bounded)
        return cls(len(dictionary), dictionary.unk(), slots, candidates)

    def convert_to_extended_ids(self, tokens: Tensor) -> Tensor:
        """Convert dictionary ids to extended ids. Words without one are replaced with the unknown word."""
        if self.slots is None:
            return hide_unknown_words(tokens, self.known_words, self.unk)
        return self.slots.encode(tokens)

    def convert_to_target_columns(self, tokens: Tensor) -> Tensor:
        """Convert dictionary ids to columns. Words without a column are replaced with the unknown word."""
        extended = self.convert_to_extended_ids(tokens)
        return extended if self.candidates is None else self.candidates.convert_to_columns(extended)

    def convert_to_producible_ids(self, tokens: Tensor) -> Tensor:
        """Convert dictionary ids to extended ids. Words without a column are replaced with the unknown word."""
        extended = self.convert_to_extended_ids(tokens)
        if self.candidates is None:
            return extended
        return extended.masked_fill(self.candidates.convert_to_columns(extended) == self.unk, self.unk)

    def convert_to_search_ids(self, tokens: Tensor) -> Tensor:
        """Convert dictionary ids to search ids. Words without a search id are replaced with the unknown word."""
        return self.convert_to_target_columns(tokens) if self.by_column else self.convert_to_extended_ids(tokens)

    def _convert_from_search_ids(self, search_ids: Tensor) -> Tensor:
        """Convert search ids of any shape to extended ids."""
        if self.by_column and self.candidates is not None:
            return self.candidates.convert_to_extended_ids(search_ids)
        return search_ids

    def reindex_by_search_id(self, scores: Tensor) -> Tensor:
        """Convert log-probabilities (N, T, C + K) by column to those by search id, -inf for words without a column."""
        return scores if self.by_column or self.candidates is None else self.candidates.reindex_by_extended_id(scores)

    def convert_to_dictionary_ids(self, search_ids: Tensor, document: Optional[int] = None) -> Tensor:
        """Convert search ids (N, T), or the search ids (T,) of the summary of one ``document``, to dictionary ids."""
        extended = self._convert_from_search_ids(search_ids)
        if self.slots is None:
            return extended
        return self.slots.decode(extended) if document is None else self.slots.decode(extended[None], document)[0]

    def convert_to_known_ids(self, search_ids: Tensor) -> Tensor:
        """Convert search ids of any shape to ids of known words. Slots are replaced with the unknown word."""
        return hide_unknown_words(self._convert_from_search_ids(search_ids), self.known_words, self.unk)

    def add_known_scores(self, scores: Tensor, known: Tensor) -> None:
        """Add the scores that another model assigns to known words, in place.

        Args:
            scores: the scores to change, (…, V + K) or (…, C + K), indexed by search id.
            known: the scores to add, with V or more columns, indexed by dictionary id. The score of the unknown word is
                added to each slot.
        """
        if self.by_column and self.candidates is not None:
            own = known[..., self.candidates.words]  # (…, C)
        else:
            own = known[..., : self.known_words]
        scores[..., : own.shape[-1]] += own
        scores[..., own.shape[-1] :] += known[..., self.unk, None]

    def convert_words_to_search_ids(self, words: Tensor, document: int) -> Tensor:
        """Convert dictionary ids (n,) to search ids (m,), without words that the document's summary cannot contain."""
        vocabulary = self.select(torch.tensor([document], device=words.device))
        translate = vocabulary.convert_to_target_columns if self.by_column else vocabulary.convert_to_producible_ids
        ids = translate(words[None])[0]
        return ids[ids.ne(self.unk) | words.eq(self.unk)]

    def to(self, device: Union[str, torch.device]) -> "OutputVocabulary":
        """Return a copy of the vocabulary with all tensors moved to ``device``."""
        return self._change_parts(lambda part: part.to(device))

    def select(self, documents: Tensor) -> "OutputVocabulary":
        """Return the output vocabulary for the documents with the given indices (N,), which may be repeated."""
        return self._change_parts(lambda part: part.select(documents))

    def _change_parts(self, change: Callable[[Any], Any]) -> "OutputVocabulary":
        parts = {"slots": self.slots, "candidates": self.candidates}
        return self._replace(**{name: change(part) for name, part in parts.items() if part is not None})
