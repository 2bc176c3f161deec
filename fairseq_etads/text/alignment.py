"""Find the characters in the raw text that correspond to each token.

The characters of a token may differ from the corresponding characters in the raw text. Cleaning and tokenisation can
change the case, compose accents, remove invisible characters, rewrite quotes and dashes, and insert spaces. For this
reason, both the text and the tokens are *folded*, i.e. converted to a form that does not depend on these changes. They
are then compared from left to right.
"""

import itertools
import unicodedata
from typing import Iterator, List, Optional, Sequence, Tuple

Span = Tuple[int, int]
"""Span of characters: the index of its first character, and the index after its last character."""

WINDOW = 2000
"""Number of folded characters in which to search for a token that is not at its expected position."""
_CERTAIN = 12
"""Minimum number of matching folded characters, in a token and the tokens after it, for a match to be certain."""
_BLOCK = 4096
_FOLDED = {**dict.fromkeys('"“”„', "''"), **dict.fromkeys("’‘´`", "'"), **dict.fromkeys("–—―", "--")}
_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
"""Mapping from the bracket tokens of the Penn Treebank to the brackets themselves."""


def fold_for_alignment(text: str) -> str:
    """Convert a word, or a character with its accents, to a form that cleaning and tokenisation do not change."""
    if text.isascii() and text.isalnum():
        return text.lower()
    replaced = "".join(_FOLDED.get(character, character) for character in text)
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", replaced).casefold())
    return "".join(map(_remove_invisible_character, decomposed))


def _remove_invisible_character(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Cs":  # cleaning also replaces lone surrogates with U+FFFD
        return "\ufffd"
    return "" if character.isspace() or category in ("Cc", "Cf") else character


def guess_token_spelling(token: str, words: str, subwords: Optional[str]) -> str:
    """Return the approximate spelling of a token in the raw text. It is accurate enough for :func:`fold_for_alignment`.

    The tokenisation is given by ``words``, one of WORD_KINDS, and ``subwords``, "subword_nmt", "sentencepiece" or None.
    """
    if subwords == "subword_nmt" and token.endswith("@@"):
        token = token[:-2]
    elif subwords == "sentencepiece":
        token = token.replace("▁", "")
    if words == "moses" and token == "@-@":
        return "-"
    return _BRACKETS.get(token.lower(), token) if words == "ptb" else token


def _iterate_character_spans(text: str) -> Iterator[Span]:
    """Yield the span of each character, including the combining accents after it."""
    start = 0
    while start < len(text):
        end = start + 1
        while end < len(text) and not text[end].isascii() and unicodedata.combining(text[end]):
            end += 1
        yield start, end
        start = end


def align_tokens(text: str, spelled: Sequence[str]) -> List[Optional[Span]]:
    """Return the span of each token in ``text``, or None for tokens with an unknown span.

    ``spelled`` contains the spelling of each token (see :func:`guess_token_spelling`) in the order of the text, or an
    empty string for tokens that do not occur in the text. The tokens need not cover the text up to its end.
    """
    characters = _iterate_character_spans(text)
    tokens = [fold_for_alignment(token) for token in spelled]
    folded = ""
    spans: List[Span] = []  # of the original character of each folded one
    found: List[Optional[Span]] = []
    place = 0
    for number, token in enumerate(tokens):
        if not token:
            found.append(None)
            continue
        # Only as much of the text is folded as the tokens need.
        while len(folded) < place + WINDOW + len(token) and (block := list(itertools.islice(characters, _BLOCK))):
            pieces = [fold_for_alignment(text[start:end]) for start, end in block]
            folded += "".join(pieces)
            spans += [span for span, piece in zip(block, pieces) for _ in piece]
        start = place if folded.startswith(token, place) else _find_later_token(folded, place, tokens, number)
        if start < 0:
            found.append(None)
            continue
        place = start + len(token)
        found.append((spans[start][0], spans[place - 1][1]))
    return found


def _find_later_token(folded: str, place: int, tokens: Sequence[str], number: int) -> int:
    """Search the text after ``place`` for a token and the tokens that follow it."""
    wanted = ""
    for token in tokens[number:]:
        wanted += token
        if len(wanted) >= _CERTAIN:
            break
    end = place + WINDOW + len(wanted)
    start = folded.find(wanted, place, end)
    is_certain = len(wanted) >= _CERTAIN or folded.find(wanted, start + 1, end) < 0
    return start if is_certain else -1
