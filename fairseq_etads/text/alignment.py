"""Find the characters of the raw text that correspond to each token.

The characters of a token may differ from the text, because cleaning and tokenisation lower-case the text, compose
accents, remove invisible characters, rewrite quotes and dashes, and insert spaces. The text and the tokens are
therefore both *folded* to a form that these changes do not affect, and are then compared from left to right.
"""

import unicodedata
from typing import Iterator, List, Optional, Sequence, Tuple

Span = Tuple[int, int]
"""Index of the first character, and index after the last character."""

WINDOW = 2000
"""Number of folded characters in which to search for a token that is not at the expected position."""
_CERTAIN = 12
"""Minimum number of folded characters in a token and its successors for which a match is considered certain."""
_BLOCK = 4096
_FOLDED = {
    **dict.fromkeys('"“”„', "''"),
    **dict.fromkeys("’‘´`", "'"),
    **dict.fromkeys("–—―", "--"),
}
_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
"""Map from the tokens for brackets in the Penn Treebank to the brackets."""


def fold(text: str) -> str:
    """Convert a word, or a character with its accents, to a form that cleaning and tokenisation do not affect."""
    if text.isascii() and text.isalnum():
        return text.lower()
    replaced = "".join(_FOLDED.get(character, character) for character in text)
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", replaced).casefold())
    return "".join(map(_visible, decomposed))


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Cs":  # cleaning also replaces lone surrogates with U+FFFD
        return "\ufffd"
    return "" if character.isspace() or category in ("Cc", "Cf") else character


def spelling(token: str, words: str, subwords: Optional[str]) -> str:
    """Return an approximation of how a token is spelt in the raw text. It is accurate enough for :func:`fold`.

    Args:
        words: kind of words that the tokeniser produces, one of WORD_KINDS.
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
    """Text that is folded on demand, with the span of each folded character in the text."""

    def __init__(self, text: str):
        self.text = text
        self.folded = ""
        self.spans: List[Span] = []
        self._clusters = self._split()

    def _split(self) -> Iterator[Span]:
        """Yield the span of each character, including any combining accents that follow it."""
        start, text = 0, self.text
        while start < len(text):
            end = start + 1
            while end < len(text) and not text[end].isascii() and unicodedata.combining(text[end]):
                end += 1
            yield start, end
            start = end

    def reach(self, length: int) -> None:
        """Fold more of the text, up to a total of at least ``length`` folded characters or the end of the text."""
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
    """Return the span of each token in ``text``, or None if the span cannot be determined.

    Args:
        spelled: result of :func:`spelling` for each token, in the order of the text. It is empty for tokens that do not
            occur in the text. The last token need not be at the end of the text.
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
    """Search for a token and its successors after ``place``.

    Returns:
        The position of the token, or -1 if it is not found or the match is uncertain.
    """
    wanted = ""
    for token in tokens[number:]:
        wanted += token
        if len(wanted) >= _CERTAIN:
            break
    end = place + WINDOW + len(wanted)
    start = folded.find(wanted, place, end)
    is_certain = len(wanted) >= _CERTAIN or folded.find(wanted, start + 1, end) < 0
    return start if is_certain else -1
