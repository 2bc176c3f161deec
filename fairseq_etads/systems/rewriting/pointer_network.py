"""A pointer network that selects sentences one by one, a critic for its training, and a sentence encoder."""

from typing import List, NamedTuple, Tuple

import torch
from torch import Tensor, nn

from ...attention import compute_log_attention_weights
from ...kernels.precision import widen_to_float32
from ...layers.additive import SharedKeys, SharedStates
from ...layers.recurrent import run_lstm

WIDTHS = (3, 4, 5)
"""Widths of the filters in :class:`SentenceConvolution`, in words."""


class SentenceConvolution(nn.Module):
    """Convolutions, ReLU and max pooling over the words of a sentence (Kim 2014), with ``filters`` of each of WIDTHS.

    Sentences that are shorter than the widest filter are padded with zero vectors.
    """

    def __init__(self, word: int, filters: int):
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv1d(word, filters, width) for width in WIDTHS)

    def forward(self, words: Tensor, there: Tensor) -> Tensor:
        """Encode R sentences, word embeddings (R, W, E), as vectors (R, 3 * filters).

        ``there`` (R, W) is True at words and False at padding, which is on the right and does not affect the result.
        """
        widest = max(WIDTHS)
        words = words.masked_fill(~there[:, :, None], 0).transpose(1, 2)  # (R, E, W)
        words = nn.functional.pad(words, (0, max(0, widest - words.shape[2])))
        lengths = there.sum(dim=1, keepdim=True).clamp(min=widest)  # (R, 1)
        found = []
        for convolution, width in zip(self.convolutions, WIDTHS):
            windows = convolution(words).relu()  # (R, filters, windows)
            # The mask is True for windows beyond the end of the sentence.
            behind = torch.arange(windows.shape[2], device=words.device) > lengths - width
            found.append(windows.masked_fill(behind[:, None], 0).amax(dim=2))  # 0 is the minimum of ReLU
        return torch.cat(found, dim=1)


class SentenceCandidates(NamedTuple):
    """Sentences of B documents and, with --learn-to-stop, a stop candidate.

    ``states`` h are (B, C, D), and ``missing`` (B, C) is True at candidates that do not exist in the document.
    """

    states: Tensor
    missing: Tensor


class PointerMemory(NamedTuple):
    """Tensors that all steps of a :class:`PointerNetwork` read.

    The glimpse's attention keys and values are both k = W_1 h. ``keys`` W_3 h score the candidates. ``missing`` (B, C)
    is True at candidates that do not exist in the document.
    """

    glimpsed: SharedKeys
    values: SharedStates
    keys: SharedKeys
    missing: Tensor


State = Tuple[Tensor, Tensor]
"""The state h and memory cell c of an LSTM, each (1, B, H)."""


class _AdditiveAttentionScorer(nn.Module):
    """Additive attention scores v · tanh(W_k h_j + W_q q_t), with the weights v, W_k and W_q."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.key = nn.Linear(width, hidden, bias=False)
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.weight = nn.Parameter(torch.empty(hidden).uniform_(-(hidden**-0.5), hidden**-0.5))

    def compute_scores(self, query: Tensor, keys: SharedKeys) -> Tensor:
        """Compute the scores (B, T, C) of C candidates from queries q (B, T, H) and the candidates' keys."""
        return keys.compute_scores(self.query(query), self.weight)


class PointerNetwork(nn.Module):
    """A pointer network (Vinyals et al. 2015) with a glimpse, as in Chen and Bansal 2018, section 2.1.2.

    At step t, the score u_tj of candidate j is::

        g_t = LSTM(x_t),  where x_1 is learned, and x_t is the state h of the candidate selected at step t - 1
        k_j = W_1 h_j,  z_t = Σ_j softmax_j(v_1 · tanh(k_j + W_2 g_t)) k_j
        u_tj = v_2 · tanh(W_3 h_j + W_4 z_t)

    As in the authors' code, the glimpse z_t is a sum of k rather than of h. ``width`` is that of h, and ``hidden`` that
    of the LSTM and of the attention layers.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.lstm = nn.LSTM(width, hidden, batch_first=True)
        self.first_input = nn.Parameter(torch.empty(width).uniform_(-0.1, 0.1))
        self.first_states = nn.Parameter(torch.empty(2, hidden).uniform_(-0.01, 0.01))  # h and c
        self.glimpse = _AdditiveAttentionScorer(width, hidden)
        self.choice = _AdditiveAttentionScorer(width, hidden)

    def precompute_attention_keys(self, candidates: SentenceCandidates) -> PointerMemory:
        """Compute the tensors that all steps read. This is done once per batch."""
        glimpsed = self.glimpse.key(candidates.states)
        keys = SharedKeys(self.choice.key(candidates.states))
        return PointerMemory(SharedKeys(glimpsed), SharedStates(glimpsed), keys, candidates.missing)

    def make_initial_state(self, documents: int) -> Tuple[Tensor, State]:
        """Return the input of the first step (B, 1, D) and the initial state of the LSTM."""
        h, c = self.first_states[:, None, None].expand(-1, 1, documents, -1).contiguous()
        return self.first_input.expand(documents, 1, -1), (h, c)

    def forward(self, inputs: Tensor, state: State, memory: PointerMemory) -> Tuple[Tensor, State]:
        """Run T steps with the inputs x (B, T, D), from an LSTM state.

        Returns:
            The scores u (B, T, C) in float32 or higher precision, and the state of the LSTM after the steps. Scores of
            missing candidates are not masked.
        """
        steps, state = run_lstm(self.lstm, inputs, state)  # (B, T, H)
        weights = compute_log_attention_weights(
            self.glimpse.compute_scores(steps, memory.glimpsed), memory.missing
        ).exp()
        return self.choice.compute_scores(memory.values.compute_weighted_sum(weights), memory.keys), state

    def score_selection(self, candidates: SentenceCandidates, chosen: Tensor) -> Tensor:
        """Return the scores u (B, T, C), float32 or more, at each step of a selection (B, T), padded with negatives."""
        first, state = self.make_initial_state(len(chosen))
        before = chosen[:, :-1].clamp(min=0)[:, :, None].expand(-1, -1, candidates.states.shape[2])
        taken = candidates.states.gather(1, before)  # (B, T - 1, D)
        inputs = torch.cat([first.to(taken), taken], dim=1)[:, : chosen.shape[1]]
        scores, _ = self(inputs, state, self.precompute_attention_keys(candidates))
        return scores


class Critic(nn.Module):
    """A critic that estimates the expected return b_t at each step of a selection (Chen and Bansal 2018, section 3.1).

    It is a pointer network with separate weights. At each step, it estimates the return from the states of the
    sentences, averaged with the weights softmax(u_t). The average is also the input of the next step. Therefore, the
    critic does not know which sentences were selected.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.network = PointerNetwork(width, hidden)
        self.value = nn.Linear(width, 1)

    def forward(self, sentences: SentenceCandidates, steps: int) -> Tensor:
        """Estimate the returns b (B, steps) from the sentences, without the stop candidate."""
        memory = self.network.precompute_attention_keys(sentences)
        inputs, state = self.network.make_initial_state(len(sentences.states))
        values: List[Tensor] = []
        for _ in range(steps):
            scores, state = self.network(inputs, state, memory)
            weights = compute_log_attention_weights(scores, sentences.missing).exp()  # (B, 1, C)
            inputs = weights.to(sentences.states) @ sentences.states  # (B, 1, D)
            values.append(widen_to_float32(self.value(inputs)[:, :, 0]))
        return torch.cat(values, dim=1)


def mask_earlier_selections(chosen: Tensor, count: int) -> Tensor:
    """Return a mask (B, T, C), True at candidates selected in an earlier step (B, T). Negative values are padding."""
    taken = nn.functional.one_hot(chosen.clamp(min=0), count).bool() & (chosen >= 0)[:, :, None]
    before = taken.long().cumsum(dim=1) - taken.long()
    return (before > 0) & (chosen >= 0)[:, :, None]
