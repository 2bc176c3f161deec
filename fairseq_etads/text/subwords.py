"""Group subword tokens into words."""

from typing import List, Sequence, Tuple

from .words import SENTENCE_MARK


def word_ends(tokens: Sequence[str], subwords: str) -> List[bool]:
    """Return whether each token is the last token of a word.

    Args:
        subwords: kind of subwords, "subword_nmt" or "sentencepiece". For any other value, each token is a word.
    """
    if subwords == "subword_nmt":
        return [not token.endswith("@@") for token in tokens]
    if subwords != "sentencepiece":
        return [True] * len(tokens)
    # A word ends before a piece that begins another word. Sentence marks are separate words.
    begins = [token.startswith("▁") or token == SENTENCE_MARK for token in tokens]
    after_mark = [False] + [token == SENTENCE_MARK for token in tokens]
    return [begins[i + 1] or after_mark[i + 1] if i + 1 < len(tokens) else True for i in range(len(tokens))]


def join_words(tokens: Sequence[str], subwords: str) -> Tuple[List[str], List[int]]:
    """Join subword tokens into words.

    Args:
        subwords: kind of subwords, see :func:`word_ends`.

    Returns:
        The words, and the index of each token's word.
    """
    words: List[str] = []
    numbers: List[int] = []
    parts: List[str] = []
    for token, end in zip(tokens, word_ends(tokens, subwords)):
        parts.append(token[:-2] if subwords == "subword_nmt" and not end else token)
        numbers.append(len(words))
        if end:
            words.append(_word(parts, subwords))
            parts = []
    if parts:  # the last token ends in "@@", although no token follows
        words.append(_word(parts, subwords))
    return words, numbers


def _word(parts: List[str], subwords: str) -> str:
    return "".join(parts).lstrip("▁") if subwords == "sentencepiece" else "".join(parts)
