"""Pointer heads: probabilities over the words that the model knows and the words of the document.

All probabilities are combined as logarithms in float32 (float64 for float64 models), whatever the model computes in.
"""

from dataclasses import dataclass
from typing import Any, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import at_least_float32
from ..vocabulary.batch_vocab import BatchVocab

KINDS = ("none", "soft", "switch")
_IMPOSSIBLE = -1e30
"""Logarithm of a probability of 0 where a gradient has to pass: with minus infinity it would be NaN."""
_CERTAIN = 1e4
"""Logit of a probability of 1."""


def pointer_of(model: Any) -> "Optional[PointerHead]":
    """A model's pointer head, or None."""
    return getattr(getattr(model, "decoder", None), "pointer", None)


@dataclass
class PointerOutput:
    """What a pointer head says about T summary words of N hypotheses.

    Attributes:
        log_copy: (N, T, S), float32, log of the copy attention; minus infinity at positions without a word.
        gate: (N, T), float32, logit of p_gen, the probability of generating instead of copying.
        vocab: the batch's vocabulary; N is a multiple of its number of documents.
        kind: "soft" or "switch".
        hard: decide for the likelier of generating and copying instead of mixing them.
    """

    log_copy: Tensor
    gate: Tensor
    vocab: BatchVocab
    kind: str
    hard: bool

    def last(self, length: int) -> "PointerOutput":
        """The last ``length`` steps."""
        return PointerOutput(self.log_copy[:, -length:], self.gate[:, -length:], self.vocab, self.kind, self.hard)

    def _table(self, table: Tensor) -> Tensor:
        """A table (B, …) of the vocabulary as (N, T, …)."""
        rows = self.vocab.rows(table, self.gate)
        return rows[:, None].expand(-1, self.gate.shape[1], -1)

    def _log_gates(self) -> Tuple[Tensor, Tensor]:
        """log p_gen and log (1 - p_gen), both (N, T)."""
        gate = self.gate
        if self.hard:
            gate = torch.where(gate >= 0, _CERTAIN, -_CERTAIN)
        return F.logsigmoid(gate), F.logsigmoid(-gate)

    def _mixed(self, log_vocab: Tensor) -> Tuple[Tensor, Tensor]:
        """For each distinct word of the documents: log P without and with copying, (N, T, U).

        Args:
            log_vocab: (N, T, V), log P_vocab.
        """
        words, known = self._table(self.vocab.words), self.vocab.known
        log_gen, log_point = self._log_gates()
        generated = log_vocab.gather(2, words.clamp(max=known - 1)) + log_gen[:, :, None]
        generated = generated.masked_fill(words >= known, _IMPOSSIBLE)
        mass = torch.zeros_like(generated).scatter_add(2, self._table(self.vocab.column), self.log_copy.exp())
        smallest = torch.finfo(mass.dtype).tiny  # its logarithm is finite, and so is the gradient
        copied = mass.clamp(min=smallest).log() + log_point[:, :, None]
        return generated, torch.logaddexp(generated, copied)

    def log_probs(self, logits: Tensor) -> Tensor:
        """log P(w) = log (p_gen P_vocab(w) + (1 - p_gen) sum of a_j over the positions j of w); eq. 14.

        Args:
            logits: (N, T, V), of the words that the model knows.

        Returns:
            (N, T, V + K), float32; minus infinity for slots that the document does not have.
        """
        log_vocab = F.log_softmax(at_least_float32(logits), dim=-1)
        words = self._table(self.vocab.words)
        mixed = self._mixed(log_vocab)[1]
        scores = log_vocab + self._log_gates()[0][:, :, None]
        scores = F.pad(scores, (0, self.vocab.size - logits.shape[2]), value=float("-inf"))
        mixed = torch.where(self._table(self.vocab.is_word), mixed, scores.gather(2, words))
        return scores.scatter(2, words, mixed)

    def target_log_probs(self, log_vocab: Tensor, target: Tensor) -> Tuple[Tensor, Tensor]:
        """log P of given words without computing it for all words.

        Args:
            log_vocab: (N, T, V), float32, log P_vocab.
            target: (N, T), int64, extended ids.

        Returns:
            log P (N, T) and the share of P that copying contributes (N, T).
        """
        log_gen, log_point = self._log_gates()
        generated = log_gen + _log_prob_of(log_vocab, target)
        copied = log_point + self.log_copy.masked_fill(~self.positions_of(target), _IMPOSSIBLE).logsumexp(dim=2)
        return torch.logaddexp(generated, copied), torch.sigmoid(copied - generated)

    def supervised_log_probs(self, log_vocab: Tensor, target: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        """Nallapati et al., section 2.3: the switch is told to point exactly where the word is not in the vocabulary.

        Args:
            log_vocab, target: as for :meth:`target_log_probs`.

        Returns:
            log P of the word, given the right decision; log P of that decision; whether it is to point; each (N, T).
            A word that occurs several times is pointed at where it occurs first.
        """
        point = target >= log_vocab.shape[2]
        first = self.positions_of(target).int().argmax(dim=2, keepdim=True)
        pointed = self.log_copy.gather(2, first)[:, :, 0]
        word = torch.where(point, pointed, _log_prob_of(log_vocab, target))
        log_gen, log_point = F.logsigmoid(self.gate), F.logsigmoid(-self.gate)
        return word, torch.where(point, log_point, log_gen), point

    def sum_of_log_probs(self, log_vocab: Tensor, total: Tensor, count: Any) -> Tuple[Tensor, Tensor]:
        """Sum of log P over the words that can be produced, and how many they are: what label smoothing needs.

        Args:
            log_vocab: (N, T, V), float32, log P_vocab.
            total: (N, T), its sum over the known words that can be produced. count: how many these are, or (N, 1).

        Returns:
            the sum (N, T), which also ranges over the document's own words; the count (N, 1).
        """
        log_gen = self._log_gates()[0]
        # mixing changes only the words of the document: correct the plain sum for those
        generated, mixed = self._mixed(log_vocab)
        known = self._table(self.vocab.words) < log_vocab.shape[2]
        change = mixed - torch.where(known, generated, torch.zeros_like(generated))
        change = change.masked_fill(~self._table(self.vocab.is_word), 0).sum(dim=2)
        own = self.vocab.rows(self.vocab.own_words[:, None], self.gate)
        return total + count * log_gen + change, own + count

    def positions_of(self, target: Tensor) -> Tensor:
        """Where in the document each of the words (N, T) stands: (N, T, S) bool."""
        return (self._table(self.vocab.source) == target[:, :, None]) & self._table(self.vocab.copyable)

    def copied_from(self, logits: Tensor, target: Tensor) -> Tensor:
        """Source positions (by most attention) of the words (N, T) that are rather copied than generated; else -1."""
        _, share = self.target_log_probs(F.log_softmax(at_least_float32(logits), dim=-1), target)
        matches = self.positions_of(target)
        position = self.log_copy.masked_fill(~matches, _IMPOSSIBLE).argmax(dim=2)
        return position.masked_fill((share <= 0.5) | ~matches.any(dim=2), -1)


def _log_prob_of(log_vocab: Tensor, target: Tensor) -> Tensor:
    """log P_vocab (N, T) of extended ids (N, T); words that cannot be generated get a very small one."""
    size = log_vocab.shape[2]
    picked = log_vocab.gather(2, target.clamp(max=size - 1)[:, :, None])[:, :, 0]
    return picked.masked_fill(target >= size, _IMPOSSIBLE)


class _FloatLinear(nn.Linear):
    """A linear layer that computes in float32 or better, whatever its input and weights are in."""

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(at_least_float32(x), at_least_float32(self.weight), at_least_float32(self.bias))


class PointerHead(nn.Module):
    """The probability of generating instead of copying, p_gen = sigmoid(w·h + b), and what to do with it.

    Args:
        features: width of h.
        kind: "soft" mixes both distributions (eq. 14); "switch" is trained to tell them apart and, in evaluation,
            takes the likelier one (Nallapati et al. 2016, section 2.3).
    """

    decides = True
    """Whether a switch takes the likelier of generating and copying in evaluation; if not, it mixes them."""

    def __init__(self, features: int, kind: str):
        super().__init__()
        if kind not in KINDS[1:]:
            raise ValueError(f'--pointer "{kind}": choose one of {", ".join(KINDS)}')
        self.kind = kind
        self.gate = _FloatLinear(features, 1)
        nn.init.xavier_uniform_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)

    def point(self, states: Tensor, scores: Tensor, vocab: BatchVocab) -> PointerOutput:
        """h (N, T, features) and logits of the copy attention (N, T, S), float32, of any value where no word is."""
        copyable = vocab.rows(vocab.copyable, states)[:, None]  # (N, 1, S)
        nothing = ~copyable.any(dim=2)  # (N, 1)
        # a softmax over no word at all would be NaN; such a document gets no attention and a gate that needs none
        log_copy = scores.masked_fill(~(copyable | nothing[:, :, None]), float("-inf")).log_softmax(dim=2)
        log_copy = log_copy.masked_fill(nothing[:, :, None], float("-inf"))
        gate = self.gate(states)[:, :, 0]
        hard = self.kind == "switch" and self.decides and not self.training
        return PointerOutput(log_copy, gate.masked_fill(nothing, _CERTAIN), vocab, self.kind, hard)


class Pointer(PointerHead):
    """A pointer with a copy attention of its own, from the decoder's last states.

    a = softmax(W h·u + b_copy) over the encoder's outputs u (Aggregation Transformer, eq. 11 and 12). The paper's W is
    the identity; learning it lets the same state ask for a word to copy and for a word to generate. Logits are divided
    by the root of the width, as everywhere in a Transformer.

    Args:
        state_dim: width of decoder states. memory_dim: width of encoder outputs. kind: see :class:`PointerHead`.
    """

    def __init__(self, state_dim: int, memory_dim: int, kind: str):
        super().__init__(state_dim, kind)
        self.query = nn.Linear(state_dim, memory_dim)
        self.scale = memory_dim**-0.5
        nn.init.xavier_uniform_(self.query.weight)
        nn.init.zeros_(self.query.bias)

    def forward(self, states: Tensor, memory: Tensor, vocab: BatchVocab) -> PointerOutput:
        """Point from decoder states (N, T, d) into encoder outputs (S, B, d_enc); N is B times the beam, or B."""
        rows, length, _ = states.shape
        documents = memory.shape[1]
        query = (self.query(states) * self.scale).view(documents, -1, memory.shape[2])  # (B, N/B * T, d_enc)
        scores = at_least_float32(torch.bmm(query, memory.permute(1, 2, 0))).view(rows, length, -1)
        return self.point(states, scores, vocab)


class AttentionPointer(PointerHead):
    """A pointer that copies by the decoder's own attention (Nallapati et al. 2016, section 2.3; See et al. 2017).

    In both papers p_gen comes from the decoder's state, the context and the word before, put side by side: h here.
    """

    def forward(self, states: Tensor, log_weights: Tensor, vocab: BatchVocab) -> PointerOutput:
        """h (N, T, features) and the log of the attention (N, T, S), which is renormalised over the words."""
        return self.point(states, log_weights, vocab)
