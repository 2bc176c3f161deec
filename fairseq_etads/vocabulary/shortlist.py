"""A shortlist: the few words that a document's summary may need, so that a search need not consider all words.

As in machine translation (Jean et al. 2015, section 3.2; Devlin 2017, section 4), these are

- the special symbols and the words that are most frequent in summaries,
- the document's own words that the model knows,
- for each word of the document, the words that are most frequent in summaries of documents with this word.

The first and the last are in a table that ``etads-shortlist`` makes; ``data/shortlist_file.py`` reads and writes it.
"""

from dataclasses import dataclass
from typing import Any, Optional, Sequence

import numpy as np
import torch
from torch import Tensor

from .candidates import Candidates
from .dictionary import known_words


class ListedCandidates(Candidates):
    """The candidates of a batch of B texts, each with its own list.

    Args:
        listed: (B, V) bool, which words are on each text's list; special symbols are on all.
        unk: the unknown word.
    """

    def __init__(self, listed: Tensor, unk: int):
        self.known_words, self.unk = listed.size(1), unk
        self.words = listed.any(dim=0).nonzero().flatten()
        allowed = listed[:, self.words]  # (B, C)
        self.allowed = None if bool(allowed.all()) else allowed


@dataclass(frozen=True, eq=False)
class Shortlist:
    """The table, for one pair of dictionaries. V_s and V are the known words of documents and summaries.

    Attributes:
        frequent: (F,), int64, ids of the most frequent words of summaries.
        together: (V_s + 1, k), int64, for each word of documents, its associated words of summaries. The unknown word's
            id fills shorter rows, and the last row, which stands for all other words.
        own: (V_s + 1,), int64, the same words' ids in summaries; the unknown word's where there is none.
        known_words: V.
        specials: special symbols, the smallest ids.
        unk: the unknown word's id.
    """

    frequent: Tensor
    together: Tensor
    own: Tensor
    known_words: int
    specials: int
    unk: int

    def candidates(
        self, src_tokens: Tensor, least: int, extra: Optional[Tensor] = None, always: Sequence[int] = ()
    ) -> Candidates:
        """Choose the candidates of documents (B, S).

        Args:
            src_tokens: ids of the documents' dictionary.
            least: smallest number of words of a list, if there are enough words.
            extra: (B, n), ids of further words of each document's summary.
            always: ids of further words of all summaries. Ids from V on, the copy tail, are skipped here and in
                ``extra``.
        """
        tokens = src_tokens.cpu()
        # the last column collects words that the summaries do not know
        listed = torch.zeros(len(tokens), self.known_words + 1, dtype=torch.bool)  # (B, V + 1)
        listed[:, : max(self.specials, least)] = True
        listed[:, self.frequent] = True
        listed[:, torch.tensor(always, dtype=torch.long).clamp(max=self.known_words)] = True
        words = tokens.clamp(max=len(self.own) - 1)
        listed.scatter_(1, self.own[words], True)
        listed.scatter_(1, self.together[words].flatten(1), True)
        if extra is not None:
            listed.scatter_(1, extra.cpu().clamp(max=self.known_words), True)
        return ListedCandidates(listed[:, : self.known_words].to(src_tokens.device), self.unk)

    @classmethod
    def of(cls, frequent: np.ndarray, together: np.ndarray, source: Any, target: Any) -> "Shortlist":
        """Make a shortlist from the arrays of a file and the two dictionaries.

        Args:
            frequent: (F,), int32.
            together: (V_s, k), int32, -1 where a row has fewer than k words.
        """
        unk, known = target.unk(), known_words(target)
        own = torch.full((len(together) + 1,), unk)
        for number, word in enumerate(source.symbols[: len(together)]):
            found = target.indices.get(word, known)
            own[number] = found if found < known else unk
        rows = np.vstack([together, np.full((1, together.shape[1]), -1, dtype=together.dtype)])
        table = torch.from_numpy(rows).long()
        table[: source.nspecial] = unk  # nothing is associated with padding, which depends on the batch
        return cls(
            frequent=torch.from_numpy(frequent).long(),
            together=table.masked_fill(table < 0, unk),
            own=own,
            known_words=known,
            specials=min(target.nspecial, known),
            unk=unk,
        )
