"""N-gram blocking: no hypothesis says the same n words twice. Tensor operations, on any device."""

import math
from typing import Iterable, Optional

import torch
from torch import Tensor


class NGramBlocker:
    """Forbids the words that would complete an n-gram which the hypothesis already has.

    Args:
        size: n, at least 1.
        ignored: ids of tokens that may repeat; an n-gram that contains one is never blocked.
    """

    def __init__(self, size: int, ignored: Iterable[int] = ()):
        self.size = size
        self.ignored = sorted(set(ignored))

    def __call__(self, tokens: Tensor, lprobs: Tensor, exempt: Optional[Tensor] = None) -> None:
        """Set the log-probabilities of forbidden words to -inf, in place.

        Args:
            tokens: (rows, t), int64, the words so far without the start symbol.
            lprobs: (rows, V), log-probabilities of the next word.
            exempt: (rows,), bool, True where nothing is forbidden because the next word is dictated.

        A row that would be left without any word keeps all it had: the search must be able to go on. The end symbol is
        never among the words so far, so this happens only where it is forbidden too and everything else is used up.
        """
        n, length = self.size, tokens.size(1)
        if length < n:
            return
        ngrams = tokens.unfold(1, n, 1)  # (rows, t - n + 1, n)
        context = tokens[:, length - n + 1 :]  # (rows, n - 1), the start of the n-gram that the next word completes
        repeats = (ngrams[:, :, : n - 1] == context.unsqueeze(1)).all(-1)  # (rows, t - n + 1); all True for n = 1
        if self.ignored:
            ignored = torch.tensor(self.ignored, device=tokens.device)
            repeats &= ~torch.isin(ngrams, ignored).any(-1)
        if exempt is not None:
            repeats &= ~exempt.unsqueeze(1)
        words = ngrams[:, :, -1]
        before = lprobs.gather(1, words)
        # several n-grams may end in the same word, so the writes are added up: x + -inf = -inf, x + 0 = x
        lprobs.scatter_add_(1, words, torch.zeros_like(before).masked_fill_(repeats, -math.inf))
        wordless = repeats.any(1) & (lprobs.amax(1) == -math.inf)
        if wordless.any():
            lprobs[wordless] = lprobs[wordless].scatter(1, words[wordless], before[wordless])
