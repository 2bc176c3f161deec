"""No n-gram twice: blocking as tensor operations, on any device."""

from typing import Iterable, Optional

import torch
from torch import Tensor


class NGramBlocker:
    """Forbids the words that would complete an n-gram which the hypothesis already has.

    Args:
        size: n, at least 1.
        ignore: tokens that may repeat; an n-gram that contains one is never blocked.
    """

    def __init__(self, size: int, ignore: Iterable[int] = ()):
        if size < 1:
            raise ValueError(f"--no-repeat-ngram-size {size}: choose 1 or more, or 0 for no blocking")
        self.size = size
        self.ignore = sorted(set(ignore))

    def __call__(self, tokens: Tensor, lprobs: Tensor, exempt: Optional[Tensor] = None) -> None:
        """Set the log-probabilities of forbidden words to -inf, in place.

        Args:
            tokens: the words so far, without the start symbol, (rows, t).
            lprobs: (rows, V).
            exempt: (rows,), True where nothing is forbidden: the next word is dictated.

        A row that would be left without any word keeps all it had: the search must be able to go on. The end symbol is
        never among the words so far, so this happens only where it is forbidden too and everything else is used up.
        """
        n, length = self.size, tokens.size(1)
        if length < n:
            return
        grams = tokens.unfold(1, n, 1)  # (rows, t - n + 1, n)
        context = tokens[:, length - n + 1 :]  # (rows, n - 1)
        seen = (grams[:, :, : n - 1] == context.unsqueeze(1)).all(-1)  # all of nothing, for n = 1, is True
        if self.ignore:
            ignore = torch.tensor(self.ignore, device=tokens.device)
            seen &= ~torch.isin(grams, ignore).any(-1)
        if exempt is not None:
            seen &= ~exempt.unsqueeze(1)
        words = grams[:, :, -1]
        kept = lprobs.gather(1, words)
        # several n-grams may end in the same word, so the writes are combined: x + -inf = -inf, x + 0 = x
        lprobs.scatter_add_(1, words, torch.zeros_like(kept).masked_fill_(seen, -torch.inf))
        stuck = seen.any(1) & (lprobs.amax(1) == -torch.inf)
        if stuck.any():
            lprobs[stuck] = lprobs[stuck].scatter(1, words[stuck], kept[stuck])
