"""Find the characters of a text that correspond to each token, although tokenisation has changed the text.

Cleaning and tokenisation lower-case the text, compose accents, remove invisible characters, rewrite quotes and dashes,
and insert spaces. Text and tokens are therefore both *folded* to a form that is not affected by these changes, and then
compared from left to right.
"""

import unicodedata
from typing import Iterator, List, Optional, Sequence, Tuple

Span = Tuple[int, int]
"""Index of the first character, and of the character after the last."""

WINDOW = 2000
"""Number of folded characters that are searched for a token that is not in the expected place."""
_CERTAIN = 12
"""Number of folded characters, of the token and its successors, that must match for a match to be certain."""
_BLOCK = 4096
_FOLDED = {
    **dict.fromkeys('"“”„', "''"),
    **dict.fromkeys("’‘´`", "'"),
    **dict.fromkeys("–—―", "--"),
}
_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
"""Spellings of brackets in the Penn Treebank."""


def fold(text: str) -> str:
    """Fold a character with its accents, or a word, to a form that cleaning and tokenisation do not change."""
    if text.isascii() and text.isalnum():
        return text.lower()
    replaced = "".join(_FOLDED.get(character, character) for character in text)
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", replaced).casefold())
    return "".join(map(_visible, decomposed))


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Cs":  # cleaning replaces lone surrogates in the same way
        return "\ufffd"
    return "" if character.isspace() or category in ("Cc", "Cf") else character


def spelling(token: str, words: str, subwords: Optional[str]) -> str:
    """Approximate a token's spelling in the text, closely enough for :func:`fold`.

    Args:
        words: the tokeniser's kind of words, one of WORD_KINDS.
        subwords: "subword_nmt", "sentencepiece" or None.
    """
    if subwords == "subword_nmt" and token.endswith("@@"):
        token = token[:-2]
    elif subwords == "sentencepiece":
        token = token.replace("▁", "")
    if words == "moses" and token == "@-@":
        return "-"
    return _BRACKETS.get(token.lower(), token) if words == "ptb" else token


class _Folded:
    """A text, folded on demand, with the span of each folded character."""

    def __init__(self, text: str):
        self.text = text
        self.folded = ""
        self.spans: List[Span] = []
        self._clusters = self._split()

    def _split(self) -> Iterator[Span]:
        """Yield the span of each character with the accents that follow it."""
        start, text = 0, self.text
        while start < len(text):
            end = start + 1
            while end < len(text) and not text[end].isascii() and unicodedata.combining(text[end]):
                end += 1
            yield start, end
            start = end

    def reach(self, length: int) -> None:
        """Fold the text until there are ``length`` folded characters or the text ends."""
        parts: List[str] = []
        size = len(self.folded)
        while size < length:
            span = next(self._clusters, None)
            if span is None:
                break
            folded = fold(self.text[span[0] : span[1]])
            parts.append(folded)
            self.spans += [span] * len(folded)
            size += len(folded)
        if parts:
            self.folded += "".join(parts)


def align(text: str, spelled: Sequence[str]) -> List[Optional[Span]]:
    """Find the span of each token in ``text``; None where it cannot be determined.

    Args:
        spelled: the tokens in the order of the text, each as :func:`spelling` returns it; empty for tokens that are not
            in the text. The tokens may end before the text does.
    """
    source = _Folded(text)
    tokens = [fold(token) for token in spelled]
    found: List[Optional[Span]] = []
    place = 0
    for number, token in enumerate(tokens):
        if not token:
            found.append(None)
            continue
        if len(source.folded) < place + WINDOW:
            source.reach(place + WINDOW + len(token) + _BLOCK)
        start = place if source.folded.startswith(token, place) else _further_on(source.folded, place, tokens, number)
        if start < 0:
            found.append(None)
            continue
        place = start + len(token)
        found.append((source.spans[start][0], source.spans[place - 1][1]))
    return found


def _further_on(folded: str, place: int, tokens: Sequence[str], number: int) -> int:
    """Find a token after ``place``, together with its successors; -1 if it is missing or the match is uncertain."""
    wanted = ""
    for token in tokens[number:]:
        wanted += token
        if len(wanted) >= _CERTAIN:
            break
    end = place + WINDOW + len(wanted)
    start = folded.find(wanted, place, end)
    is_certain = len(wanted) >= _CERTAIN or folded.find(wanted, start + 1, end) < 0
    return start if is_certain else -1
