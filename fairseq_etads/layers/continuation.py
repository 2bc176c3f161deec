"""Continuation features: show copy attention where the summary has been copying, so that it can continue there.

A recurrent encoder's states tell a pointer which words are adjacent, so it soon learns to continue where it stopped. A
Transformer has to learn that over two layers. These features provide it. They depend only on words and need no
recurrence, so they are also cheap in training, where all steps are computed at once.
"""

from typing import NamedTuple, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..kernels.precision import at_least_float32, in_float32, keep_float32
from ..vocabulary.output import BatchVocab

FIRST_VALUES = (1.5, 1.5, 0.0)
"""Initial values of the three features' weights."""


class CopyHistory(NamedTuple):
    """Relations of each position j of a document to the summary written before step t; (N, T, S) bool each.

    Attributes:
        follows_one: the word before j is the last word written.
        follows_two: the two words before j are the last two words written, in this order.
        written: word j has been written already.
    """

    follows_one: Tensor
    follows_two: Tensor
    written: Tensor

    @classmethod
    def of(cls, previous: Tensor, source: Tensor, steps: int, unk: int) -> "CopyHistory":
        """Compute the history of the last ``steps`` of T' steps.

        Args:
            previous: (N, T'), int64, ids of the dictionary: the start symbol and the words of the summary so far. Ids
                of the dictionary also distinguish unknown words.
            source: documents (B, S), ids of the dictionary; N is a multiple of B.
            unk: id of the unknown word, which stands for many words and so matches none.
        """
        source = BatchVocab.expand_rows(source, previous)
        words = previous.masked_fill(previous == unk, -1)
        same = words[:, :, None] == source[:, None]  # (N, T', S): True if position j has the word before step t
        # Mark the words written before each step. For the last step alone there is a faster way.
        written = same.any(1, keepdim=True) if steps == 1 else same.cumsum(1, dtype=torch.int32)[:, -steps:] > 0
        follows_one = F.pad(same, (1, -1))  # shifted by one position to the right
        # and the previous step and position also matched
        follows_two = follows_one & F.pad(follows_one, (1, -1, 1, -1))
        return cls(follows_one[:, -steps:], follows_two[:, -steps:], written)


class Continuation(nn.Module):
    """Terms for the logits of copy attention and p_gen, computed from a :class:`CopyHistory`.

    The logit of position j gets v_1, v_2 and v_3 added where its three features hold, with v = W h + b of the decoder's
    state h: at some positions of a summary it is better to continue copying, at others to stop. W starts at 0 and b at
    :data:`FIRST_VALUES`, a weak preference for continuing. The logit of p_gen gets one learned number added if any
    position follows the last word, and another if any follows the last two; both start at 0.

    Args:
        features: the width of h.
    """

    def __init__(self, features: int):
        super().__init__()
        self.values = keep_float32(nn.Linear(features, 3))
        nn.init.zeros_(self.values.weight)
        with torch.no_grad():
            self.values.bias.copy_(torch.tensor(FIRST_VALUES))
        self.gate = nn.Parameter(torch.zeros(2))

    def forward(self, states: Tensor, history: CopyHistory, copyable: Tensor) -> Tuple[Tensor, Tensor]:
        """Compute terms for the logits of copy attention (N, T, S) and of p_gen (N, T), in float32.

        Args:
            states: states h (N, T, features) of the decoder.
            copyable: mask (N, 1, S) of the positions that count for p_gen.
        """
        values = in_float32(self.values, states)  # (N, T, 3)
        scores = torch.stack([values[:, :, k, None] * feature for k, feature in enumerate(history)]).sum(0)
        exists = torch.stack([(feature & copyable).any(dim=2) for feature in history[:2]], dim=2)  # (N, T, 2)
        return scores, (exists * at_least_float32(self.gate)).sum(dim=2)
