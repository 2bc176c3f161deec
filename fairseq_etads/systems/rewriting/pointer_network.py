"""A pointer network that takes sentences one after another, its critic, and vectors of sentences from their words."""

from typing import List, NamedTuple, Tuple

import torch
from torch import Tensor, nn

from ...attention import log_attention
from ...kernels.precision import at_least_float32
from ...layers.additive import SharedKeys, SharedStates

WIDTHS = (3, 4, 5)
"""How many words the filters of :class:`SentenceConvolution` see at once."""


class SentenceConvolution(nn.Module):
    """Vectors of sentences: for each filter ReLU and the maximum over the sentence (Kim 2014).

    A sentence with fewer words than the widest filter sees is filled up with vectors of 0.

    Args:
        word: width of word vectors. filters: how many of each of :data:`WIDTHS`.
    """

    def __init__(self, word: int, filters: int):
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv1d(word, filters, width) for width in WIDTHS)

    def forward(self, words: Tensor, there: Tensor) -> Tensor:
        """Word vectors (R, W, E), of which ``there`` (R, W) bool are words, -> (R, 3 * filters).

        The words of a sentence are its first places. What the others hold changes nothing.
        """
        widest = max(WIDTHS)
        words = words.masked_fill(~there[:, :, None], 0).transpose(1, 2)  # (R, E, W)
        words = nn.functional.pad(words, (0, max(0, widest - words.shape[2])))
        lengths = there.sum(dim=1, keepdim=True).clamp(min=widest)  # (R, 1)
        found = []
        for convolution, width in zip(self.convolutions, WIDTHS):
            windows = convolution(words).relu()  # (R, filters, windows)
            behind = torch.arange(windows.shape[2], device=words.device) > lengths - width  # of other sentences' length
            found.append(windows.masked_fill(behind[:, None], 0).amax(dim=2))  # 0 is the least that ReLU gives
        return torch.cat(found, dim=1)


class Candidates(NamedTuple):
    """What can be taken from B documents: their sentences and, for a model that has learnt to stop, the end.

    Attributes:
        states: h (B, C, D). missing: (B, C) bool, True where a document has no such sentence.
    """

    states: Tensor
    missing: Tensor


class Memory(NamedTuple):
    """What each step of a :class:`PointerNetwork` reads of the candidates.

    Attributes:
        glimpsed: k = W_1 h as what the glimpse compares with. values: the same as what it reads.
        keys: W_3 h, with which the choice is compared. missing: (B, C) bool.
    """

    glimpsed: SharedKeys
    values: SharedStates
    keys: SharedKeys
    missing: Tensor


State = Tuple[Tensor, Tensor]
"""h and c of an LSTM, each (1, B, H)."""


class _Comparison(nn.Module):
    """The weights of scores v · tanh(W_k h_j + W_q q_t)."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.key = nn.Linear(width, hidden, bias=False)
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.weight = nn.Parameter(torch.empty(hidden).uniform_(-(hidden**-0.5), hidden**-0.5))

    def scores(self, query: Tensor, keys: SharedKeys) -> Tensor:
        """q (B, T, H), keys of C candidates -> (B, T, C), at least float32."""
        return keys.scores(self.query(query), self.weight)


class PointerNetwork(nn.Module):
    """Scores of candidates at each step (Vinyals et al. 2015; with a glimpse, Chen and Bansal 2018, section 2.1.2)::

        g_t = LSTM(x_t),  x_1 learnt and x_t = h of what was taken at step t - 1
        k_j = W_1 h_j,  z_t = Σ_j softmax_j(v_1 · tanh(k_j + W_2 g_t)) k_j
        u_tj = v_2 · tanh(W_3 h_j + W_4 z_t)

    The glimpse reads k and not h, as in the authors' code.

    Args:
        width: D, of h. hidden: H, of the LSTM and the comparisons.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.lstm = nn.LSTM(width, hidden, batch_first=True)
        self.first_input = nn.Parameter(torch.empty(width).uniform_(-0.1, 0.1))
        self.first_states = nn.Parameter(torch.empty(2, hidden).uniform_(-0.01, 0.01))  # h and c
        self.glimpse = _Comparison(width, hidden)
        self.choice = _Comparison(width, hidden)

    def remember(self, candidates: Candidates) -> Memory:
        """What is computed once for all steps."""
        glimpsed = self.glimpse.key(candidates.states)
        keys = SharedKeys(self.choice.key(candidates.states))
        return Memory(SharedKeys(glimpsed), SharedStates(glimpsed), keys, candidates.missing)

    def begin(self, documents: int) -> Tuple[Tensor, State]:
        """The first input (B, 1, D) and the first state."""
        h, c = self.first_states[:, None, None].expand(-1, 1, documents, -1).contiguous()
        return self.first_input.expand(documents, 1, -1), (h, c)

    def forward(self, inputs: Tensor, state: State, memory: Memory) -> Tuple[Tensor, State]:
        """Take T steps.

        Args:
            inputs: x (B, T, D). state: before them.

        Returns:
            u (B, T, C), at least float32, those of missing candidates too; the state after the steps.
        """
        steps, state = self.lstm(inputs, state)  # (B, T, H)
        weights = log_attention(self.glimpse.scores(steps, memory.glimpsed), memory.missing).exp()
        return self.choice.scores(memory.values.read(weights), memory.keys), state

    def follow(self, candidates: Candidates, chosen: Tensor) -> Tensor:
        """The scores at each step of a given choice.

        Args:
            chosen: (B, T), numbers of candidates; negative behind the end.

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
    """Expected returns b_t of a policy that takes sentences (Chen and Bansal 2018, section 3.1).

    It is a pointer network with weights of its own. In each step it is given what it has read in the step before, the
    mean of the sentences' states weighted by softmax(u_t), and makes a number of this mean. So it knows nothing of what
    was taken.

    Args:
        width, hidden: as of :class:`PointerNetwork`.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.network = PointerNetwork(width, hidden)
        self.value = nn.Linear(width, 1)

    def forward(self, sentences: Candidates, steps: int) -> Tensor:
        """b (B, steps), at least float32, from the documents' sentences without the end."""
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
    """Which of ``count`` candidates have been taken before each step, (B, T, C) bool.

    Args:
        chosen: (B, T), numbers of candidates; negative behind the end, where nothing counts as taken.
    """
    taken = nn.functional.one_hot(chosen.clamp(min=0), count).bool() & (chosen >= 0)[:, :, None]
    before = taken.long().cumsum(dim=1) - taken.long()
    return (before > 0) & (chosen >= 0)[:, :, None]
