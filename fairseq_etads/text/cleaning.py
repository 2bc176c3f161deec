"""Convert raw text to one clean line. Training data and new text are cleaned in the same way."""

import re
import unicodedata
from collections import Counter
from typing import List

from .words import SENTENCE_MARK, split_marked_sentences, split_sentences

REPLACED_CONTROLS = "control characters replaced by spaces"
"""Key under which a counter stores the number of replaced control characters."""

_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
_INVISIBLE = re.compile("[\ufeff\u200b\u2060\u00ad]")
SURROGATE = re.compile("[\ud800-\udfff]")
_MARK = re.compile(re.escape(SENTENCE_MARK), re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_HYPHENATED = re.compile(r"\w+(?:-\w+)+")
_BROKEN = re.compile(r"((?:\w+-)*\w+)[-\u2010\u00ad]\n(\w+)")
JOIN_LINES_HELP = (
    "for pages as pdftotext writes them: join lines into paragraphs, rejoin words that are hyphenated at the end of a "
    "line, and leave out page numbers and headings that recur on pages"
)


def clean_text(text: str, counts: Counter) -> str:
    """Normalise a text to one line, in Unicode NFC and with single spaces, and add the changes to ``counts``.

    Control characters are replaced with spaces. Zero-width spaces, soft hyphens and byte order marks are removed. Lone
    surrogates, which cannot be written to files, are replaced with U+FFFD. Spaces are inserted into sentence marks.
    """
    if not text.isascii():
        text, found = SURROGATE.subn("\ufffd", text)
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
        text, found = _MARK.subn(lambda mark: f"< {mark.group()[1:-1]} >", text)
        counts[f"literal {SENTENCE_MARK} neutralised"] += found
    return " ".join(text.split())


def join_printed_lines(text: str) -> str:
    """Join the lines of printed pages, between which are form feeds as from pdftotext, into one line per paragraph.

    Lines at the edges of several pages that are alike but for their numbers are left out. A word that is hyphenated at
    the end of a line loses the hyphen, unless the text has it elsewhere with the hyphen or another hyphen is in it.
    """
    pages = [[" ".join(line.split()) for line in page.strip().split("\n")] for page in text.split("\f")]
    filled = [[number for number, line in enumerate(page) if line] for page in pages]
    edges = [{number: _NUMBER.sub("0", page[number]) for number in n[:2] + n[-2:]} for page, n in zip(pages, filled)]
    alike = Counter(line for edge in edges for line in set(edge.values()))
    text = "\n".join(
        "\n".join(line for number, line in enumerate(page) if alike[edge.get(number, "")] < 2).strip()
        for page, edge in zip(pages, edges)
    )
    words = set(_HYPHENATED.findall(text.lower()))

    def rejoin(found: "re.Match[str]") -> str:
        first, rest = found.groups()
        keeps = "-" in first or not rest[0].islower() or f"{first}-{rest}".lower() in words
        return f"{first}{'-' * keeps}{rest}"

    return "\n".join(" ".join(part.split()) for part in _BROKEN.sub(rejoin, text).split("\n\n") if part.strip())


def join_to_one_line(text: str, language: str = "en") -> str:
    """Convert a raw document to one line, in the same way as the documents in the training data.

    Each line of the text is a paragraph or, if it contains sentence marks, a list of sentences. If there are several,
    marks are put between all sentences, as in ``etads-corpus``; a single one is split by the tokeniser if necessary.
    """
    lines = [[clean_text(piece, Counter()) for piece in line.split(SENTENCE_MARK)] for line in text.split("\n")]
    lines = [kept for kept in (list(filter(None, line)) for line in lines) if kept]
    if [len(line) for line in lines] == [1]:
        return lines[0][0]
    parts = (line if len(line) > 1 else split_sentences(line[0], language) for line in lines)
    return f" {SENTENCE_MARK} ".join(sentence for part in parts for sentence in part)


def split_raw_document(text: str, language: str = "en") -> List[str]:
    """Split a raw document into its sentences, at paragraphs and marks as :func:`join_to_one_line` does."""
    return split_marked_sentences(join_to_one_line(text, language), language)
