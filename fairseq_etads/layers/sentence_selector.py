"""Select sentences of a document for each sentence of its summary (Explicit-Selection, Li et al. 2018)."""

from typing import Any, Dict, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor, nn

from ..attention import inconsistency_loss, log_attention
from ..kernels.focus import PADDING_SCORE
from ..kernels.precision import at_least_float32
from .additive import AdditiveAttention, DotAttention, DotKeys, SharedKeys, SharedStates
from .tagging import SelectorOutput

UNREAD = PADDING_SCORE / 2
"""Value of log β for sentences that the extractor does not read.

This value results in an attention of exactly 0 but is larger than the value at padding.
"""


class SentenceSelector(nn.Module):
    """Selects sentences of the document at the start of each summary sentence (the local selection in the paper).

    Let t be the index of a sentence in the summary, h'_i the states of the sentences in the document, d the vector of
    the document, and e_(t-1) the last decoder state in the previous sentence (e_0 = r_0 = 0)::

        q_0 = tanh(W d),  q_t = GRU([e_(t-1); r_(t-1)], q_(t-1))
        p_t = softmax_i(v · tanh(W_q q_t + W_h h'_i + b)),  r_t = Σ_i p_ti h'_i
        state before the sentence's first word = a(W_r [r_t; q_t] + b_r)

    W_h belongs to the encoder, which computes the keys W_h h'_i only once. The last equation replaces the bridge
    between encoder and decoder and uses the bridge's nonlinearity a. An LSTM has a second equation of this form for the
    memory cell.

    Args:
        hidden: width of the decoder state and of q.
        sentence: width of h'.
        attention_dim: width of the keys and of v.
        nonlinearity: the function a.
        has_cell: whether the decoder has a memory cell.
        is_dot: whether the scores are dot products of q and the keys, without additional weights.
    """

    def __init__(self, hidden: int, sentence: int, attention_dim: int, nonlinearity: str, has_cell: bool, is_dot: bool):
        super().__init__()
        self.first_plan = nn.Linear(sentence, hidden, bias=False)
        self.cell = nn.GRUCell(hidden + sentence, hidden)
        self.attention: Union[AdditiveAttention, DotAttention] = (
            DotAttention() if is_dot else AdditiveAttention(hidden, 0, attention_dim)
        )
        self.nonlinearity = {"tanh": torch.tanh, "relu": torch.relu}[nonlinearity]
        self.sentence_start = nn.Linear(sentence + hidden, hidden)
        self.cell_start = nn.Linear(sentence + hidden, hidden) if has_cell else None

    def begin(self, documents: Tensor) -> Tensor:
        """Compute the initial plan q_0 (N, Q) from the document vectors d (N, M)."""
        return torch.tanh(self.first_plan(documents))

    def forward(
        self,
        written: Tensor,
        selected: Tensor,
        plan: Tensor,
        keys: Union[SharedKeys, DotKeys],
        states: SharedStates,
        missing: Tensor,
    ) -> Tuple[Tensor, Tensor, Tensor]:
        """Select sentences of the document for the next summary sentence.

        Args:
            written: e_(t-1) (N, Q).
            selected: r_(t-1) (N, M).
            plan: q_(t-1) (N, Q).
            keys: keys (B, L, A) of the sentences in the B documents, where N is a multiple of B.
            states: h' (B, L, M).
            missing: (N, L), bool, True where a document has no sentence.

        Returns:
            q_t (N, Q); log p_t (N, L), at least float32; r_t (N, M).
        """
        plan = self.cell(torch.cat([written, selected], dim=1), plan)
        scores = self.attention(plan, None, keys)  # (N, L)
        log_weights = log_attention(scores[:, None], missing)[:, 0]
        count, length, width = states.states.shape
        selected = states.read(log_weights.exp().view(count, -1, length)).view(-1, width)
        return plan, log_weights, selected

    def start(self, selected: Tensor, plan: Tensor) -> Tuple[Tensor, Optional[Tensor]]:
        """Compute the decoder state (N, Q) before the first word of a sentence from r_t and q_t.

        Also returns the memory cell (N, Q) of an LSTM, or None.
        """
        both = torch.cat([selected, plan], dim=1)
        cell = None if self.cell_start is None else self.nonlinearity(self.cell_start(both))
        return self.nonlinearity(self.sentence_start(both)), cell


class SentenceSelection(NamedTuple):
    """The selection probabilities in each decoding step.

    Attributes:
        log_probs: log p (N, T, L) in the T steps, at least float32.
        starts: (N, T), bool, True at steps that produce the first word of a sentence, where p is recomputed.
    """

    log_probs: Tensor
    starts: Tensor

    def divergence(self, targets: Tensor, is_word: Tensor) -> Tensor:
        """Compute the mean of KL(p̂_t ‖ p_t) over the sentences t of each summary that have a target.

        Args:
            targets: p̂ (N, n, L'), with a row for each sentence that contains words. Rows of zeros are ignored.
                Truncated summaries and documents may have fewer sentences than the targets.
            is_word: (N, T), bool, False at steps in which the target is a sentence mark, the end symbol or padding.

        Returns:
            The mean (N,), at least float32; 0 for summaries without targets.
        """
        log_probs, sentences = at_least_float32(self.log_probs), self.log_probs.shape[2]
        targets = at_least_float32(targets)[:, :, :sentences]
        targets = nn.functional.pad(targets, (0, sentences - targets.shape[2], 0, 1))  # append a row of zeros
        begins = self.starts & is_word  # a sentence without words has no row
        row = (begins.cumsum(1) - 1).clamp(min=0, max=targets.shape[1] - 1)  # (N, T)
        wanted = targets.gather(1, row[:, :, None].expand(-1, -1, sentences))  # (N, T, L)
        mass = wanted.sum(dim=2) * begins
        counted = mass > 0
        wanted = (
            wanted / mass.masked_fill(~counted, 1)[:, :, None]
        )  # the targets may have been rounded to half precision
        each = (torch.xlogy(wanted, wanted) - wanted * log_probs).sum(dim=2)  # (N, T)
        return (each * counted).sum(dim=1) / counted.sum(dim=1).clamp(min=1)


class SentenceAttention(NamedTuple):
    """The values that losses need from a summariser with an extractor.

    Attributes:
        log_word: logarithm of the attention α to words (N, T, S), before it is combined with β.
        log_selected: log β of the sentence to which each word belongs (B, S).
        extraction: output of the extractor for B documents.
    """

    log_word: Tensor
    log_selected: Tensor
    extraction: SelectorOutput

    @classmethod
    def of(cls, log_word: Tensor, encoder_out: Dict[str, Any]) -> "SentenceAttention":
        """Create the object from the decoder's attention to words and the encoder output."""
        return cls(log_word, encoder_out["log_selected"][0], SelectorOutput(*encoder_out["extraction"]))

    def inconsistency(self, top: int) -> Tensor:
        """Compute the inconsistency loss of each word (N, T).

        Words in sentences that the extractor does not read are never among the ``top`` most attended words.
        """
        log_word = self.log_word.masked_fill((self.log_selected <= UNREAD)[:, None], PADDING_SCORE)
        return inconsistency_loss(log_word, self.log_selected, top)
