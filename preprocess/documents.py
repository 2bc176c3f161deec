"""A document with its summaries, from what a reader found to clean lines: the same for every corpus."""

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from typing import List, Sequence, Tuple

from fairseq_etads.text.words import SENTENCE_MARK

_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
_INVISIBLE = re.compile("[\ufeff\u200b\u2060\u00ad]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_MARK = re.compile(re.escape(SENTENCE_MARK), re.IGNORECASE)
_ENDS = tuple(".!?'`\")’”…。！？")


class BadDocument(Exception):  # noqa: N818  # not an error of the program
    """A record that cannot be read; the message says why, briefly, and is what is counted."""


class Unfit(BadDocument):
    """A record that can be read but does not belong to the corpus by its rules: always dropped and counted."""


@dataclass
class Document:
    """A document and its reference summaries, each in pieces: paragraphs, or sentences.

    ``source_cut`` and ``target_cut`` say that the pieces are sentences already.
    """

    source: Sequence[str]
    targets: Sequence[Sequence[str]]
    source_cut: bool = False
    target_cut: bool = False


@dataclass(frozen=True)
class Finishing:
    """How documents become lines; the options that all corpora share."""

    split: bool = True
    full_stops: bool = False
    keep_empty: bool = False
    source_sentences: int = 0
    source_words: int = 0
    short_lead: int = 0


@dataclass
class Finished:
    """The lines of a document, or why it was dropped, and what was done to it."""

    source: str = ""
    targets: List[str] = field(default_factory=list)
    dropped: str = ""
    counts: Counter = field(default_factory=Counter)


def clean(text: str, counts: Counter) -> str:
    """One line of Unicode NFC with single spaces; ``counts`` says what was changed, by the number of characters.

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
        text, found = _MARK.subn(lambda mark: f"< {mark.group()[1:-1]} >", text)
        counts[f"literal {SENTENCE_MARK} neutralised"] += found
    return " ".join(text.split())


def add_full_stop(text: str) -> str:
    """The text with a full stop if it ends in none: captions and highlights of CNN/DM lack it (See et al. 2017)."""
    return text if not text or text.endswith(_ENDS) else text + "."


def _sentences(pieces: Sequence[str], cut: bool, how: Finishing, counts: Counter) -> List[str]:
    out: List[str] = []
    for piece in pieces:
        piece = clean(piece, counts)
        if how.full_stops and piece:
            stopped = add_full_stop(piece)
            counts["full stops added"] += stopped is not piece
            piece = stopped
        if cut or not how.split:
            out += [piece] if piece else []
        else:
            from fairseq_etads.text.words import split_sentences  # here: importing fairseq takes seconds

            out += split_sentences(piece)
    return out


def _lead(sentences: List[str], how: Finishing, counts: Counter) -> List[str]:
    """The first sentences and words of a document, if the options ask for no more."""
    if how.source_sentences and len(sentences) > how.source_sentences:
        number = how.source_sentences
        if how.short_lead and sum(map(len, sentences[:number])) < how.short_lead:
            number += 1
        counts["documents cut by --source-sentences"] += number < len(sentences)
        sentences = sentences[:number]
    if how.source_words:
        room, kept = how.source_words, []
        for sentence in sentences:
            words = sentence.split()
            if len(words) > room:
                counts["documents cut by --source-words"] += 1
                kept += [" ".join(words[:room])] if room else []
                break
            kept.append(sentence)
            room -= len(words)
        sentences = kept
    return sentences


def _join(sentences: List[str]) -> Tuple[str, int]:
    return f" {SENTENCE_MARK} ".join(sentences), len(sentences)


def finish(document: Document, how: Finishing) -> Finished:
    """Clean lines with sentence marks."""
    done = Finished()
    sentences = _lead(_sentences(document.source, document.source_cut, how, done.counts), how, done.counts)
    done.source = _join(sentences)[0]
    targets = [_join(_sentences(t, document.target_cut, how, done.counts))[0] for t in document.targets] or [""]
    done.targets = [target for target in targets if target] or [""]
    done.counts["empty references left out"] += len(targets) - len(done.targets)
    if not how.keep_empty:
        done.dropped = "empty source" if not done.source else "empty target" if not done.targets[0] else ""
    return done
