"""Find n-grams and longest common subsequences (LCS) in lists of words, and compute ROUGE as rouge-score does."""

import itertools
from collections import Counter
from typing import Dict, Iterator, List, Optional, Sequence, Set, Tuple

Words = Sequence[str]
Text = Sequence[Words]


def iterate_ngrams(words: Sequence[str], order: int) -> Iterator[Tuple[str, ...]]:
    """Yield all n-grams of the order ``order`` in a text, from left to right."""
    return zip(*(words[start:] for start in range(order)))


class WordRuns:
    """The ``words`` of a text, in which the longest run of words of another text is found.

    Only the first ``most`` occurrences of the run's first word are compared, or all of them.
    """

    def __init__(self, words: Words, most: Optional[int] = None):
        self._words, self._most = words, most
        self.places: Dict[str, List[int]] = {}
        for place, word in enumerate(words):
            self.places.setdefault(word, []).append(place)

    def find_longest(self, other: Words, start: int) -> Tuple[int, int]:
        """Return the place and the length of the longest run of ``other`` from ``start``. The first of several wins."""
        best = (0, 0)
        for place in self.places.get(other[start], ())[: self._most]:
            length, limit = 1, min(len(other) - start, len(self._words) - place)
            while length < limit and other[start + length] == self._words[place + length]:
                length += 1
            best = max(best, (place, length), key=lambda run: run[1])
        return best


def map_words_to_bitsets(words: Words) -> Dict[str, int]:
    """Map each word to an integer, in which bit j is set if the word occurs at position j."""
    found: Dict[str, int] = {}
    for position, word in enumerate(words):
        found[word] = found.get(word, 0) | 1 << position
    return found


def _compute_lcs_rows(reference: Words, other: Words, positions: Optional[Dict[str, int]]) -> List[int]:
    """Compute the LCS lengths of each prefix of the reference with all prefixes of the other list."""
    # Each row is an integer, in which bit j is 0 if the length increases at word j of the other list (Hyyrö 2004).
    positions = map_words_to_bitsets(other) if positions is None else positions
    full = (1 << len(other)) - 1
    rows = [full]
    for word in reference:
        row = rows[-1]
        common = row & positions.get(word, 0)
        rows.append(((row + common) | (row - common)) & full)
    return rows


def _get_lcs_length(row: int, words: int) -> int:
    """Return the LCS length for the first ``words`` words of the other list, which is encoded in a row."""
    return words - bin(row & ((1 << words) - 1)).count("1")


def compute_lcs_length(reference: Words, other: Words) -> int:
    """Compute the length of the longest common subsequence of two lists of words."""
    return _get_lcs_length(_compute_lcs_rows(reference, other, None)[-1], len(other))


def iterate_lcs_positions(reference: Words, other: Words, positions: Optional[Dict[str, int]] = None) -> Iterator[int]:
    """Yield the positions of an LCS in ``reference``, in descending order: of several, the one of rouge-score.

    ``positions`` is the result of :func:`map_words_to_bitsets` for ``other``, if it is known.
    """
    rows = _compute_lcs_rows(reference, other, positions)
    i, j = len(reference), len(other)
    while i and j:
        if reference[i - 1] == other[j - 1]:
            i, j = i - 1, j - 1
            yield i
        elif _get_lcs_length(rows[i], j - 1) > _get_lcs_length(rows[i - 1], j):
            j -= 1
        else:
            i -= 1


def compute_f1(hits: float, hypothesis: float, reference: float) -> float:
    """Compute the F1 score of ``hits`` matches among the words (or other items) of a hypothesis and of a reference."""
    return 2 * hits / (hypothesis + reference) if hits else 0.0


def rouge_n(hypothesis: Text, reference: Text, n: int) -> float:
    """Compute the ROUGE-N F1 score, in [0, 1] (Lin 2004, section 2), of n-grams that can cross sentence boundaries."""
    grams = [
        Counter(iterate_ngrams([word for sentence in text for word in sentence], n)) for text in (hypothesis, reference)
    ]
    return compute_f1(sum((grams[0] & grams[1]).values()), sum(grams[0].values()), sum(grams[1].values()))


def rouge_l(hypothesis: Text, reference: Text) -> float:
    """Compute the F1 score of summary-level ROUGE-L, in [0, 1] (Lin 2004, section 3.2), as rouge-score does.

    A word in a reference sentence is matched if it belongs to the longest common subsequence of this sentence and at
    least one sentence of the hypothesis, but at most as often as it occurs in the hypothesis.
    """
    sizes = [sum(map(len, text)) for text in (hypothesis, reference)]
    return compute_f1(sum(1 for _ in iterate_matches(hypothesis, reference)), *sizes)


def find_lcs_positions(words: Words, reference: Text) -> List[Set[int]]:
    """Return the positions of an LCS with ``words`` in each sentence of the reference."""
    positions = map_words_to_bitsets(words)
    return [set(iterate_lcs_positions(sentence, words, positions)) for sentence in reference]


def iterate_matches(
    hypothesis: Text, reference: Text, common: Optional[Sequence[List[Set[int]]]] = None
) -> Iterator[Tuple[int, int]]:
    """Yield the sentence index and the word index of each reference word that :func:`rouge_l` matches.

    ``common`` contains the result of :func:`find_lcs_positions` for each sentence of the hypothesis, if it is known.
    """
    left = Counter(word for sentence in hypothesis for word in sentence)
    found = [find_lcs_positions(words, reference) for words in hypothesis] if common is None else common
    for number, sentence in enumerate(reference):
        union: Set[int] = set()
        for index in sorted(union.union(*(positions[number] for positions in found))):
            if left[sentence[index]]:
                left[sentence[index]] -= 1
                yield number, index


def split_sentences(words: Sequence[str], mark: str) -> List[List[str]]:
    """Split a text into sentences at the sentence mark ``mark``, and drop empty sentences."""
    return [list(sentence) for is_mark, sentence in itertools.groupby(words, lambda word: word == mark) if not is_mark]
