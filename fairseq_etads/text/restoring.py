"""Restore the case and spacing of a document's words in the sentences of its summary."""

import re
from collections import Counter
from typing import Dict, List, Tuple

from .counted_words import count_words
from .marks import SENTENCE_ENDS
from .tokenised import is_tokenised

_TOKEN = re.compile(r"``|''|\.\.\.|--|\w+|[^\w\s]")
_SAME = {
    **dict.fromkeys(("``", "''", "“", "”", "„"), '"'),
    **dict.fromkeys("’‘`", "'"),
    "...": "…",
    "--": "–",
    "—": "–",
}
_MOST_PLACES = 200
"""Maximum number of a word's occurrences that are compared, so that time is linear in the length of the document."""


def _fold(token: str) -> str:
    return _SAME.get(token, token.casefold())


class DocumentSpelling:
    """The spelling of the words in a raw text. Restored sentences begin with a capital letter if ``capitalises``."""

    def __init__(self, text: str, capitalises: bool):
        self._text, self._capitalises = text, capitalises
        self._keeps_spaces = not is_tokenised(text)
        self._tokens = list(_TOKEN.finditer(text))
        self._folded = [_fold(found.group()) for found in self._tokens]
        self._places: Dict[str, List[int]] = {}
        for place, token in enumerate(self._folded):
            self._places.setdefault(token, []).append(place)

    def restore(self, sentence: str) -> str:
        """Return a sentence with its words spelled and spaced as in the document, where the document has them.

        The longest sequences of words that both have in common are taken over. The number of words never grows.
        """
        tokens = list(_TOKEN.finditer(sentence))
        folded = [_fold(found.group()) for found in tokens]
        pieces: List[str] = []
        number = 0
        while number < len(tokens):
            place, length = self._find_run(folded, number)
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

    def _find_run(self, folded: List[str], number: int) -> Tuple[int, int]:
        """Return the place in the document, and the length, of the longest sequence that begins with a token."""
        best = (0, 0)
        for place in self._places.get(folded[number], ())[:_MOST_PLACES]:
            length = 0
            for one, other in zip(folded[number:], self._folded[place : place + len(folded)]):
                if one != other:
                    break
                length += 1
            best = max(best, (place, length), key=lambda found: found[1])
        return best

    def _is_first(self, place: int) -> bool:
        """Return whether a token is the first of a sentence or quotation, where it has a capital letter."""
        return place == 0 or self._tokens[place - 1].group() in (*SENTENCE_ENDS, ":", '"', "“", "``", "'", "‘")

    def _spell_word(self, token: str, folded: str) -> str:
        """Return the most frequent spelling of a word inside sentences of the document, or its own."""
        found = Counter(
            self._tokens[place].group()
            for place in self._places.get(folded, ())[:_MOST_PLACES]
            if token[0].isalnum() and not self._is_first(place)
        )
        return found.most_common(1)[0][0] if found else token
