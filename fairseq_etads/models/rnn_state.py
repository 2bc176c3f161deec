"""What the recurrent decoder carries from step to step, what each step reads, and what all steps have computed."""

from typing import Any, Dict, NamedTuple, Optional, Sequence, Type, Union

import torch
from torch import Tensor

from ..layers.additive import AdditiveAttention, DotAttention, DotKeys, SharedKeys, SharedStates


class DecoderState(NamedTuple):
    """What a step hands to the next one; a row for each hypothesis.

    Attributes:
        hidden: h (N, H).
        cell: c of an LSTM (N, H); None of a GRU.
        fed: what the cell will read beside the word: the context of the step before (N, M) or, with --input-feed
            readout, its readout (N, R); None where attention comes before the cell.
        spent: log of the sum of exp(scores) so far (N, S), minus infinity before the first step; None without temporal
            attention.
        covered: the sum of attention so far (N, S); None without coverage.
        plan, log_selection, selected: q (N, H), log p (N, L) and r (N, M) of the sentence that is being written, see
            :class:`~fairseq_etads.layers.sentence_selector.SentenceSelector`; None without a selector.
    """

    hidden: Tensor
    cell: Optional[Tensor] = None
    fed: Optional[Tensor] = None
    spent: Optional[Tensor] = None
    covered: Optional[Tensor] = None
    plan: Optional[Tensor] = None
    log_selection: Optional[Tensor] = None
    selected: Optional[Tensor] = None

    @property
    def query(self) -> Tensor:
        """What attention asks with: h, of an LSTM [c; h] (N, H or 2H)."""
        return self.hidden if self.cell is None else torch.cat([self.cell, self.hidden], dim=1)


class StepOutputs(NamedTuple):
    """What all steps have computed.

    Attributes:
        hidden: h (N, T, H). cells: c of an LSTM (N, T, H), or None.
        inputs: the vectors of the words before, or with --merge-input what the cell has read instead (N, T, E).
        contexts: (N, T, M). log_weights: log of the attention (N, T, S).
        log_word: the same before it was combined with that to sentences; None without --sentence-attention.
        log_selection: log p of the document's sentences (N, T, L), or None.
        readouts: what the output layer reads (N, T, R); None where nothing depends on it before all steps are done.
    """

    hidden: Tensor
    cells: Optional[Tensor]
    inputs: Tensor
    contexts: Tensor
    log_weights: Tensor
    log_word: Optional[Tensor] = None
    log_selection: Optional[Tensor] = None
    readouts: Optional[Tensor] = None

    @classmethod
    def stack(cls, steps: Sequence["StepOutputs"]) -> "StepOutputs":
        """What T steps have computed one after the other, each without the dimension T."""
        columns: Any = zip(*steps)
        return cls(*(None if column[0] is None else torch.stack(column, 1) for column in columns))  # type: ignore[arg-type]


Keys = Union[SharedKeys, DotKeys]
Attention = Union[AdditiveAttention, DotAttention]


def word_queries(attention: Optional[Attention], words: Tensor) -> Sequence[Optional[Tensor]]:
    """What the words before (N, T, E) contribute to attention's queries: (N, A) for each step, or None for each."""
    if attention is None or attention.from_word is None:
        return [None] * words.shape[1]
    return attention.from_word(words).unbind(1)


class EncodedDocuments(NamedTuple):
    """The encoder's output, as every step reads it: a row for each of B documents or, where it says N, each hypothesis.

    Attributes:
        states: the encoder's states (B, S, M). keys: W_c h (B, S, A). padding: (N, S) bool, True at padding.
        sentence_keys: (B, L, A) for L sentences. sentence_ids: (N, S). sentence_padding: (N, L) bool.
            sentence_states: (B, L, M). None without hierarchical attention.
        log_selected: log of the probability of each word's sentence (N, S); None without --sentence-attention.
    """

    states: SharedStates
    keys: Keys
    padding: Tensor
    sentence_keys: Optional[Keys] = None
    sentence_ids: Optional[Tensor] = None
    sentence_padding: Optional[Tensor] = None
    log_selected: Optional[Tensor] = None
    sentence_states: Optional[SharedStates] = None

    @classmethod
    def of(cls, encoder_out: Dict[str, Any], rows: int, keys: Type[Keys]) -> "EncodedDocuments":
        """From the encoder's output, for N = ``rows`` hypotheses, with keys of the kind that the attention compares."""
        beams = rows // count_documents(encoder_out)
        documents = cls(
            SharedStates(encoder_out["encoder_out"][0]),
            keys(encoder_out["keys"][0]),
            encoder_out["encoder_padding_mask"][0].repeat_interleave(beams, dim=0),
        )
        if "log_selected" in encoder_out:
            log_selected = encoder_out["log_selected"][0].repeat_interleave(beams, dim=0)
            documents = documents._replace(log_selected=log_selected)
        if "sentence_keys" not in encoder_out:
            return documents
        return documents._replace(
            sentence_keys=keys(encoder_out["sentence_keys"][0]),
            sentence_ids=encoder_out["sentence_ids"][0].repeat_interleave(beams, dim=0),
            sentence_padding=encoder_out["sentence_padding_mask"][0].repeat_interleave(beams, dim=0),
            sentence_states=SharedStates(encoder_out["sentence_states"][0]),
        )


def count_documents(encoder_out: Dict[str, Any]) -> int:
    """B, the number of documents."""
    return len(encoder_out["encoder_out"][0])


def select_rows(rows: Tensor, new: Optional[Tensor], old: Optional[Tensor]) -> Optional[Tensor]:
    """``new`` in the rows (N,) that are True, ``old`` in the others; None if there is none."""
    return None if new is None or old is None else torch.where(rows[:, None], new, old)
