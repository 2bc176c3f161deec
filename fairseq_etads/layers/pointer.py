"""Pointer heads: probabilities over the words that the model knows and the words of the document.

All probabilities are combined as logarithms in float32 (float64 for float64 models), whatever the model's dtype.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..kernels.precision import at_least_float32, in_float32, keep_float32
from ..vocabulary.output import BatchVocab
from .continuation import Continuation, CopyHistory

KINDS = ("none", "soft", "switch")
_IMPOSSIBLE = -1e30
"""Stands for log 0 where gradients must pass, since minus infinity would turn them into NaN."""
_CERTAIN = 1e4
"""Logit of a probability of 1."""


class WordLogProbs(NamedTuple):
    """log P_vocab of the words that a loss needs, instead of log P_vocab (N, T, C) of all words.

    Attributes:
        width: C.
        target: values (N, T) for the target words; those for slots are not used.
        in_document: values (N, T, U) for the distinct words of the document; U = 0 if they are not needed.
        total: sum (N, T) over the words that label smoothing counts; 0 without label smoothing.
    """

    width: int
    target: Tensor
    in_document: Tensor
    total: Tensor


LogVocab = Union[Tensor, WordLogProbs]
"""log P_vocab (N, T, C), at least float32, or the parts of it that are needed."""


class Selection(NamedTuple):
    """Words of B documents that a pointer may copy, from a content selector (Gehrmann et al. 2018, section 4).

    Attributes:
        probabilities: q (B, S), float; negative at sentence marks and at padding, which have none.
        threshold: epsilon: words with q above it may be copied. If a document has no such word, all may.
        factor: lambda, the factor of the probability of copying these words.
    """

    probabilities: Tensor
    threshold: float
    factor: float

    def masked(self) -> Tensor:
        """Mask of words that may not be copied, (B, S) bool."""
        chosen, known = self.probabilities > self.threshold, self.probabilities >= 0
        none_chosen = ~(chosen & known).any(dim=1, keepdim=True)
        return known & ~chosen & ~none_chosen


@dataclass
class PointerOutput:
    """A pointer head's decisions for T summary words of each of N hypotheses.

    Words are named by their columns (see ``vocabulary/output.py``): first the C columns of the softmax, then K
    slots.

    Attributes:
        log_copy: (N, T, S), float32, log of the copy attention; minus infinity at positions without a word.
        gate: (N, T), float32, logit of p_gen, the probability of generating instead of copying.
        vocab: the batch's vocabulary; N is a multiple of its number of documents.
        kind: "soft" or "switch".
        hard: choose generating or copying, the more probable one, instead of mixing them. Words that only the other one
            could produce then have probability 0; :meth:`mixed` has their mixed probability.
        selective: words of the document without any copy attention cannot be copied. Otherwise they have the smallest
            possible probability, so that the loss stays finite.
    """

    log_copy: Tensor
    gate: Tensor
    vocab: BatchVocab
    kind: str
    hard: bool
    selective: bool = False

    def _expand(self, table: Tensor) -> Tensor:
        """Expand a per-document table (B, …) of the vocabulary to (N, T, …)."""
        rows = self.vocab.expand_rows(table, self.gate)
        return rows[:, None].expand(-1, self.gate.shape[1], -1)

    def _log_gates(self) -> Tuple[Tensor, Tensor]:
        """Logarithms of p_gen and 1 - p_gen, both (N, T)."""
        gate = self.gate
        if self.hard:
            gate = torch.where(gate >= 0, _CERTAIN, -_CERTAIN)
        return F.logsigmoid(gate), F.logsigmoid(-gate)

    def mixed(self) -> "PointerOutput":
        """Return the same pointer with generating and copying mixed."""
        return replace(self, hard=False)

    def selected(self, selection: Selection) -> "PointerOutput":
        """Return the same pointer restricted to the selected words, with a higher probability of copying them.

        P(w) is proportional to p_gen P_vocab(w) + (1 - p_gen) λ (sum of ã_j over the positions j of w), where ã is the
        copy attention, 0 at masked words (Gehrmann et al. 2018, section 4; the released program does not divide by the
        sum over all words). The attention that reads the document is not masked.

        With A = sum of ã_j, this is a pointer with the copy attention ã / A and the odds of generating divided by λ A.
        If none of the words that may be copied has attention, it generates.
        """
        masked = self.vocab.expand_rows(selection.masked(), self.gate)[:, None]  # (N, 1, S)
        log_copy = self.log_copy.masked_fill(masked, -math.inf)
        log_mass = log_copy.logsumexp(dim=2)  # log A, (N, T)
        # A row without masked words must stay exactly the same when λ = 1, and so must a document without words.
        unchanged = ~masked.any(dim=2) | self.log_copy.isneginf().all(dim=2)
        log_mass = log_mass.masked_fill(unchanged, 0)
        log_copy = log_copy - log_mass.masked_fill(log_mass.isneginf(), 0)[:, :, None]
        gate = (self.gate - log_mass - math.log(selection.factor)).clamp(max=_CERTAIN)
        gate = torch.where(self.gate >= _CERTAIN, self.gate, gate)
        return replace(self, log_copy=log_copy, gate=gate, selective=bool(masked.any()))

    def _log_copied(self) -> Tensor:
        """Sum the copy attention to each distinct word of the document over its positions.

        Returns the finite logarithm (N, T, U).
        """
        attention = self.log_copy.exp()
        sums = attention.new_zeros(self._expand(self.vocab.word_columns).shape)
        sums = sums.scatter_add(2, self._expand(self.vocab.word_numbers), attention)
        smallest = torch.finfo(sums.dtype).tiny  # the logarithm of this number and its gradient are finite
        return sums.clamp(min=smallest).log()

    def document_columns(self) -> Tensor:
        """Columns of each document's distinct words, expanded to (N, T, U); 0 fills shorter rows."""
        return self._expand(self.vocab.word_columns)

    def _document_words(self, log_vocab: LogVocab) -> Tuple[Tensor, Tensor]:
        """Compute log P of each distinct word of the document, by generating alone and with copying, (N, T, U) each."""
        columns, width = self.document_columns(), self.vocab.softmax_width  # (N, T, U)
        log_gen, log_point = self._log_gates()
        if isinstance(log_vocab, WordLogProbs):
            generated = log_vocab.in_document
        else:
            generated = log_vocab.gather(2, columns.clamp(max=width - 1))
        generated = generated + log_gen[:, :, None]
        generated = generated.masked_fill(columns >= width, _IMPOSSIBLE)  # slots cannot be generated
        return generated, torch.logaddexp(generated, self._log_copied() + log_point[:, :, None])

    def log_probs(self, logits: Tensor) -> Tensor:
        """log P(w) = log (p_gen P_vocab(w) + (1 - p_gen) sum of a_j over the positions j of w); eq. 14.

        With a hard switch, log P(w) is log P_vocab(w) where p_gen is at least 1/2, and the log of that sum elsewhere.

        Args:
            logits: (N, T', C) of the softmax, for the last T' of the T words (generation keeps only the last).

        Returns:
            (N, T', C + K), float32; minus infinity for slots that the document does not use, and for words that a hard
            switch excludes.
        """
        length = logits.shape[1]
        if length < self.gate.shape[1]:
            return replace(self, log_copy=self.log_copy[:, -length:], gate=self.gate[:, -length:]).log_probs(logits)
        log_vocab = F.log_softmax(at_least_float32(logits), dim=-1)
        columns, slots = self._expand(self.vocab.word_columns), self.vocab.output_width - logits.shape[2]
        if self.hard:
            pointing = (self.gate < 0)[:, :, None]
            scores = F.pad(log_vocab.masked_fill(pointing, -math.inf), (0, slots), value=-math.inf)  # (N, T', C + K)
            in_document = torch.where(pointing, self._log_copied(), scores.gather(2, columns))
        else:
            scores = _added_and_padded(log_vocab, self._log_gates()[0][:, :, None], slots)
            generated, in_document = self._document_words(log_vocab)
            if self.selective:
                impossible = self._log_copied() <= math.log(torch.finfo(torch.float32).tiny) + 1e-3
                alone = generated.masked_fill(columns >= logits.shape[2], -math.inf)
                in_document = torch.where(impossible, alone, in_document)
        is_word, width = self._expand(self.vocab.is_word), scores.shape[2]
        if torch.is_grad_enabled():  # other operations need the unchanged scores for their gradients
            # Fillers get a separate column. In column 0, bos would receive its gradient once for each filler.
            columns = columns.masked_fill(~is_word, width)
            return F.pad(scores, (0, 1)).scatter(2, columns, in_document)[:, :, :width]
        return scores.scatter_(2, columns, torch.where(is_word, in_document, scores.gather(2, columns)))

    def target_log_probs(self, log_vocab: LogVocab, target: Tensor) -> Tuple[Tensor, Tensor]:
        """Compute log P of given words without computing it for all words.

        Args:
            log_vocab: log P_vocab; see ``LogVocab``.
            target: (N, T), int64, columns.

        Returns:
            log P (N, T), and copying's share of P (N, T).
        """
        log_gen, log_point = self._log_gates()
        generated = log_gen + _log_prob_of(log_vocab, target)
        copied = log_point + self.log_copy.masked_fill(~self.positions_of(target), _IMPOSSIBLE).logsumexp(dim=2)
        return torch.logaddexp(generated, copied), torch.sigmoid(copied - generated)

    def supervised_log_probs(self, log_vocab: LogVocab, target: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        """Compute log P with a supervised switch (Nallapati et al., section 2.3): it must point exactly at words
        outside the vocabulary.

        Args:
            log_vocab, target: the arguments of :meth:`target_log_probs`.

        Returns:
            log P of the word, given the correct decision; log P of that decision; whether it is to point; each (N, T).
            The pointer's target is the word's first occurrence.
        """
        point = target >= self.vocab.softmax_width
        first = self.positions_of(target).int().argmax(dim=2, keepdim=True)
        pointed = self.log_copy.gather(2, first)[:, :, 0]
        word = torch.where(point, pointed, _log_prob_of(log_vocab, target))
        log_gen, log_point = F.logsigmoid(self.gate), F.logsigmoid(-self.gate)
        return word, torch.where(point, log_point, log_gen), point

    def sum_of_log_probs(self, log_vocab: LogVocab, total: Tensor, count: Any) -> Tuple[Tensor, Tensor]:
        """Sum of log P over the words that can be produced, and their number, for label smoothing.

        Args:
            log_vocab: log P_vocab; see ``LogVocab``.
            total: sum (N, T) of log P_vocab over the words that can be generated.
            count: number of these words, for all rows or one per row (N, 1).

        Returns:
            The sum (N, T), which includes the slots that the document uses; the count (N, 1).
        """
        log_gen = self._log_gates()[0]
        # Copying changes only the probabilities of the document's words, so the plain sum is corrected for them.
        generated, mixed = self._document_words(log_vocab)
        in_softmax = self.document_columns() < self.vocab.softmax_width
        change = mixed - torch.where(in_softmax, generated, torch.zeros_like(generated))
        change = change.masked_fill(~self._expand(self.vocab.is_word), 0).sum(dim=2)
        slots = self.vocab.expand_rows(self.vocab.slots_used[:, None], self.gate)
        return total + count * log_gen + change, slots + count

    def positions_of(self, target: Tensor) -> Tensor:
        """Return the mask (N, T, S) of the positions in the document of each word (N, T), given as a column."""
        return (self._expand(self.vocab.source_columns) == target[:, :, None]) & self._expand(self.vocab.copyable)

    def copied_from(self, logits: Tensor, target: Tensor) -> Tensor:
        """Source position that each word (N, T) was copied from, or -1 where generating was more probable. Returns (N,
        T).

        If the word has several positions, it is the one with the most copy attention. ``logits`` (N, T, C).
        """
        _, share = self.target_log_probs(F.log_softmax(at_least_float32(logits), dim=-1), target)
        matches = self.positions_of(target)
        position = self.log_copy.masked_fill(~matches, _IMPOSSIBLE).argmax(dim=2)
        return position.masked_fill((share <= 0.5) | ~matches.any(dim=2), -1)


def _added_and_padded(log_vocab: Tensor, added: Tensor, slots: int) -> Tensor:
    """Add log_vocab (N, T, C) + added (N, T, 1), then append ``slots`` columns of minus infinity; without gradient in
    one pass.
    """
    if torch.is_grad_enabled():
        return F.pad(log_vocab + added, (0, slots), value=-math.inf)
    rows, steps, width = log_vocab.shape
    scores = log_vocab.new_empty(rows, steps, width + slots)
    torch.add(log_vocab, added, out=scores[:, :, :width])
    scores[:, :, width:] = -math.inf
    return scores


def _log_prob_of(log_vocab: LogVocab, target: Tensor) -> Tensor:
    """log P_vocab (N, T) of columns (N, T); almost minus infinity for slots, which cannot be generated."""
    if isinstance(log_vocab, WordLogProbs):
        return log_vocab.target.masked_fill(target >= log_vocab.width, _IMPOSSIBLE)
    width = log_vocab.shape[2]
    picked = log_vocab.gather(2, target.clamp(max=width - 1)[:, :, None])[:, :, 0]
    return picked.masked_fill(target >= width, _IMPOSSIBLE)


class PointerHead(nn.Module):
    """The switch between generating and copying: p_gen = sigmoid(w·h + b).

    Args:
        features: width of h.
        kind: "soft" mixes both distributions (eq. 14); "switch" is trained to choose between them and, in evaluation,
            takes the more probable one (Nallapati et al. 2016, section 2.3).
        continues: use the summary's :class:`CopyHistory`, so that the pointer can continue copying where it stopped.
    """

    def __init__(self, features: int, kind: str, continues: bool = False):
        super().__init__()
        if kind not in KINDS[1:]:
            raise ValueError(f'--pointer "{kind}": choose one of {", ".join(KINDS)}')
        self.kind = kind
        self.gate = keep_float32(nn.Linear(features, 1))
        nn.init.xavier_uniform_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)
        self.continuation = Continuation(features) if continues else None

    def begin_generating(self, probability: float) -> None:
        """Initialise p_gen to this value in every state: w = 0 and b = its logit.

        A pretrained decoder can already write. It would otherwise lose half of each probability to an untrained copy
        attention.
        """
        nn.init.zeros_(self.gate.weight)
        nn.init.constant_(self.gate.bias, math.log(probability / (1 - probability)))

    def point(
        self, states: Tensor, scores: Tensor, vocab: BatchVocab, history: Optional[CopyHistory] = None
    ) -> PointerOutput:
        """Combine p_gen with a copy attention.

        Args:
            states: states h (N, T, features).
            scores: logits of the copy attention (N, T, S), float32; their values at positions without a word do not
                matter.
            history: the history of the summary so far; required if the pointer ``continues``.
        """
        copyable = vocab.expand_rows(vocab.copyable, states)[:, None]  # (N, 1, S)
        gate = in_float32(self.gate, states)[:, :, 0]  # (N, T)
        if self.continuation is not None:
            if history is None:
                raise ValueError("--pointer-continue needs the history of the summary")
            more_score, more_gate = self.continuation(states, history, copyable)
            scores, gate = scores + more_score, gate + more_gate
        empty = ~copyable.any(dim=2)  # (N, 1), True for documents without a word
        # A softmax over no words would be NaN. A document without words therefore gets no attention, and its gate only
        # generates.
        log_copy = scores.masked_fill(~(copyable | empty[:, :, None]), -math.inf).log_softmax(dim=2)
        log_copy = log_copy.masked_fill(empty[:, :, None], -math.inf)
        hard = self.kind == "switch" and not self.training
        return PointerOutput(log_copy, gate.masked_fill(empty, _CERTAIN), vocab, self.kind, hard)

    def history(self, previous: Tensor, source: Tensor, steps: int, unk: int) -> Optional[CopyHistory]:
        """The :class:`CopyHistory` of the summaries so far for :meth:`point`; None if the pointer does not need it."""
        return None if self.continuation is None else CopyHistory.of(previous, source, steps, unk)


class Pointer(PointerHead):
    """A pointer with its own copy attention, computed from the decoder's last states.

    a = softmax(W h·u + b_copy) over the encoder's outputs u (Aggregation Transformer, eq. 11 and 12). The paper's W is
    the identity. With a learned W, the same state can predict a word to copy and a word to generate. Logits are divided
    by the root of the width, as everywhere in a Transformer.

    Args:
        state_dim: width of decoder states.
        memory_dim: width of encoder outputs.
        kind, continues: the arguments of :class:`PointerHead`.
    """

    def __init__(self, state_dim: int, memory_dim: int, kind: str, continues: bool = False):
        super().__init__(state_dim, kind, continues)
        self.query = nn.Linear(state_dim, memory_dim)
        self.scale = memory_dim**-0.5
        nn.init.xavier_uniform_(self.query.weight)
        nn.init.zeros_(self.query.bias)

    def forward(
        self, states: Tensor, memory: Tensor, vocab: BatchVocab, history: Optional[CopyHistory] = None
    ) -> PointerOutput:
        """Point from decoder states (N, T, d) to encoder outputs (S, B, d_enc); N is B or B times the beam size."""
        rows, length, _ = states.shape
        documents = memory.shape[1]
        query = at_least_float32(self.query(states) * self.scale).view(documents, -1, memory.shape[2])
        with torch.autocast(states.device.type, enabled=False):
            scores = torch.bmm(query, memory.permute(1, 2, 0).to(query.dtype))  # (B, N/B * T, S)
        return self.point(states, scores.view(rows, length, -1), vocab, history)


class AttentionPointer(PointerHead):
    """A pointer that copies by the decoder's own attention (Nallapati et al. 2016, section 2.3; See et al. 2017).

    In both papers p_gen depends on the decoder's state, the context and the previous word, concatenated: h here.
    """

    def forward(
        self, states: Tensor, log_weights: Tensor, vocab: BatchVocab, history: Optional[CopyHistory] = None
    ) -> PointerOutput:
        """Point with states h (N, T, features) and the logarithm of the attention (N, T, S).

        The attention is renormalised over the words.
        """
        return self.point(states, log_weights, vocab, history)
