"""Turn raw text into one clean line, in the same way for training data and for new text."""

import re
import unicodedata
from collections import Counter
from typing import Tuple

from .words import SENTENCE_MARK, split_sentences

REPLACED_CONTROLS = "control characters replaced by spaces"
"""Name of this change in the counts."""

_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
_INVISIBLE = re.compile("[\ufeff\u200b\u2060\u00ad]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_MARK = re.compile(re.escape(SENTENCE_MARK), re.IGNORECASE)


def neutralise_marks(text: str) -> Tuple[str, int]:
    """Put spaces into literal sentence marks, in either case; returns the text and their number."""
    return _MARK.subn(lambda mark: f"< {mark.group()[1:-1]} >", text)


def clean(text: str, counts: Counter) -> str:
    """Normalise text to one line of Unicode NFC with single spaces; adds the changes, by kind, to ``counts``.

    Control characters become spaces; zero-width spaces, soft hyphens and byte order marks are removed; lone surrogates,
    which no file can hold, become U+FFFD; a literal sentence mark gets spaces inside. Each text that is not in NFC
    counts once.
    """
    if not text.isascii():
        text, found = _SURROGATE.subn("\ufffd", text)
        counts["lone surrogates replaced"] += found
        text, found = _INVISIBLE.subn("", text)
        counts["invisible characters removed"] += found
        normalised = unicodedata.normalize("NFC", text)
        counts["paragraphs or sentences put into Unicode's form NFC"] += normalised != text
        text = normalised
    if not text.isprintable():
        text, found = _CONTROL.subn(" ", text)
        counts[REPLACED_CONTROLS] += found
        counts["carriage returns replaced by spaces"] += text.count("\r")
    if "<" in text:
        text, found = neutralise_marks(text)
        counts[f"literal {SENTENCE_MARK} neutralised"] += found
    return " ".join(text.split())


def one_line(text: str) -> str:
    """Turn a raw document into the line that training data would have.

    Lines of the text are paragraphs. A text with several, or with sentence marks, gets a mark after each sentence, as
    in ``etads-corpus``. Any other is left to the tokeniser, which splits it into sentences if necessary.
    """
    pieces = [piece for line in text.split("\n") for piece in line.split(SENTENCE_MARK)]
    cleaned = [piece for piece in (clean(piece, Counter()) for piece in pieces) if piece]
    if len(cleaned) < 2:
        return "".join(cleaned)
    return f" {SENTENCE_MARK} ".join(sentence for piece in cleaned for sentence in split_sentences(piece))
