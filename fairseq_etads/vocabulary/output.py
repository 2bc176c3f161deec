"""Translate between the different numbers of a word in a model's output.

A word has up to three numbers:

- its *id in the dictionary*: 0 … V-1 for words in the summary vocabulary, and V or more for words that can only be
  copied;
- its *extended id* in a batch: the same as the id if this is below V, and V + k for slot k of the document (see
  :class:`BatchVocab`). ``get_normalized_probs`` returns probabilities by extended id;
- its *column* in the decoder's logits: the same as the extended id, unless the softmax is computed over candidates only
  (see ``candidates.py``). The criterion and the pointer use columns.

The search uses extended ids. With a shortlist (see ``shortlist.py``), the search uses columns instead, so that none of
its tensors is as wide as the vocabulary. The numbers that the search uses are called *search ids*.
"""

import copy
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from .candidates import Candidates
from .dictionary import hide_unknown_words, known_words


def number_by_first_occurrence(ids: Tensor, wanted: Tensor) -> Tuple[Tensor, Tensor]:
    """Number the distinct ids in each row as 0, 1, … in the order of their first occurrence.

    Args:
        ids: (B, S), int64.
        wanted: bool mask (B, S), True at the positions to number.

    Returns:
        The numbers (B, S), int64, which are 0 at unwanted positions; and the counts (B,), int64, of distinct ids in
        each row.
    """
    positions = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    # A stable sort groups equal ids in the order of their occurrence, and moves unwanted positions to the end.
    ordered, order = ids.masked_fill(~wanted, torch.iinfo(ids.dtype).max).sort(dim=1, stable=True)
    starts_run = torch.ones_like(wanted)
    starts_run[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    starts_run &= wanted.gather(1, order)
    is_first = torch.zeros_like(wanted).scatter(1, order, starts_run)  # mask in the order of the text
    number_of_first = is_first.cumsum(dim=1) - 1
    run = positions.masked_fill(~starts_run, 0).cummax(dim=1).values  # start of each run of equal ids in the sorted row
    numbers = number_of_first.gather(1, order.gather(1, run))
    return torch.zeros_like(ids).scatter(1, order, numbers).masked_fill(~wanted, 0), is_first.sum(dim=1)


def _largest(counts: Sequence[Tensor], most: Optional[int]) -> List[int]:
    """Return the maximum of each tensor (B,), or 0 if B is 0, but wait for a GPU only once.

    If ``most`` is given, it is returned for each tensor instead.
    """
    if most is not None:
        return [most] * len(counts)
    found: List[int] = torch.stack(list(counts)).amax(dim=1).tolist() if counts[0].numel() else [0] * len(counts)
    return found


class BatchVocab:
    """The vocabulary for a batch of B documents: V known words, and K slots for other words of the documents.

    The distribution of a pointer has a *column* for each word of the softmax, followed by a column for each slot. If
    there are no candidates, the softmax is computed over all V words, and columns are equal to extended ids.

    Args:
        src_tokens: documents (B, S), int64, ids of the dictionary.
        known_words: V, the number of known words.
        pad, bos, eos, unk: ids of the special symbols. The first three symbols are never copied.
        candidates: words over which the softmax is computed, including all words of the documents, or None for all V
            words.
        bounded: whether to set K and U to S, their maximum, on a GPU, instead of waiting for the actual numbers. The
            results are the same, but a distribution over all columns is wider.

    Attributes:
        known_words: V, the number of known words.
        softmax_width: number of columns in the softmax, which is V or the number of candidates.
        output_width: total number of columns, softmax_width + K, where K is the largest number of slots for a document.
        slots_used: number (B,) of slots that each document uses.
        copyable: bool mask (B, S), True at words and False at padding, start symbols and end symbols.
        source_columns: column (B, S) of the word at each position of the document.
        word_columns: columns (B, U) of the distinct words in each document, in the order of their first occurrence.
            Rows with fewer than U words are filled with 0, the start symbol, which is never copied.
        is_word: bool mask (B, U), True at words and False at fillers.
        word_numbers: index (B, S) of the word at each position among the distinct words of its document; 0 at positions
            that are not copyable.
    """

    def __init__(
        self,
        src_tokens: Tensor,
        known_words: int,
        *,
        pad: int,
        bos: int,
        eos: int,
        unk: int,
        candidates: Optional[Candidates] = None,
        bounded: bool = False,
    ):
        most = src_tokens.shape[1] if bounded and src_tokens.is_cuda else None
        self.known_words = known_words
        self.softmax_width = known_words if candidates is None else len(candidates)
        self.unk = unk
        outside = src_tokens >= known_words  # True at words that the model does not know
        slots, self.slots_used = number_by_first_occurrence(src_tokens, outside)
        self.copyable = (src_tokens != pad) & (src_tokens != bos) & (src_tokens != eos)
        self.word_numbers, distinct = number_by_first_occurrence(src_tokens, self.copyable)
        slot_count, width = _largest([self.slots_used, distinct], most)
        width = max(1, width)  # U
        self.output_width = self.softmax_width + slot_count
        # Dictionary ids of the slots (B, K). An extra column collects the positions without a slot and is dropped
        # afterwards.
        table = src_tokens.new_full((len(src_tokens), slot_count + 1), unk)
        table = table.scatter(1, torch.where(outside, slots, slot_count), src_tokens.masked_fill(~outside, unk))
        self.slot_words = table[:, :slot_count]

        extended = torch.where(outside, slots + known_words, src_tokens)
        self.source_columns = extended if candidates is None else candidates.columns(extended)
        self.is_word = torch.arange(width, device=src_tokens.device) < distinct[:, None]
        columns = src_tokens.new_zeros(len(src_tokens), width + 1)
        columns = columns.scatter(1, torch.where(self.copyable, self.word_numbers, width), self.source_columns)
        self.word_columns = columns[:, :width].masked_fill(~self.is_word, 0)

    def select(self, documents: Tensor) -> "BatchVocab":
        """Return the vocabulary for the documents with the given indices (N,), which may be repeated.

        The widths stay the same, because the width of scores must not change when documents are removed from a batch.
        """
        return self._with_each(lambda table: table.index_select(0, documents))

    def to(self, device: Union[str, torch.device]) -> "BatchVocab":
        """Return a copy of the vocabulary with all tensors moved to ``device``."""
        return self._with_each(lambda table: table.to(device))

    def _with_each(self, change: Callable[[Tensor], Tensor]) -> "BatchVocab":
        """Return a copy in which each tensor is replaced with the result of ``change``."""
        changed = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(changed, name, change(value))
        return changed

    def encode(self, tokens: Tensor) -> Tensor:
        """Convert ids of the dictionary to extended ids.

        Words that neither the model knows nor the document contains become the unknown word.

        Args:
            tokens: ids (N, T), int64. N is a multiple of B, and the rows of the same document are adjacent.
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
        """Convert extended ids (N, T) to ids of the dictionary.

        A slot that the document does not use becomes the unknown word.

        Args:
            tokens: extended ids. The rows of the same document are adjacent.
            document: index of the document to which all rows belong, or None if there may be several documents.
        """
        table = self.slot_words if document is None else self.slot_words[document : document + 1]
        slot_words = self.expand_rows(table, tokens)
        if slot_words.shape[1] == 0:
            return tokens
        words = slot_words.gather(1, (tokens - self.known_words).clamp(min=0, max=slot_words.shape[1] - 1))
        return torch.where(tokens >= self.known_words, words, tokens)

    @staticmethod
    def expand_rows(table: Tensor, like: Tensor) -> Tensor:
        """Repeat the rows of a table (B, …) with one row per document, so that each row of ``like`` has its own row."""
        repeats, rest = divmod(len(like), max(1, len(table)))
        if rest:
            raise ValueError(f"{len(like)} rows cannot be divided evenly among {len(table)} documents")
        return table if repeats == 1 else table.repeat_interleave(repeats, dim=0)


class OutputVocabulary(NamedTuple):
    """The words in the distributions for a batch of B documents.

    Methods expect ids (N, T), int64. N is a multiple of B, and the rows of the same document are adjacent.

    Attributes:
        known_words: V, the number of known words.
        unk: id of the unknown word.
        slots: words of the documents that can be copied, or None for a model without a pointer.
        candidates: words over which the softmax is computed, or None for all V words.
        by_column: whether ``get_normalized_probs`` returns probabilities by column, so that search ids are columns.
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
        """Create the output vocabulary for documents (B, S), with slots if the model has a ``pointer``.

        Args:
            bounded: see :class:`BatchVocab`.
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
        """Convert ids of the dictionary to extended ids.

        Words that neither the model knows nor the document contains become the unknown word.
        """
        if self.slots is None:
            return hide_unknown_words(tokens, self.known_words, self.unk)
        return self.slots.encode(tokens)

    def target_columns(self, tokens: Tensor) -> Tensor:
        """Convert ids of the dictionary to columns. Words without a column become the unknown word."""
        extended = self.extended_ids(tokens)
        return extended if self.candidates is None else self.candidates.columns(extended)

    def producible_ids(self, tokens: Tensor) -> Tensor:
        """Convert ids like :meth:`extended_ids`, but also replace words without a column with the unknown word.

        The model assigns a probability to all resulting words.
        """
        extended = self.extended_ids(tokens)
        if self.candidates is None:
            return extended
        return extended.masked_fill(self.candidates.columns(extended) == self.unk, self.unk)

    def search_ids(self, tokens: Tensor) -> Tensor:
        """Convert ids of the dictionary to search ids. Words without a search id become the unknown word."""
        return self.target_columns(tokens) if self.by_column else self.extended_ids(tokens)

    def _from_search(self, search_ids: Tensor) -> Tensor:
        """Convert search ids of any shape to extended ids."""
        if self.by_column and self.candidates is not None:
            return self.candidates.extended_ids(search_ids)
        return search_ids

    def by_search_id(self, scores: Tensor) -> Tensor:
        """Reorder log-probabilities (N, T, C + K) by column to log-probabilities by search id.

        Words without a column have the value minus infinity.
        """
        return scores if self.by_column or self.candidates is None else self.candidates.spread(scores)

    def dictionary_ids(self, search_ids: Tensor, document: Optional[int] = None) -> Tensor:
        """Convert search ids (N, T), or search ids (T,) of one document's summary, to ids of the dictionary."""
        extended = self._from_search(search_ids)
        if self.slots is None:
            return extended
        return self.slots.decode(extended) if document is None else self.slots.decode(extended[None], document)[0]

    def known_ids(self, search_ids: Tensor) -> Tensor:
        """Convert search ids of any shape to ids of known words, for models without a pointer.

        Slots become the unknown word.
        """
        return hide_unknown_words(self._from_search(search_ids), self.known_words, self.unk)

    def add_known_scores(self, scores: Tensor, known: Tensor) -> None:
        """Add the scores of a model that has only known words to other scores, in place.

        The other scores (…, V + K) or (…, C + K) are indexed by search id.

        Args:
            known: scores (…, at least V), indexed by id. The score of the unknown word is added to each slot.
        """
        if self.by_column and self.candidates is not None:
            own = known[..., self.candidates.words]  # (…, C)
        else:
            own = known[..., : self.known_words]
        scores[..., : own.shape[-1]] += own
        scores[..., own.shape[-1] :] += known[..., self.unk, None]

    def own_words(self, words: Tensor, document: int) -> Tensor:
        """Convert ids (n,) of the dictionary to search ids (m,).

        Words that the summary of the document cannot contain are left out.
        """
        vocabulary = self.select(torch.tensor([document], device=words.device))
        translate = vocabulary.target_columns if self.by_column else vocabulary.producible_ids
        ids = translate(words[None])[0]
        return ids[ids.ne(self.unk) | words.eq(self.unk)]

    def to(self, device: Union[str, torch.device]) -> "OutputVocabulary":
        """Return a copy of the vocabulary with all tensors moved to ``device``."""
        slots = None if self.slots is None else self.slots.to(device)
        candidates = None if self.candidates is None else self.candidates.to(device)
        return self._replace(slots=slots, candidates=candidates)

    def select(self, documents: Tensor) -> "OutputVocabulary":
        """Return the output vocabulary for the documents with the given indices (N,), which may be repeated."""
        slots = None if self.slots is None else self.slots.select(documents)
        candidates = None if self.candidates is None else self.candidates.select(documents)
        return self._replace(slots=slots, candidates=candidates)
