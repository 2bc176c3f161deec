"""Compute the ROUGE-L recall of document sentences against a summary.

Recall is defined as in the package rouge-score, except that words are not stemmed.
"""

from collections import Counter
from typing import Iterable, List, Sequence, Set, Tuple

from ...text.subsequences import Words, compute_lcs_length, iterate_lcs_positions


def compute_sentence_recall(words: Words, reference: Words) -> float:
    """Compute the ROUGE-L recall of one sentence.

    The recall is the length of the longest common subsequence, divided by the length of the reference. It is 0 if the
    reference is empty.
    """
    return compute_lcs_length(reference, words) / len(reference) if reference else 0.0


class SummaryRecall:
    """Compute the summary-level ROUGE-L recall of selected document sentences (Lin 2004, section 3.2).

    Args:
        document: sentences of the document, each a list of words.
        summary: sentences of the reference summary, each a list of words.
    """

    def __init__(self, document: Sequence[Words], summary: Sequence[Words]):
        self.summary = summary
        self.size = sum(map(len, summary))
        self._counts = [Counter(sentence) for sentence in document]
        self._reference_counts = Counter(word for sentence in summary for word in sentence)
        self._matched: List[Tuple[Set[int], ...]] = [
            tuple(set(iterate_lcs_positions(sentence, words)) for sentence in summary) for words in document
        ]

    def __call__(self, chosen: Iterable[int]) -> float:
        """Compute the recall of the selected sentences. The recall is 0 if the summary is empty.

        Args:
            chosen: indices of the selected document sentences, in any order.
        """
        chosen = list(chosen)
        available: Counter = Counter()
        for number in chosen:
            available.update(self._counts[number])
        wanted, hits = self._reference_counts.copy(), 0
        for place, sentence in enumerate(self.summary):
            union: Set[int] = set().union(*(self._matched[number][place] for number in chosen))
            for position in union:
                word = sentence[position]
                if available[word] > 0 and wanted[word] > 0:  # each occurrence of a word is counted at most once
                    available[word] -= 1
                    wanted[word] -= 1
                    hits += 1
        return hits / self.size if self.size else 0.0
