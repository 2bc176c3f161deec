"""Find n-grams, and longest common subsequences (LCS) of two lists of words, like the package rouge-score."""

from typing import Dict, Iterator, List, Optional, Sequence, Tuple

Words = Sequence[str]


def ngrams(words: Sequence[str], order: int) -> Iterator[Tuple[str, ...]]:
    """All n-grams of a text, in order; n is ``order``."""
    return zip(*(words[start:] for start in range(order)))


def word_positions(words: Words) -> Dict[str, int]:
    """Map each word to the set of its positions, as the bits of an integer."""
    found: Dict[str, int] = {}
    for position, word in enumerate(words):
        found[word] = found.get(word, 0) | 1 << position
    return found


def _rows(reference: Words, other: Words, positions: Optional[Dict[str, int]]) -> List[int]:
    """Compute the rows of the table of LCS lengths, one for each prefix of the reference.

    A row is one integer, which encodes the lengths for all prefixes of the other list: bit j is 0 if the length grows
    at word j (Hyyrö 2004). Each row therefore requires only a few operations.
    """
    positions = word_positions(other) if positions is None else positions
    full = (1 << len(other)) - 1
    rows = [full]
    for word in reference:
        row = rows[-1]
        common = row & positions.get(word, 0)
        rows.append(((row + common) | (row - common)) & full)
    return rows


def _length(row: int, words: int) -> int:
    """Return the length in a row for the first ``words`` words of the other list."""
    return words - bin(row & ((1 << words) - 1)).count("1")


def lcs_length(reference: Words, other: Words) -> int:
    """Compute the length of the LCS."""
    return _length(_rows(reference, other, None)[-1], len(other))


def lcs_positions(reference: Words, other: Words, positions: Optional[Dict[str, int]] = None) -> Iterator[int]:
    """Yield the positions in ``reference`` of an LCS, last to first; of several LCSs, the one that rouge-score finds.

    Args:
        positions: :func:`word_positions` of ``other``, computed once for several references.
    """
    rows = _rows(reference, other, positions)
    i, j = len(reference), len(other)
    while i and j:
        if reference[i - 1] == other[j - 1]:
            i, j = i - 1, j - 1
            yield i
        elif _length(rows[i], j - 1) > _length(rows[i - 1], j):
            j -= 1
        else:
            i -= 1
