"""Where the tokens of a text stand in its characters, although the tokenizer has changed both.

Cleaning and tokenizing lower-case, compose accents, drop invisible characters, write quotes and dashes in other ways
and put in spaces. So text and tokens are both *folded*, to what none of this changes, and then compared from left to
right.
"""

import unicodedata
from typing import Iterator, List, Optional, Sequence, Tuple

Span = Tuple[int, int]
"""First character, and the one behind the last."""

WINDOW = 2000
"""How many folded characters further on a token is looked for that is not where it should be."""
_CERTAIN = 12
"""So many folded characters, of a token and those behind it, must be found there."""
_BLOCK = 4096
_FOLDED = {
    **dict.fromkeys('"“”„', "''"),
    **dict.fromkeys("’‘´`", "'"),
    **dict.fromkeys("–—―", "--"),
}
_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
"""How the Penn Treebank spells brackets."""


def fold(text: str) -> str:
    """A character with its accents, or a word, without what cleaning and tokenizing may change."""
    if text.isascii() and text.isalnum():
        return text.lower()
    replaced = "".join(_FOLDED.get(character, character) for character in text)
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", replaced).casefold())
    return "".join(map(_visible, decomposed))


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Cs":  # half a character of UTF-16, which cleaning replaces
        return "\ufffd"
    return "" if character.isspace() or category in ("Cc", "Cf") else character


def spelling(token: str, words: str, subwords: Optional[str]) -> str:
    """A token as the text spells it, near enough for :func:`fold`.

    Args:
        words: how words are cut, one of WORD_KINDS. subwords: "subword_nmt", "sentencepiece" or None.
    """
    if subwords == "subword_nmt" and token.endswith("@@"):
        token = token[:-2]
    elif subwords == "sentencepiece":
        token = token.replace("▁", "")
    if words == "moses" and token == "@-@":
        return "-"
    return _BRACKETS.get(token.lower(), token) if words == "ptb" else token


class _Folded:
    """A text folded as far as it has been asked for, with the span of each folded character."""

    def __init__(self, text: str):
        self.text = text
        self.folded = ""
        self.spans: List[Span] = []
        self._clusters = self._split()

    def _split(self) -> Iterator[Span]:
        """Spans of characters, each with the accents that follow it."""
        start, text = 0, self.text
        while start < len(text):
            end = start + 1
            while end < len(text) and not text[end].isascii() and unicodedata.combining(text[end]):
                end += 1
            yield start, end
            start = end

    def reach(self, length: int) -> None:
        """Fold until there are so many characters, or the text ends."""
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
    """The span in ``text`` of each token; None where it cannot be told.

    Args:
        spelled: the tokens in the order of the text, each as :func:`spelling` returns it; empty for what is not of the
            text. They may end before the text does.
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
    """Where a token stands behind ``place`` together with those that follow it; -1 if it does not, or if one doubts."""
    wanted = ""
    for token in tokens[number:]:
        wanted += token
        if len(wanted) >= _CERTAIN:
            break
    end = place + WINDOW + len(wanted)
    start = folded.find(wanted, place, end)
    is_certain = len(wanted) >= _CERTAIN or folded.find(wanted, start + 1, end) < 0
    return start if is_certain else -1
