"""Pointer heads, which compute probabilities for known words and for words that are copied from the document.

All probabilities are combined as logarithms in float32, or in float64 for float64 models, even if the model uses half
precision.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..kernels.linear import apply_in_float32, mark_as_float32_layer, widen_to_float32
from ..vocabulary.output import BatchVocab

KINDS = ("none", "soft", "switch")
FIRST_VALUES = (1.5, 1.5, 0.0)
"""The initial values v_1, v_2 and v_3 of the three features in :class:`CopyContinuationTerms`."""
_IMPOSSIBLE = -1e30
"""Value that represents log 0 when gradients are computed. Minus infinity would cause NaN gradients."""
_CERTAIN = 1e4
"""Logit that represents a probability of 1."""


class WordLogProbs(NamedTuple):
    """Values of log P_vocab for only the words that a loss function needs, instead of all words (N, T, C).

    Attributes:
        width: C, the number of columns in the softmax.
        target: log P_vocab of the target words (N, T). The values for slots are not used.
        in_document: log P_vocab of the U distinct words in the document (N, T, U). U is 0 if they are not needed.
        total: the sum of log P_vocab over the words that label smoothing includes (N, T), or 0 without label smoothing.
    """

    width: int
    target: Tensor
    in_document: Tensor
    total: Tensor


LogVocab = Union[Tensor, WordLogProbs]
"""Values of log P_vocab for all words (N, T, C), in float32 or higher precision, or only for the required words."""


class Selection(NamedTuple):
    """The words of B documents that a content selector allows a pointer to copy (Gehrmann et al. 2018, section 4).

    Attributes:
        probabilities: the selection probabilities q (B, S), float. At sentence marks and padding, which have no
            probability, they are negative.
        threshold: the threshold epsilon. Words with q above the threshold may be copied. If a document contains no such
            word, all of its words may be copied.
        factor: the factor lambda by which the probability of copying the selected words is multiplied.
    """

    probabilities: Tensor
    threshold: float
    factor: float

    def find_forbidden_words(self) -> Tensor:
        """Return a boolean mask (B, S) that is True for words that must not be copied."""
        chosen, known = self.probabilities > self.threshold, self.probabilities >= 0
        none_chosen = ~(chosen & known).any(dim=1, keepdim=True)
        return known & ~chosen & ~none_chosen


@dataclass
class PointerOutput:
    """The output of a pointer head for N hypotheses of T words each.

    Words are represented by columns (see ``vocabulary/output.py``). The C columns of the softmax are followed by K
    columns for slots.

    Attributes:
        log_copy: the logarithms of the copy attention (N, T, S), float32, which are minus infinity at positions without
            a word.
        gate: the logits (N, T), float32, of p_gen, the probability of generating a word instead of copying one.
        vocab: the vocabulary of the batch. N is a multiple of the number of documents in the batch.
        kind: the kind of pointer, "soft" or "switch".
        hard: whether to choose the more probable of generating and copying instead of mixing both distributions. Words
            that only the other distribution contains then have probability 0. :meth:`to_mixture` returns a mixture.
        selective: whether the copy probability of document words without copy attention is 0. Otherwise, it is a
            tiny positive number, which keeps the loss finite.
    """

    log_copy: Tensor
    gate: Tensor
    vocab: BatchVocab
    kind: str
    hard: bool
    selective: bool = False

    def _expand_rows(self, table: Tensor) -> Tensor:
        """Expand one of the vocabulary's tensors (B, …), which have one row per document, to (N, T, …)."""
        rows = self.vocab.expand_rows(table, self.gate)
        return rows[:, None].expand(-1, self.gate.shape[1], -1)

    def _compute_gate_log_probs(self) -> Tuple[Tensor, Tensor]:
        """Return the logarithms of p_gen and 1 - p_gen, both (N, T)."""
        gate = self.gate
        if self.hard:
            gate = torch.where(gate >= 0, _CERTAIN, -_CERTAIN)
        return F.logsigmoid(gate), F.logsigmoid(-gate)

    def to_mixture(self) -> "PointerOutput":
        """Return a copy that mixes generation and copying instead of choosing between them."""
        return replace(self, hard=False)

    def restrict_to_selection(self, selection: Selection) -> "PointerOutput":
        """Return a pointer output that copies only the selected words, with a higher probability.

        P(w) is proportional to p_gen P_vocab(w) + (1 - p_gen) λ (sum of ã_j over the positions j of w), where ã is the
        copy attention, set to 0 at masked words (Gehrmann et al. 2018, section 4; the released program does not
        normalise P). The decoder's own attention to the document is not masked.

        Let A be the sum of all ã_j. The result is equivalent to a pointer with the copy attention ã / A, in which the
        odds of generating are divided by λ A. If no word that may be copied receives attention, the next word is always
        generated.
        """
        masked = self.vocab.expand_rows(selection.find_forbidden_words(), self.gate)[:, None]  # (N, 1, S)
        log_copy = self.log_copy.masked_fill(masked, -math.inf)
        log_mass = log_copy.logsumexp(dim=2)  # log A, (N, T)
        # Apart from the factor λ, rows without masked words stay unchanged.
        log_mass = log_mass.masked_fill(~masked.any(dim=2), 0)
        log_copy = log_copy - log_mass.masked_fill(log_mass.isneginf(), 0)[:, :, None]
        gate = (self.gate - log_mass - math.log(selection.factor)).clamp(max=_CERTAIN)
        gate = torch.where(self.gate >= _CERTAIN, self.gate, gate)
        return replace(self, log_copy=log_copy, gate=gate, selective=bool(masked.any()))

    def _compute_copy_log_probs(self) -> Tensor:
        """Return finite logarithms (N, T, U) of the copy attention summed over each distinct word's positions."""
        attention = self.log_copy.exp()
        sums = attention.new_zeros(self._expand_rows(self.vocab.word_columns).shape)
        sums = sums.scatter_add(2, self._expand_rows(self.vocab.word_numbers), attention)
        smallest = torch.finfo(sums.dtype).tiny  # the logarithm of this number and its gradient are finite
        return sums.clamp(min=smallest).log()

    def get_document_columns(self) -> Tensor:
        """Return the columns (N, T, U) of the distinct words in each document, padded with 0."""
        return self._expand_rows(self.vocab.word_columns)

    def _compute_document_word_log_probs(self, log_vocab: LogVocab) -> Tuple[Tensor, Tensor]:
        """Return log P of each distinct word in the document, without and with copying, (N, T, U) each."""
        columns, width = self.get_document_columns(), self.vocab.softmax_width  # (N, T, U)
        log_gen, log_point = self._compute_gate_log_probs()
        if isinstance(log_vocab, WordLogProbs):
            generated = log_vocab.in_document
        else:
            generated = log_vocab.gather(2, columns.clamp(max=width - 1))
        generated = generated + log_gen[:, :, None]
        generated = generated.masked_fill(columns >= width, _IMPOSSIBLE)  # slots cannot be generated
        return generated, torch.logaddexp(generated, self._compute_copy_log_probs() + log_point[:, :, None])

    def compute_log_probs(self, logits: Tensor) -> Tensor:
        """Compute the log-probabilities of all words (equation 14).

        log P(w) = log (p_gen P_vocab(w) + (1 - p_gen) sum of a_j over the positions j of w). With a hard switch, log
        P(w) is log P_vocab(w) if p_gen is at least 1/2, and otherwise the logarithm of the sum of a_j.

        Args:
            logits: the logits (N, T', C) of the softmax for the last T' of the T words. During generation, T' is 1.

        Returns:
            The log-probabilities (N, T', C + K), float32. Slots that the document does not use and words that a hard
            switch excludes have a log-probability of minus infinity.
        """
        length = logits.shape[1]
        if length < self.gate.shape[1]:
            return replace(self, log_copy=self.log_copy[:, -length:], gate=self.gate[:, -length:]).compute_log_probs(
                logits
            )
        log_vocab = F.log_softmax(widen_to_float32(logits), dim=-1)
        columns, slots = self._expand_rows(self.vocab.word_columns), self.vocab.output_width - logits.shape[2]
        if self.hard:
            pointing = (self.gate < 0)[:, :, None]
            scores = F.pad(log_vocab.masked_fill(pointing, -math.inf), (0, slots), value=-math.inf)  # (N, T', C + K)
            in_document = torch.where(pointing, self._compute_copy_log_probs(), scores.gather(2, columns))
        else:
            scores = _add_and_pad_log_probs(log_vocab, self._compute_gate_log_probs()[0][:, :, None], slots)
            generated, in_document = self._compute_document_word_log_probs(log_vocab)
            if self.selective:
                impossible = self._compute_copy_log_probs() <= math.log(torch.finfo(torch.float32).tiny) + 1e-3
                alone = generated.masked_fill(columns >= logits.shape[2], -math.inf)
                in_document = torch.where(impossible, alone, in_document)
        is_word, width = self._expand_rows(self.vocab.is_word), scores.shape[2]
        if torch.is_grad_enabled():  # an in-place change would break the gradients of the scores
            # Write the padding of the word columns to a separate column, because writing to column 0 would add the
            # gradient of bos again.
            columns = columns.masked_fill(~is_word, width)
            return F.pad(scores, (0, 1)).scatter(2, columns, in_document)[:, :, :width]
        return scores.scatter_(2, columns, torch.where(is_word, in_document, scores.gather(2, columns)))

    def compute_target_log_probs(self, log_vocab: LogVocab, target: Tensor) -> Tuple[Tensor, Tensor]:
        """Compute log P of the target words only.

        Args:
            log_vocab: the log-probabilities log P_vocab of the softmax, in one of the two forms of ``LogVocab``.
            target: the columns of the target words (N, T), int64.

        Returns:
            log P of the target words (N, T), and the proportion (N, T) of P that is due to copying.
        """
        log_gen, log_point = self._compute_gate_log_probs()
        generated = log_gen + _gather_log_probs(log_vocab, target)
        copied = log_point + self.log_copy.masked_fill(~self.find_target_positions(target), _IMPOSSIBLE).logsumexp(
            dim=2
        )
        return torch.logaddexp(generated, copied), torch.sigmoid(copied - generated)

    def compute_supervised_log_probs(self, log_vocab: LogVocab, target: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        """Compute the log-probabilities that are needed to train a supervised switch (Nallapati et al., section 2.3).

        The switch is trained to choose copying for words outside the vocabulary, and generation for all other words.
        The target position for copying is the word's first occurrence in the document.

        Args:
            log_vocab: the log-probabilities log P_vocab of the softmax, in one of the two forms of ``LogVocab``.
            target: the columns of the target words (N, T), int64.

        Returns:
            Three tensors (N, T): log P of the word given the correct decision, log P of the correct decision, and a
            boolean mask that is True where the correct decision is to copy.
        """
        point = target >= self.vocab.softmax_width
        first = self.find_target_positions(target).int().argmax(dim=2, keepdim=True)
        pointed = self.log_copy.gather(2, first)[:, :, 0]
        word = torch.where(point, pointed, _gather_log_probs(log_vocab, target))
        log_gen, log_point = F.logsigmoid(self.gate), F.logsigmoid(-self.gate)
        return word, torch.where(point, log_point, log_gen), point

    def sum_log_probs(self, log_vocab: LogVocab, total: Tensor, count: Any) -> Tuple[Tensor, Tensor]:
        """Return the sum of log P over all possible words and the number of these words, for label smoothing.

        Args:
            log_vocab: the log-probabilities log P_vocab of the softmax, in one of the two forms of ``LogVocab``.
            total: the sum of log P_vocab over the words that can be generated (N, T).
            count: the number of words that can be generated, either one number for all rows or a tensor (N, 1).

        Returns:
            The sum (N, T) and the number of words (N, 1). Both include the slots that the document uses.
        """
        log_gen = self._compute_gate_log_probs()[0]
        # Copying changes only the probabilities of words in the document, so the sum is corrected for these words.
        generated, mixed = self._compute_document_word_log_probs(log_vocab)
        in_softmax = self.get_document_columns() < self.vocab.softmax_width
        change = mixed - torch.where(in_softmax, generated, torch.zeros_like(generated))
        change = change.masked_fill(~self._expand_rows(self.vocab.is_word), 0).sum(dim=2)
        slots = self.vocab.expand_rows(self.vocab.slots_used[:, None], self.gate)
        return total + count * log_gen + change, slots + count

    def find_target_positions(self, target: Tensor) -> Tensor:
        """Return a boolean mask (N, T, S), True at the document positions where each target word occurs.

        The target words (N, T) are given as columns.
        """
        return (self._expand_rows(self.vocab.source_columns) == target[:, :, None]) & self._expand_rows(
            self.vocab.copyable
        )

    def find_copied_positions(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the source position (N, T) from which each word was copied, or -1 if the word was probably generated.

        If a word occurs at several positions, the position with the most copy attention is returned.

        Args:
            logits: the logits of the softmax (N, T, C).
            target: the columns of the words in the summary (N, T).
        """
        _, share = self.compute_target_log_probs(F.log_softmax(widen_to_float32(logits), dim=-1), target)
        matches = self.find_target_positions(target)
        position = self.log_copy.masked_fill(~matches, _IMPOSSIBLE).argmax(dim=2)
        return position.masked_fill((share <= 0.5) | ~matches.any(dim=2), -1)


def _add_and_pad_log_probs(log_vocab: Tensor, added: Tensor, slots: int) -> Tensor:
    """Return log_vocab (N, T, C) + added (N, T, 1), padded with ``slots`` columns of minus infinity."""
    if torch.is_grad_enabled():
        return F.pad(log_vocab + added, (0, slots), value=-math.inf)
    rows, steps, width = log_vocab.shape
    scores = log_vocab.new_empty(rows, steps, width + slots)
    torch.add(log_vocab, added, out=scores[:, :, :width])
    scores[:, :, width:] = -math.inf
    return scores


def _gather_log_probs(log_vocab: LogVocab, target: Tensor) -> Tensor:
    """Return log P_vocab (N, T) for columns ``target`` (N, T), and a large negative number for slots."""
    if isinstance(log_vocab, WordLogProbs):
        return log_vocab.target.masked_fill(target >= log_vocab.width, _IMPOSSIBLE)
    width = log_vocab.shape[2]
    picked = log_vocab.gather(2, target.clamp(max=width - 1)[:, :, None])[:, :, 0]
    return picked.masked_fill(target >= width, _IMPOSSIBLE)


class CopyHistory(NamedTuple):
    """Boolean tensors (N, T, S) that relate each document position j to the summary before step t.

    With a recurrent encoder, the states contain information about adjacent words, so a pointer quickly learns to
    continue copying at the next word. Without these features, a Transformer needs two layers to learn this. They depend
    only on words, so training computes them for all decoding steps at once.

    Attributes:
        follows_one: True if the word before position j is the last word of the summary so far.
        follows_two: True if the two words before position j are the last two words of the summary so far.
        written: True if the word at position j already occurs in the summary so far.
    """

    follows_one: Tensor
    follows_two: Tensor
    written: Tensor

    @classmethod
    def from_summary(cls, previous: Tensor, source: Tensor, steps: int, unk: int) -> "CopyHistory":
        """Compute the copy history for the last ``steps`` of T' decoding steps.

        Args:
            previous: the dictionary ids (N, T'), int64, of the start symbol and the words so far.
            source: the source documents (B, S) as dictionary ids. N is a multiple of B.
            steps: T, the number of last steps for which the history is returned.
            unk: the id of the unknown word. This id represents many different words, so it does not match any word.
        """
        source = BatchVocab.expand_rows(source, previous)
        words = previous.masked_fill(previous == unk, -1)
        # (N, T', S): True if the word at position j is the last word before step t
        same = words[:, :, None] == source[:, None]
        # Mark the words that were produced before each step. The first expression is faster if only one step is needed.
        written = same.any(1, keepdim=True) if steps == 1 else same.cumsum(1, dtype=torch.int32)[:, -steps:] > 0
        follows_one = F.pad(same, (1, -1))  # shifted by one position to the right
        # the previous position must also match the previous word
        follows_two = follows_one & F.pad(follows_one, (1, -1, 1, -1))
        return cls(follows_one[:, -steps:], follows_two[:, -steps:], written)


class CopyContinuationTerms(nn.Module):
    """Uses a :class:`CopyHistory` to compute terms that are added to the logits of copy attention and p_gen.

    If the k-th feature is true at position j, the value v_k is added to the logit of position j, for k = 1, 2 and 3.
    The values v = W h + b depend on the decoder state h, because copying should continue at some steps and stop at
    others. W is initialised to 0, and b to :data:`FIRST_VALUES`, which slightly favours continuing.

    A learned number, initialised to 0, is added to the logit of p_gen if any position follows the last word. Another
    such number is added if any position follows the last two words.
    """

    def __init__(self, features: int):
        super().__init__()
        self.values = mark_as_float32_layer(nn.Linear(features, 3))
        nn.init.zeros_(self.values.weight)
        with torch.no_grad():
            self.values.bias.copy_(torch.tensor(FIRST_VALUES))
        self.gate = nn.Parameter(torch.zeros(2))

    def forward(self, states: Tensor, history: CopyHistory, copyable: Tensor) -> Tuple[Tensor, Tensor]:
        """Return the terms for the logits of copy attention (N, T, S) and p_gen (N, T), in float32.

        Only positions where the boolean mask ``copyable`` (N, 1, S) is True are considered for p_gen.
        """
        values = apply_in_float32(self.values, states)  # (N, T, 3)
        scores = torch.stack([values[:, :, k, None] * feature for k, feature in enumerate(history)]).sum(0)
        exists = torch.stack([(feature & copyable).any(dim=2) for feature in history[:2]], dim=2)  # (N, T, 2)
        return scores, (exists * widen_to_float32(self.gate)).sum(dim=2)


class PointerHead(nn.Module):
    """A pointer head, which generates a word with the probability p_gen = sigmoid(w·h + b) and otherwise copies one.

    Args:
        features: the width of the vector h.
        kind: "soft" to mix both distributions (equation 14), or "switch" to learn to choose between generating and
            copying. In evaluation, "switch" chooses the more probable of the two (Nallapati et al. 2016, section 2.3).
        continues: whether to use the :class:`CopyHistory` of the summary, so that the pointer can continue with the
            word after the last copied word.
    """

    def __init__(self, features: int, kind: str, continues: bool = False):
        super().__init__()
        if kind not in KINDS[1:]:
            raise ValueError(f'--pointer "{kind}": choose one of {", ".join(KINDS)}')
        self.kind = kind
        self.gate = mark_as_float32_layer(nn.Linear(features, 1))
        nn.init.xavier_uniform_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)
        self.continuation = CopyContinuationTerms(features) if continues else None

    def initialise_generation_probability(self, probability: float) -> None:
        """Initialise p_gen to the same probability for all states: w is set to 0, and b to its logit.

        A pretrained decoder can already generate words. With p_gen = 1/2, half of the probability mass would come from
        the untrained copy attention.
        """
        nn.init.zeros_(self.gate.weight)
        nn.init.constant_(self.gate.bias, math.log(probability / (1 - probability)))

    def point(
        self, states: Tensor, scores: Tensor, vocab: BatchVocab, history: Optional[CopyHistory] = None
    ) -> PointerOutput:
        """Compute the pointer output from the vectors h and the logits of the copy attention.

        Args:
            states: the vectors h (N, T, features), from which p_gen is computed.
            scores: the logits of the copy attention (N, T, S), float32. Positions without a word are ignored.
            vocab: the vocabulary of the batch.
            history: the copy history of the summaries so far, or None. The history is required if ``continues`` is set.
        """
        copyable = vocab.expand_rows(vocab.copyable, states)[:, None]  # (N, 1, S)
        gate = apply_in_float32(self.gate, states)[:, :, 0]  # (N, T)
        if self.continuation is not None:
            if history is None:
                raise ValueError("--pointer-continue needs the history of the summary")
            more_score, more_gate = self.continuation(states, history, copyable)
            scores, gate = scores + more_score, gate + more_gate
        empty = ~copyable.any(dim=2)  # (N, 1), True for documents without words that can be copied
        # A softmax over an empty set would be NaN. Therefore, no attention is computed for documents without words, and
        # all words of their summaries are generated.
        log_copy = scores.masked_fill(~(copyable | empty[:, :, None]), -math.inf).log_softmax(dim=2)
        log_copy = log_copy.masked_fill(empty[:, :, None], -math.inf)
        hard = self.kind == "switch" and not self.training
        return PointerOutput(log_copy, gate.masked_fill(empty, _CERTAIN), vocab, self.kind, hard)

    def compute_copy_history(self, previous: Tensor, source: Tensor, steps: int, unk: int) -> Optional[CopyHistory]:
        """Return the :class:`CopyHistory` of the summaries so far for :meth:`point`, or None if it is not needed."""
        return None if self.continuation is None else CopyHistory.from_summary(previous, source, steps, unk)


class Pointer(PointerHead):
    """A pointer with a separate copy attention, which is computed from the states of the last decoder layer.

    The copy attention is a = softmax(W h·u + b_copy) over the encoder outputs u (Aggregation Transformer, equations 11
    and 12). In the paper, W is the identity. With a learned W, the same state can predict both a word to copy and a
    word to generate. As usual in a Transformer, the logits are divided by the square root of the width.

    ``state_dim`` and ``memory_dim`` are the widths of the decoder states and the encoder outputs. For ``kind`` and
    ``continues``, see :class:`PointerHead`.
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
        """Compute the pointer output for decoder states (N, T, d) and encoder outputs (S, B, d_enc).

        N is either B or B times the beam size.
        """
        rows, length, _ = states.shape
        documents = memory.shape[1]
        query = widen_to_float32(self.query(states) * self.scale).view(documents, -1, memory.shape[2])
        with torch.autocast(states.device.type, enabled=False):
            scores = torch.bmm(query, memory.permute(1, 2, 0).to(query.dtype))  # (B, N/B * T, S)
        return self.point(states, scores.view(rows, length, -1), vocab, history)


class AttentionPointer(PointerHead):
    """A pointer that copies with the decoder's attention (Nallapati et al. 2016, section 2.3; See et al. 2017).

    As in both papers, p_gen depends on h, the concatenation of the decoder state, the context and the previous word.
    """

    def forward(
        self, states: Tensor, log_weights: Tensor, vocab: BatchVocab, history: Optional[CopyHistory] = None
    ) -> PointerOutput:
        """Compute the pointer output for vectors h (N, T, features) and log attention weights (N, T, S).

        The attention weights are renormalised over the positions that contain words.
        """
        return self.point(states, log_weights, vocab, history)
