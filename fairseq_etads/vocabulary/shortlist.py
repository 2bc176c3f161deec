"""A shortlist: the few words that the summary of a document may need, so that a search does not consider all words.

As in machine translation (Jean et al. 2015, section 3.2; Devlin 2017, section 4), a shortlist consists of

- the special symbols and the words that are most frequent in summaries,
- the words of the document that are known in summaries,
- for each word of the document, the words that are most frequent in summaries of documents with this word.

The first and the last group come from a table that ``etads-shortlist`` creates; ``data/shortlist_file.py`` reads and
writes the table.
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
        listed: (B, V) bool, True for the words on each text's list; all lists contain the special symbols.
        unk: id of the unknown word.
    """

    def __init__(self, listed: Tensor, unk: int):
        self.known_words, self.unk = listed.size(1), unk
        self.words = listed.any(dim=0).nonzero().flatten()
        allowed = listed[:, self.words]  # (B, C)
        self.allowed = None if bool(allowed.all()) else allowed


@dataclass(frozen=True, eq=False)
class Shortlist:
    """The table for a pair of dictionaries, with V_s known words in documents and V in summaries.

    Attributes:
        frequent: (F,), int64, ids of the most frequent words in summaries.
        together: (V_s + 1, k), int64, for each word of documents, the associated words of summaries. Shorter rows are
            filled with the unknown word's id. So is the last row, which represents all other words.
        own: (V_s + 1,), int64, for each word of documents, its id in summaries, or the unknown word's id.
        known_words: V.
        specials: number of special symbols, which have the smallest ids.
        unk: id of the unknown word.
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
            least: minimum number of words on a list, if there are enough words.
            extra: (B, n), ids of additional words for each document's summary.
            always: ids of additional words for all summaries. Ids from V on, in the copy tail, are skipped here and in
                ``extra``.
        """
        tokens = src_tokens.cpu()
        # The last column collects words that are unknown in summaries.
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
        """Create a shortlist from the arrays in a file and the dictionaries of documents and summaries.

        Args:
            frequent: (F,), int32.
            together: (V_s, k), int32, filled with -1 if a row has fewer than k words.
            source, target: the dictionaries of documents and summaries.
        """
        unk, known = target.unk(), known_words(target)
        own = torch.full((len(together) + 1,), unk)
        for number, word in enumerate(source.symbols[: len(together)]):
            found = target.indices.get(word, known)
            own[number] = found if found < known else unk
        rows = np.vstack([together, np.full((1, together.shape[1]), -1, dtype=together.dtype)])
        table = torch.from_numpy(rows).long()
        table[: source.nspecial] = unk  # no words are associated with padding, which depends on the batch
        return cls(
            frequent=torch.from_numpy(frequent).long(),
            together=table.masked_fill(table < 0, unk),
            own=own,
            known_words=known,
            specials=min(target.nspecial, known),
            unk=unk,
        )
