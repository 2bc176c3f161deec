"""From a document and its summaries, as a reader found them, to clean lines of text: the same for every corpus."""

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from typing import List, Sequence, Tuple

from fairseq_etads.text.words import SENTENCE_MARK, split_sentences

SPLITTER_MODULES = ("nltk.tokenize.punkt", "sacremoses.corpus")
"""What split_sentences imports when it is first called; it takes seconds."""

_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
_INVISIBLE = re.compile("[\ufeff\u200b\u2060\u00ad]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_MARK = re.compile(re.escape(SENTENCE_MARK), re.IGNORECASE)
_ENDS = tuple(".!?'`\")’”…。！？")


class BadDocument(Exception):  # noqa: N818  # not an error of the program
    """A record that cannot be read. The message gives the reason in a few words, by which report.json counts."""


class Unfit(BadDocument):
    """A record that can be read but that the corpus's own rules leave out: always dropped and counted."""


@dataclass
class Document:
    """A document and its reference summaries, each as a list of pieces: paragraphs or sentences.

    ``source_in_sentences`` and ``targets_in_sentences`` say that the pieces are sentences.
    """

    source: Sequence[str]
    targets: Sequence[Sequence[str]]
    source_in_sentences: bool = False
    targets_in_sentences: bool = False


@dataclass(frozen=True)
class LineOptions:
    """How documents become lines: options of etads-corpus that all corpora share, under the same names.

    Attributes:
        split: cut paragraphs into sentences (--sentences).
        full_stops: add a full stop to pieces that lack one.
        keep_empty: keep documents whose source or summary is empty.
        source_sentences, source_words: keep only so many of a document; 0 for all.
        short_lead: keep one sentence more if the first ``source_sentences`` have fewer characters than this.
    """

    split: bool = True
    full_stops: bool = False
    keep_empty: bool = False
    source_sentences: int = 0
    source_words: int = 0
    short_lead: int = 0


@dataclass
class DocumentLines:
    """The lines of a document, the reason if it is dropped, and the number of changes of each kind."""

    source: str = ""
    targets: List[str] = field(default_factory=list)
    dropped: str = ""
    counts: Counter = field(default_factory=Counter)


def neutralise_marks(text: str) -> Tuple[str, int]:
    """The text with spaces inside literal sentence marks, in upper or lower case, and the number of them."""
    return _MARK.subn(lambda mark: f"< {mark.group()[1:-1]} >", text)


def clean(text: str, counts: Counter) -> str:
    """One line of Unicode NFC with single spaces; adds the number of characters changed, by kind, to ``counts``.

    Control characters become spaces; zero-width spaces, soft hyphens and byte order marks go; lone surrogates, which
    no file can hold, become U+FFFD; a literal sentence mark in the text gets spaces inside.
    """
    if not text.isascii():
        text, found = _SURROGATE.subn("\ufffd", text)
        counts["lone surrogates replaced"] += found
        text, found = _INVISIBLE.subn("", text)
        counts["invisible characters removed"] += found
        text = unicodedata.normalize("NFC", text)
    if not text.isprintable():
        text, found = _CONTROL.subn(" ", text)
        counts["control characters replaced by spaces"] += found
    if "<" in text:
        text, found = neutralise_marks(text)
        counts[f"literal {SENTENCE_MARK} neutralised"] += found
    return " ".join(text.split())


def add_full_stop(text: str) -> str:
    """The text with a full stop if it ends in none: captions and highlights of CNN/DM lack it (See et al. 2017)."""
    return text if not text or text.endswith(_ENDS) else text + "."


def make_lines(document: Document, options: LineOptions) -> DocumentLines:
    """Clean lines with sentence marks between sentences."""
    made = DocumentLines()
    sentences = _sentences(document.source, document.source_in_sentences, options, made.counts)
    made.source = _join(_lead(sentences, options, made.counts))
    in_sentences = document.targets_in_sentences
    targets = [_join(_sentences(pieces, in_sentences, options, made.counts)) for pieces in document.targets] or [""]
    made.targets = [target for target in targets if target] or [""]
    made.counts["empty references left out"] += len(targets) - len(made.targets)
    if not options.keep_empty:
        made.dropped = "empty source" if not made.source else "empty target" if not made.targets[0] else ""
    return made


def _sentences(pieces: Sequence[str], in_sentences: bool, options: LineOptions, counts: Counter) -> List[str]:
    """Clean sentences; pieces that are not to be cut count as one each."""
    out: List[str] = []
    for piece in pieces:
        piece = clean(piece, counts)
        if options.full_stops and piece:
            stopped = add_full_stop(piece)
            counts["full stops added"] += stopped is not piece
            piece = stopped
        if options.split and not in_sentences:
            out += split_sentences(piece)
        elif piece:
            out.append(piece)
    return out


def _lead(sentences: List[str], options: LineOptions, counts: Counter) -> List[str]:
    """The first sentences and words of a document, as many as the options allow."""
    if options.source_sentences and len(sentences) > options.source_sentences:
        number = options.source_sentences
        if options.short_lead and sum(map(len, sentences[:number])) < options.short_lead:
            number += 1
        counts["documents cut by --source-sentences"] += number < len(sentences)
        sentences = sentences[:number]
    if not options.source_words:
        return sentences
    words_left = options.source_words
    kept: List[str] = []
    for sentence in sentences:
        words = sentence.split()
        if len(words) > words_left:
            counts["documents cut by --source-words"] += 1
            kept += [" ".join(words[:words_left])] if words_left else []
            break
        kept.append(sentence)
        words_left -= len(words)
    return kept


def _join(sentences: List[str]) -> str:
    return f" {SENTENCE_MARK} ".join(sentences)
