"""Find the characters in the raw text that correspond to each token, and restore the text's spelling in a summary.

Cleaning and tokenisation can change the case, compose accents, remove invisible characters, rewrite quotes and dashes,
and insert spaces. For this reason, the text and the tokens are *folded* before they are compared, i.e. converted to a
form that does not depend on these changes.
"""

import itertools
import re
import unicodedata
from collections import Counter
from typing import Iterator, List, Optional, Sequence, Tuple

from .cleaning import SURROGATE
from .subsequences import WordRuns
from .words import SENTENCE_ENDS, count_words, is_tokenised

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
_TOKEN = re.compile(r"``|''|\.\.\.|--|\w+|[^\w\s]")
_MOST_PLACES = 200
"""Maximum number of a word's occurrences that are compared, so that time is linear in the length of the document."""


def fold_for_alignment(text: str) -> str:
    """Convert a word, or a character with its accents, to a form that cleaning and tokenisation do not change."""
    if text.isascii() and text.isalnum():
        return text.lower()
    replaced = "".join(_FOLDED.get(character, character) for character in text)
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", replaced).casefold())
    cleaned = SURROGATE.sub("\ufffd", decomposed)
    return "".join(c for c in cleaned if not c.isspace() and unicodedata.category(c) not in ("Cc", "Cf"))


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

    The tokens, which may end before the text does, are given as :func:`guess_token_spelling` spells them, and as empty
    strings if they do not occur in the text.
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


class DocumentSpelling:
    """The spelling of the words in a raw text. Restored sentences begin with a capital letter if ``capitalises``."""

    def __init__(self, text: str, capitalises: bool):
        self._text, self._capitalises = SURROGATE.sub("\ufffd", text), capitalises
        self._keeps_spaces = not is_tokenised(text)
        self._tokens = list(_TOKEN.finditer(self._text))
        self._runs = WordRuns([fold_for_alignment(found.group()) for found in self._tokens], _MOST_PLACES)

    def restore(self, sentence: str) -> str:
        """Return a sentence with its words spelled and spaced as in the document, where the document has them.

        The longest sequences of words that both have in common are taken over. The number of words never grows.
        """
        tokens = list(_TOKEN.finditer(sentence))
        folded = [fold_for_alignment(found.group()) for found in tokens]
        pieces: List[str] = []
        number = 0
        while number < len(tokens):
            place, length = self._runs.find_longest(folded, number)
            if number:
                pieces.append(sentence[tokens[number - 1].end() : tokens[number].start()])
            if length < 2 or not self._keeps_spaces:
                length = 1
                pieces.append(self._spell_word(tokens[number].group(), folded[number]))
            else:
                first = self._tokens[place]
                start = first.start() if number == 0 or not self._is_first(place) else first.end()
                if start == first.end():
                    pieces.append(self._spell_word(tokens[number].group(), folded[number]))
                pieces.append(self._text[start : self._tokens[place + length - 1].end()])
            number += length
        restored = " ".join("".join(pieces).split())
        if count_words(restored) > count_words(sentence):
            restored = sentence
        return restored[:1].upper() + restored[1:] if self._capitalises else restored

    def _is_first(self, place: int) -> bool:
        """Return whether a token is the first of a sentence or quotation, where it has a capital letter."""
        return place == 0 or self._tokens[place - 1].group() in (*SENTENCE_ENDS, ":", '"', "“", "``", "'", "‘")

    def _spell_word(self, token: str, folded: str) -> str:
        """Return the most frequent spelling of a word inside sentences of the document, or its own."""
        found = Counter(
            self._tokens[place].group()
            for place in self._runs.places.get(folded, ())[:_MOST_PLACES]
            if token[0].isalnum() and not self._is_first(place)
        )
        return found.most_common(1)[0][0] if found else token
