"""Features that help copy attention to continue with the word after the last copied word.

With a recurrent encoder, the states contain information about adjacent words, so a pointer quickly learns to continue
copying at the next word. Without these features, a Transformer needs two layers to learn this behaviour. The features
depend only on words and not on earlier states. Therefore, in training, they can be computed for all decoding steps at
once, and add little to the training time.
"""

from typing import NamedTuple, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..kernels.precision import apply_in_float32, mark_as_float32_layer, widen_to_float32
from ..vocabulary.output import BatchVocab

FIRST_VALUES = (1.5, 1.5, 0.0)
"""The initial values v_1, v_2 and v_3 of the three features in :class:`CopyContinuationTerms`."""


class CopyHistory(NamedTuple):
    """Boolean tensors (N, T, S) that relate each document position j to the summary before step t.

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
            previous: the dictionary ids (N, T'), int64, of the start symbol and the words so far. Each word in the
                copy tail has its own id.
            source: the source documents (B, S) as dictionary ids. N is a multiple of B.
            steps: T, the number of last steps for which the history is returned.
            unk: the id of the unknown word. This id represents many different words, so it does not match any word.
        """
        source = BatchVocab.expand_rows(source, previous)
        words = previous.masked_fill(previous == unk, -1)
        same = (
            words[:, :, None] == source[:, None]
        )  # (N, T', S): True if the word at position j is the last word before step t
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

    Args:
        features: the width of the decoder state h.
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

        Args:
            states: the decoder states h (N, T, features).
            history: the copy history of the N hypotheses.
            copyable: the boolean mask (N, 1, S), True at the document positions that can be copied. Only these
                positions are considered for p_gen.
        """
        values = apply_in_float32(self.values, states)  # (N, T, 3)
        scores = torch.stack([values[:, :, k, None] * feature for k, feature in enumerate(history)]).sum(0)
        exists = torch.stack([(feature & copyable).any(dim=2) for feature in history[:2]], dim=2)  # (N, T, 2)
        return scores, (exists * widen_to_float32(self.gate)).sum(dim=2)
