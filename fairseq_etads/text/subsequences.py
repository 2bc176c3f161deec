"""Find n-grams and longest common subsequences (LCS) in lists of words, as in the package rouge-score."""

from typing import Dict, Iterator, List, Optional, Sequence, Tuple

Words = Sequence[str]


def iterate_ngrams(words: Sequence[str], order: int) -> Iterator[Tuple[str, ...]]:
    """Yield all n-grams of the order ``order`` in a text, from left to right."""
    return zip(*(words[start:] for start in range(order)))


def map_words_to_bitsets(words: Words) -> Dict[str, int]:
    """Return a dictionary that maps each word to a bit set of its positions.

    The bit set is an integer. Bit j is set if the word occurs at position j.
    """
    found: Dict[str, int] = {}
    for position, word in enumerate(words):
        found[word] = found.get(word, 0) | 1 << position
    return found


def _compute_lcs_rows(reference: Words, other: Words, positions: Optional[Dict[str, int]]) -> List[int]:
    """Compute the LCS lengths for all prefixes of the reference.

    The result contains one integer, called a row, for each prefix of the reference. The row encodes the LCS lengths for
    all prefixes of the other list: bit j is 0 if the length increases at word j (Hyyrö 2004). This encoding allows each
    row to be computed with a few integer operations.
    """
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
    """Yield the positions of an LCS in ``reference``, in descending order.

    If there are several longest common subsequences, the function chooses the same one as rouge-score.

    Args:
        positions: result of :func:`map_words_to_bitsets` for ``other``. If ``other`` is compared with several
            references, pass this argument to compute the positions only once.
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
