"""Features with which copy attention can continue where copying stopped.

The states of a recurrent encoder show a pointer which words are adjacent, so it soon learns to continue where it
stopped. Without these features, a Transformer must learn this over two layers. The features depend only on words and
need no recurrence. Therefore, they add little cost to training, where all steps are computed at once.
"""

from typing import NamedTuple, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..kernels.precision import at_least_float32, in_float32, keep_float32
from ..vocabulary.output import BatchVocab

FIRST_VALUES = (1.5, 1.5, 0.0)
"""Initial weights of the three features."""


class CopyHistory(NamedTuple):
    """Relations between each document position j and the summary before step t, as bool tensors (N, T, S).

    Attributes:
        follows_one: whether the word before position j is the last word of the summary so far.
        follows_two: whether the two words before position j are the last two words of the summary so far.
        written: whether the word at position j is already in the summary.
    """

    follows_one: Tensor
    follows_two: Tensor
    written: Tensor

    @classmethod
    def of(cls, previous: Tensor, source: Tensor, steps: int, unk: int) -> "CopyHistory":
        """Compute the history for the last ``steps`` of T' steps.

        Args:
            previous: (N, T'), int64, dictionary ids of the start symbol and the words so far, which also distinguish
                the words of the copy tail.
            source: documents (B, S), as ids of the dictionary, where N is a multiple of B.
            steps: number of last steps to return.
            unk: id of the unknown word, which represents many different words and therefore does not match any word.
        """
        source = BatchVocab.expand_rows(source, previous)
        words = previous.masked_fill(previous == unk, -1)
        same = (
            words[:, :, None] == source[:, None]
        )  # (N, T', S): True if the word at position j is the last word before step t
        # Mark the words that were produced before each step. The first form is faster if only the last step is needed.
        written = same.any(1, keepdim=True) if steps == 1 else same.cumsum(1, dtype=torch.int32)[:, -steps:] > 0
        follows_one = F.pad(same, (1, -1))  # shifted by one position to the right
        # the previous position must also match the previous word
        follows_two = follows_one & F.pad(follows_one, (1, -1, 1, -1))
        return cls(follows_one[:, -steps:], follows_two[:, -steps:], written)


class Continuation(nn.Module):
    """Terms that are added to the logits of copy attention and of p_gen, computed from a :class:`CopyHistory`.

    For each of the three features that is true at position j, the value v_1, v_2 or v_3 is added to the logit of j. The
    values v = W h + b depend on the decoder state h, because copying should continue at some steps and stop at others.
    W is initialised to 0, and b to :data:`FIRST_VALUES`, which is a weak preference for continuing. Two learned
    numbers, initially 0, are added to the logit of p_gen: one if any position follows the last word, the other if any
    position follows the last two words.

    Args:
        features: width of h.
    """

    def __init__(self, features: int):
        super().__init__()
        self.values = keep_float32(nn.Linear(features, 3))
        nn.init.zeros_(self.values.weight)
        with torch.no_grad():
            self.values.bias.copy_(torch.tensor(FIRST_VALUES))
        self.gate = nn.Parameter(torch.zeros(2))

    def forward(self, states: Tensor, history: CopyHistory, copyable: Tensor) -> Tuple[Tensor, Tensor]:
        """Compute the terms for the logits of copy attention (N, T, S) and of p_gen (N, T), in float32.

        Args:
            states: decoder states h (N, T, features).
            history: relations between the document and the summary so far.
            copyable: mask (N, 1, S) of the positions that are considered for p_gen.
        """
        values = in_float32(self.values, states)  # (N, T, 3)
        scores = torch.stack([values[:, :, k, None] * feature for k, feature in enumerate(history)]).sum(0)
        exists = torch.stack([(feature & copyable).any(dim=2) for feature in history[:2]], dim=2)  # (N, T, 2)
        return scores, (exists * at_least_float32(self.gate)).sum(dim=2)
