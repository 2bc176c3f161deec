"""ROUGE-L recall of lists of words: the share of a summary that sentences of the document contain.

Recall is defined as in the package rouge-score, but words are compared without stemming.
"""

from collections import Counter
from typing import Iterable, List, Sequence, Set, Tuple

from ...text.subsequences import Words, lcs_length, lcs_positions


def sentence_recall(words: Words, reference: Words) -> float:
    """Compute the ROUGE-L recall of one sentence: LCS length / reference length; 0 for an empty reference."""
    return lcs_length(reference, words) / len(reference) if reference else 0.0


class SummaryRecall:
    """Summary-level ROUGE-L recall of selected sentences of a document (Lin 2004, section 3.2).

    Args:
        document: the document's sentences.
        summary: the reference's sentences.
    """

    def __init__(self, document: Sequence[Words], summary: Sequence[Words]):
        self.summary = summary
        self.size = sum(map(len, summary))
        self._counts = [Counter(sentence) for sentence in document]
        self._reference_counts = Counter(word for sentence in summary for word in sentence)
        self._matched: List[Tuple[Set[int], ...]] = [
            tuple(set(lcs_positions(sentence, words)) for sentence in summary) for words in document
        ]

    def __call__(self, chosen: Iterable[int]) -> float:
        """Compute the recall of the sentences numbered ``chosen`` (from 0, in any order); 0 for an empty summary."""
        chosen = list(chosen)
        available: Counter = Counter()
        for number in chosen:
            available.update(self._counts[number])
        wanted, hits = self._reference_counts.copy(), 0
        for place, sentence in enumerate(self.summary):
            union: Set[int] = set().union(*(self._matched[number][place] for number in chosen))
            for position in union:
                word = sentence[position]
                if available[word] > 0 and wanted[word] > 0:  # a word is counted at most as often as it occurs
                    available[word] -= 1
                    wanted[word] -= 1
                    hits += 1
        return hits / self.size if self.size else 0.0
