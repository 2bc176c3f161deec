"""ROUGE-L recall of lists of words: how much of a summary stands in sentences of its document.

Longest common subsequences (LCS) are found as the package rouge-score finds them, so that recall is the same; words are
compared as they are, without stemming.
"""

from collections import Counter
from typing import Iterable, List, Sequence, Set, Tuple

Words = Sequence[str]


def lcs_table(reference: Words, words: Words) -> List[List[int]]:
    """Lengths of the LCS of the first i words of ``reference`` and the first j of ``words``."""
    table = [[0] * (len(words) + 1)]
    for word in reference:
        above, row = table[-1], [0]
        for j, other in enumerate(words):
            row.append(above[j] + 1 if word == other else max(row[j], above[j + 1]))
        table.append(row)
    return table


def lcs_length(reference: Words, words: Words) -> int:
    """The length of the LCS."""
    return 0 if set(reference).isdisjoint(words) else lcs_table(reference, words)[-1][-1]


def lcs_positions(reference: Words, words: Words) -> Set[int]:
    """Positions of ``reference`` that are in its LCS with ``words``."""
    found: Set[int] = set()
    if set(reference).isdisjoint(words):
        return found
    table = lcs_table(reference, words)
    i, j = len(reference), len(words)
    while i and j:
        if reference[i - 1] == words[j - 1]:
            i, j = i - 1, j - 1
            found.add(i)
        elif table[i][j - 1] > table[i - 1][j]:
            j -= 1
        else:
            i -= 1
    return found


def sentence_recall(words: Words, reference: Words) -> float:
    """ROUGE-L recall of one sentence: the LCS's share of the reference's words; 0 for an empty reference."""
    return lcs_length(reference, words) / len(reference) if reference else 0.0


class SummaryRecall:
    """Summary-level ROUGE-L recall of any of a document's sentences (Lin 2004, section 3.2).

    Args:
        document: its sentences. summary: the sentences of the reference.
    """

    def __init__(self, document: Sequence[Words], summary: Sequence[Words]):
        self.summary = summary
        self.size = sum(map(len, summary))
        self._counts = [Counter(sentence) for sentence in document]
        self._reference_counts = Counter(word for sentence in summary for word in sentence)
        self._matched: List[Tuple[Set[int], ...]] = [
            tuple(lcs_positions(sentence, words) for sentence in summary) for words in document
        ]

    def __call__(self, chosen: Iterable[int]) -> float:
        """Recall of the sentences with the numbers ``chosen``, from 0, in any order; 0 for an empty summary."""
        chosen = list(chosen)
        available: Counter = Counter()
        for number in chosen:
            available.update(self._counts[number])
        wanted, hits = self._reference_counts.copy(), 0
        for place, sentence in enumerate(self.summary):
            union: Set[int] = set().union(*(self._matched[number][place] for number in chosen))
            for position in union:
                word = sentence[position]
                if available[word] > 0 and wanted[word] > 0:  # no word counts more often than it occurs
                    available[word] -= 1
                    wanted[word] -= 1
                    hits += 1
        return hits / self.size if self.size else 0.0
