"""Shortlists of the words that the summary of a document may need, so that a search does not consider all words.

As in machine translation (Jean et al. 2015, section 3.2; Devlin 2017, section 4), the shortlist of a document contains

- the special symbols and the most frequent words in summaries,
- the words of the document that are known words of the target dictionary,
- for each word of the document, the most frequent words in summaries of documents that contain this word.

The first and the third group are stored in a table that ``etads-shortlist`` creates. ``data/shortlist_file.py`` reads
and writes this table.
"""

from dataclasses import dataclass
from typing import Any, Optional, Sequence

import numpy as np
import torch
from torch import Tensor

from .candidates import CandidateWords
from .dictionary import count_known_words


class PerTextCandidateWords(CandidateWords):
    """The candidates of a batch of B texts, where each text has its own list.

    Args:
        listed: the boolean mask (B, V), True for the words on the list of each text. All lists contain the special
            symbols.
        unk: the id of the unknown word.
    """

    def __init__(self, listed: Tensor, unk: int):
        self.known_words, self.unk = listed.size(1), unk
        self.words = listed.any(dim=0).nonzero().flatten()
        allowed = listed[:, self.words]  # (B, C)
        self.allowed = None if bool(allowed.all()) else allowed


@dataclass(frozen=True, eq=False)
class Shortlist:
    """The shortlist table for a source dictionary with V_s known words and a target dictionary with V known words.

    Attributes:
        frequent: the ids of the F most frequent words in summaries (F,), int64.
        together: the ids of the summary words that are associated with each document word (V_s + 1, k), int64. Shorter
            rows are padded with the id of the unknown word. The last row represents all unknown document words and
            contains only this id.
        own: the id of each document word in the target dictionary (V_s + 1,), int64, or the id of the unknown word.
        known_words: V, the number of known words in the target dictionary.
        specials: the number of special symbols, which have the smallest ids.
        unk: the id of the unknown word.
    """

    frequent: Tensor
    together: Tensor
    own: Tensor
    known_words: int
    specials: int
    unk: int

    def choose_candidates(
        self, src_tokens: Tensor, least: int, extra: Optional[Tensor] = None, always: Sequence[int] = ()
    ) -> CandidateWords:
        """Choose the candidates for the summaries of B documents.

        Args:
            src_tokens: the ids of the documents' words in the source dictionary (B, S).
            least: the minimum number of words on each list, if there are enough words.
            extra: the ids of additional words for the summary of each document (B, n), or None. Ids in the copy tail
                are ignored.
            always: the ids of additional words for all summaries. Ids in the copy tail are ignored.
        """
        tokens = src_tokens.cpu()
        # The last column collects words that are not known words of the target dictionary.
        listed = torch.zeros(len(tokens), self.known_words + 1, dtype=torch.bool)  # (B, V + 1)
        listed[:, : max(self.specials, least)] = True
        listed[:, self.frequent] = True
        listed[:, torch.tensor(always, dtype=torch.long).clamp(max=self.known_words)] = True
        words = tokens.clamp(max=len(self.own) - 1)
        listed.scatter_(1, self.own[words], True)
        listed.scatter_(1, self.together[words].flatten(1), True)
        if extra is not None:
            listed.scatter_(1, extra.cpu().clamp(max=self.known_words), True)
        return PerTextCandidateWords(listed[:, : self.known_words].to(src_tokens.device), self.unk)

    @classmethod
    def from_arrays(cls, frequent: np.ndarray, together: np.ndarray, source: Any, target: Any) -> "Shortlist":
        """Create a shortlist from the arrays in a shortlist file and the dictionaries.

        Args:
            frequent: the ids of the most frequent words in summaries, an int32 array (F,).
            together: the ids of the summary words that are associated with each document word, an int32 array (V_s, k).
                Rows with fewer than k words are padded with -1.
            source, target: the dictionaries of documents and summaries.
        """
        unk, known = target.unk(), count_known_words(target)
        own = torch.full((len(together) + 1,), unk)
        for number, word in enumerate(source.symbols[: len(together)]):
            found = target.indices.get(word, known)
            own[number] = found if found < known else unk
        rows = np.vstack([together, np.full((1, together.shape[1]), -1, dtype=together.dtype)])
        table = torch.from_numpy(rows).long()
        table[: source.nspecial] = unk  # associate no words with special symbols, because padding depends on the batch
        return cls(
            frequent=torch.from_numpy(frequent).long(),
            together=table.masked_fill(table < 0, unk),
            own=own,
            known_words=known,
            specials=min(target.nspecial, known),
            unk=unk,
        )
