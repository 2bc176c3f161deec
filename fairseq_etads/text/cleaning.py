"""Convert raw text to one clean line, in the same way for training data and for new text."""

import re
import unicodedata
from collections import Counter
from typing import Tuple

from .words import SENTENCE_MARK, split_sentences

REPLACED_CONTROLS = "control characters replaced by spaces"
"""Name under which this change is counted."""

_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
_INVISIBLE = re.compile("[\ufeff\u200b\u2060\u00ad]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_MARK = re.compile(re.escape(SENTENCE_MARK), re.IGNORECASE)


def neutralise_marks(text: str) -> Tuple[str, int]:
    """Insert spaces into literal sentence marks, in upper or lower case; return the text and the number of marks."""
    return _MARK.subn(lambda mark: f"< {mark.group()[1:-1]} >", text)


def clean(text: str, counts: Counter) -> str:
    """Normalise text to one line of Unicode NFC with single spaces, and count the changes by kind in ``counts``.

    Control characters are replaced by spaces. Zero-width spaces, soft hyphens and byte order marks are removed. Lone
    surrogates, which cannot be stored in files, are replaced by U+FFFD. Spaces are inserted into literal sentence
    marks. Each text that is not in NFC is counted once.
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
    """Convert a raw document to the line that training data would contain.

    Lines of the text are paragraphs. If the text has several paragraphs or contains sentence marks, marks are inserted
    between all sentences, as in ``etads-corpus``. Any other text is left to the tokeniser, which splits it into
    sentences if necessary.
    """
    pieces = [piece for line in text.split("\n") for piece in line.split(SENTENCE_MARK)]
    cleaned = [piece for piece in (clean(piece, Counter()) for piece in pieces) if piece]
    if len(cleaned) < 2:
        return "".join(cleaned)
    return f" {SENTENCE_MARK} ".join(sentence for piece in cleaned for sentence in split_sentences(piece))
