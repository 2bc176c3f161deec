"""A pointer network that selects sentences one by one, its critic, and the encoder of sentences."""

from typing import List, NamedTuple, Tuple

import torch
from torch import Tensor, nn

from ...attention import log_attention
from ...kernels.precision import at_least_float32
from ...layers.additive import SharedKeys, SharedStates

WIDTHS = (3, 4, 5)
"""Filter widths of :class:`SentenceConvolution`, in words."""


class SentenceConvolution(nn.Module):
    """Encodes sentences by the maximum of each filter, after ReLU, over the sentence (Kim 2014).

    Sentences shorter than the widest filter are padded with zero vectors.

    Args:
        word: width of the word vectors.
        filters: number of filters of each of :data:`WIDTHS`.
    """

    def __init__(self, word: int, filters: int):
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv1d(word, filters, width) for width in WIDTHS)

    def forward(self, words: Tensor, there: Tensor) -> Tensor:
        """Encode word vectors (R, W, E) of R sentences as (R, 3 * filters).

        Args:
            there: (R, W) bool, True at words, which must come first. Other places have no effect.
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


class Candidates(NamedTuple):
    """Candidates of B documents: their sentences and, for a model that can stop, the stop.

    Attributes:
        states: h (B, C, D).
        missing: (B, C) bool, True where a document has no such candidate.
    """

    states: Tensor
    missing: Tensor


class Memory(NamedTuple):
    """Tensors that each step of a :class:`PointerNetwork` reads.

    Attributes:
        glimpsed: k = W_1 h, the keys of the glimpse.
        values: k again, as the values of the glimpse.
        keys: W_3 h, the keys of the choice.
        missing: mask (B, C), bool, True where a document has no such candidate.
    """

    glimpsed: SharedKeys
    values: SharedStates
    keys: SharedKeys
    missing: Tensor


State = Tuple[Tensor, Tensor]
"""h and c of an LSTM, each (1, B, H)."""


class _Comparison(nn.Module):
    """Weights v, W_k and W_q of the scores v · tanh(W_k h_j + W_q q_t)."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.key = nn.Linear(width, hidden, bias=False)
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.weight = nn.Parameter(torch.empty(hidden).uniform_(-(hidden**-0.5), hidden**-0.5))

    def scores(self, query: Tensor, keys: SharedKeys) -> Tensor:
        """Compute the scores (B, T, C), at least float32, from q (B, T, H) and the keys of C candidates."""
        return keys.scores(self.query(query), self.weight)


class PointerNetwork(nn.Module):
    """Scores of candidates at each step (Vinyals et al. 2015; with a glimpse, Chen and Bansal 2018, section 2.1.2)::

        g_t = LSTM(x_t),  x_1 learned and x_t = h of the candidate of step t - 1
        k_j = W_1 h_j,  z_t = Σ_j softmax_j(v_1 · tanh(k_j + W_2 g_t)) k_j
        u_tj = v_2 · tanh(W_3 h_j + W_4 z_t)

    The glimpse reads k and not h, as in the authors' code.

    Args:
        width: D, the width of h.
        hidden: H, the width of the LSTM and the comparisons.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.lstm = nn.LSTM(width, hidden, batch_first=True)
        self.first_input = nn.Parameter(torch.empty(width).uniform_(-0.1, 0.1))
        self.first_states = nn.Parameter(torch.empty(2, hidden).uniform_(-0.01, 0.01))  # h and c
        self.glimpse = _Comparison(width, hidden)
        self.choice = _Comparison(width, hidden)

    def remember(self, candidates: Candidates) -> Memory:
        """Compute the tensors that are the same for all steps."""
        glimpsed = self.glimpse.key(candidates.states)
        keys = SharedKeys(self.choice.key(candidates.states))
        return Memory(SharedKeys(glimpsed), SharedStates(glimpsed), keys, candidates.missing)

    def begin(self, documents: int) -> Tuple[Tensor, State]:
        """Return the first input (B, 1, D) and the initial state."""
        h, c = self.first_states[:, None, None].expand(-1, 1, documents, -1).contiguous()
        return self.first_input.expand(documents, 1, -1), (h, c)

    def forward(self, inputs: Tensor, state: State, memory: Memory) -> Tuple[Tensor, State]:
        """Compute T steps.

        Args:
            inputs: x (B, T, D).
            state: state before these steps.

        Returns:
            u (B, T, C), at least float32, including missing candidates; and the state after the steps.
        """
        steps, state = self.lstm(inputs, state)  # (B, T, H)
        weights = log_attention(self.glimpse.scores(steps, memory.glimpsed), memory.missing).exp()
        return self.choice.scores(memory.values.read(weights), memory.keys), state

    def follow(self, candidates: Candidates, chosen: Tensor) -> Tensor:
        """Score the candidates at each step of a given selection.

        Args:
            chosen: numbers of the selected candidates (B, T); negative after the end.

        Returns:
            u (B, T, C), at least float32.
        """
        first, state = self.begin(len(chosen))
        before = chosen[:, :-1].clamp(min=0)[:, :, None].expand(-1, -1, candidates.states.shape[2])
        taken = candidates.states.gather(1, before)  # (B, T - 1, D)
        inputs = torch.cat([first.to(taken), taken], dim=1)[:, : chosen.shape[1]]
        scores, _ = self(inputs, state, self.remember(candidates))
        return scores


class Critic(nn.Module):
    """Expected returns b_t of a policy that selects sentences (Chen and Bansal 2018, section 3.1).

    The critic is a pointer network with its own weights. Each step computes the mean of the sentences' states, weighted
    by softmax(u_t). It estimates the return from this mean, and passes the mean to the next step as input. The critic
    therefore does not know which sentences were selected.

    Args:
        width, hidden: the same as in :class:`PointerNetwork`.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.network = PointerNetwork(width, hidden)
        self.value = nn.Linear(width, 1)

    def forward(self, sentences: Candidates, steps: int) -> Tensor:
        """Compute b (B, steps), at least float32, from the documents' sentences without the stop."""
        memory = self.network.remember(sentences)
        inputs, state = self.network.begin(len(sentences.states))
        values: List[Tensor] = []
        for _ in range(steps):
            scores, state = self.network(inputs, state, memory)
            weights = log_attention(scores, sentences.missing).exp()  # (B, 1, C)
            inputs = weights.to(sentences.states) @ sentences.states  # (B, 1, D)
            values.append(at_least_float32(self.value(inputs)[:, :, 0]))
        return torch.cat(values, dim=1)


def taken_before(chosen: Tensor, count: int) -> Tensor:
    """Compute a mask (B, T, C), bool, that is True for candidates selected before each step.

    Args:
        chosen: numbers of the selected candidates (B, T); negative after the end, where the mask is False.
        count: C, the number of candidates.
    """
    taken = nn.functional.one_hot(chosen.clamp(min=0), count).bool() & (chosen >= 0)[:, :, None]
    before = taken.long().cumsum(dim=1) - taken.long()
    return (before > 0) & (chosen >= 0)[:, :, None]
