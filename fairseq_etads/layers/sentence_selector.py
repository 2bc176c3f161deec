"""Select source sentences for each sentence of the summary (Explicit-Selection, Li et al. 2018)."""

from typing import Any, Dict, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor, nn

from ..attention import PADDING_SCORE, compute_log_attention_weights, inconsistency_loss
from ..kernels.precision import widen_to_float32
from .additive import AdditiveAttention, DotAttention, SharedKeys, SharedStates
from .tagging import SelectorOutput

UNREAD = PADDING_SCORE / 2
"""Value of log β for sentences that the extractor does not read.

With this value, the attention weight is exactly 0. The value is larger than the value used at padding.
"""


class SentenceSelector(nn.Module):
    """Selects source sentences at the start of each summary sentence (local selection in the paper).

    Let t be the index of a summary sentence, h'_i the state of source sentence i, d the document vector, and e_(t-1)
    the last decoder state in the previous summary sentence (e_0 = r_0 = 0)::

        q_0 = tanh(W d),  q_t = GRU([e_(t-1); r_(t-1)], q_(t-1))
        p_t = softmax_i(v · tanh(W_q q_t + W_h h'_i + b)),  r_t = Σ_i p_ti h'_i
        state before the sentence's first word = a(W_r [r_t; q_t] + b_r)

    W_h belongs to the encoder, which computes the keys W_h h'_i only once. The last equation replaces the bridge
    between encoder and decoder and uses its nonlinearity a. An LSTM has a second equation of this form for the memory
    cell.

    The ``nonlinearity`` a is "tanh" or "relu". If ``is_dot``, the attention scores are dot products of q and the keys.
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

    def compute_initial_plan(self, documents: Tensor) -> Tensor:
        """Compute the initial plan q_0 (N, Q) from the document vectors d (N, M)."""
        return torch.tanh(self.first_plan(documents))

    def forward(
        self,
        written: Tensor,
        selected: Tensor,
        plan: Tensor,
        keys: Union[SharedKeys, SharedStates],
        states: SharedStates,
        missing: Tensor,
    ) -> Tuple[Tensor, Tensor, Tensor]:
        """Select source sentences for the next summary sentence.

        Args:
            written: the last decoder state in the previous summary sentence, e_(t-1) (N, Q).
            selected: the selection vector of the previous summary sentence, r_(t-1) (N, M).
            plan: the plan of the previous summary sentence, q_(t-1) (N, Q).
            keys: the attention keys (B, L, A) of the sentences in the B documents. N is a multiple of B.
            states: the sentence states h' (B, L, M).
            missing: the boolean mask (N, L), True where a document has fewer than L sentences.

        Returns:
            The new plan q_t (N, Q), the log-probabilities log p_t (N, L) in float32 or higher precision, and the
            selection vector r_t (N, M).
        """
        plan = self.cell(torch.cat([written, selected], dim=1), plan)
        scores = self.attention(plan, None, keys)  # (N, L)
        log_weights = compute_log_attention_weights(scores[:, None], missing)[:, 0]
        count, length, width = states.states.shape
        selected = states.compute_weighted_sum(log_weights.exp().view(count, -1, length)).view(-1, width)
        return plan, log_weights, selected

    def compute_start_state(self, selected: Tensor, plan: Tensor) -> Tuple[Tensor, Optional[Tensor]]:
        """Compute the decoder state (N, Q) before the first word of a sentence from r_t and q_t.

        The second returned value is the memory cell (N, Q) of an LSTM, or None.
        """
        both = torch.cat([selected, plan], dim=1)
        cell = None if self.cell_start is None else self.nonlinearity(self.cell_start(both))
        return self.nonlinearity(self.sentence_start(both)), cell


class SentenceSelection(NamedTuple):
    """The selection probabilities of the source sentences at each decoding step.

    Attributes:
        log_probs: the log-probabilities log p (N, T, L) of L sentences in T steps, in float32 or higher precision.
        starts: the boolean mask (N, T), True at steps that produce the first word of a sentence. p changes only at
            these steps.
    """

    log_probs: Tensor
    starts: Tensor

    def compute_divergence(self, targets: Tensor, is_word: Tensor) -> Tensor:
        """Compute KL(p̂_t ‖ p_t) for each summary, averaged over the sentences t that have a target.

        Args:
            targets: the target probabilities p̂ (N, n, L'), with a row for each summary sentence that contains words.
                Rows of zeros are ignored. Truncated summaries and documents may have fewer sentences than the targets.
            is_word: the boolean mask (N, T), False at steps where the target token is a sentence mark, the end symbol
                or padding.

        Returns:
            The mean divergence (N,) in float32 or higher precision, which is 0 for summaries without targets.
        """
        log_probs, sentences = widen_to_float32(self.log_probs), self.log_probs.shape[2]
        targets = widen_to_float32(targets)[:, :, :sentences]
        targets = nn.functional.pad(targets, (0, sentences - targets.shape[2], 0, 1))  # append a row of zeros
        begins = self.starts & is_word  # the targets have no row for a sentence without words
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
    """The values that loss functions need from a summariser with a sentence extractor.

    Attributes:
        log_word: the logarithms of the word-level attention α (N, T, S), before it is combined with β.
        log_selected: log β of the sentence that contains each word (B, S), where β is the probability of selecting
            the sentence.
        extraction: the output of the extractor for the B documents.
    """

    log_word: Tensor
    log_selected: Tensor
    extraction: SelectorOutput

    @classmethod
    def from_encoder_out(cls, log_word: Tensor, encoder_out: Dict[str, Any]) -> "SentenceAttention":
        """Create an instance from the decoder's word-level attention and the encoder output."""
        return cls(log_word, encoder_out["log_selected"][0], SelectorOutput(*encoder_out["extraction"]))

    def compute_inconsistency_loss(self, top: int) -> Tensor:
        """Compute the inconsistency loss of each summary word (N, T).

        Document words in sentences that the extractor does not read are never among the ``top`` most attended words.
        """
        log_word = self.log_word.masked_fill((self.log_selected <= UNREAD)[:, None], PADDING_SCORE)
        return inconsistency_loss(log_word, self.log_selected, top)
