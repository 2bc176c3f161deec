"""Convert raw text, documents and summaries to clean lines, in the same way for all corpora and for new text."""

import functools
import html
import html.entities
import json
import math
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Dict, Iterator, List, Sequence, Tuple

from .words import (
    CLOSERS,
    GREEK_QUESTION,
    SENTENCE_ENDS,
    SENTENCE_MARK,
    PennTreebankTokenizer,
    is_tokenised,
    replace_sentence_marks,
    split_marked_sentences,
    split_sentences,
    split_tokenised_sentences,
)

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


SPLITTER_MODULES = ("nltk.tokenize.punkt", "sacremoses.corpus")
"""Modules that split_sentences imports when it is called for the first time, which takes several seconds."""

# Marks that other tools leave in text between sentences, inside words, and for unknown words or padding. They are
# counted when a corpus is made and when summaries are scored, because each of them would become a word.
SENTENCE_MARKS = "sentence marks of other tools (such as <t>, <n>, [SEP])"
SUBWORD_MARKS = "subword marks (such as @@, ▁, ##)"
UNKNOWN_WORDS = "marks of unknown words (such as <unk>, UNK)"
SPECIAL_SYMBOLS = "special symbols (such as [CLS], <pad>)"
ADVICE = {
    SENTENCE_MARKS: "--sentence-mark MARK makes ends of sentences of them",
    SUBWORD_MARKS: "join the pieces first (BPE: sed -E 's/@@( |$)//g')",
    UNKNOWN_WORDS: "they were words before another tool removed rare words",
    SPECIAL_SYMBOLS: "remove them first, because they are not words",
}
"""Mapping from each kind of marks to advice for those who make a corpus."""

_NAMES = r"(?:s_?|sent_?)?sep|(?:sent(?:ence)?|s)_?end|sent(?:ence)?|[be]o[dpst]|sos|eol|nl|newline|para|stop|split|end"
_PATTERNS = {
    # Every alternative begins with a literal character, so that re skips all other characters at once. Gigaword masks
    # digits with #, so short pieces such as ##th are not counted.
    SENTENCE_MARKS: re.compile(
        rf"</?\|?(?i:t|n|s|{_NAMES})\|?/?>|\[/?(?i:{_NAMES})\]|\\n(?![a-z])|"
        r"##[A-Za-z_]+##|NEWLINE_CHAR|\|(?<!\S\|)\|\|+(?!\S)|<0x0A>"
    ),
    SUBWORD_MARKS: re.compile(r"@@(?= |$)|▁|##(?<=\S ##)(?:[^\W\d_]{3,}|[^\W\da-zA-Z_])(?![\w#])|Ġ\w+ (?=Ġ)|￭|</w>"),
    UNKNOWN_WORDS: re.compile(r"<(?i:unk|oov|unknown)>|\[(?i:unk|oov)\]|U(?<!\w\w)(?i:nk)\b|u(?<!\w\w)(?i:nk)\b"),
    SPECIAL_SYMBOLS: re.compile(
        rf"<\|(?!(?i:{_NAMES})\|>)[^<>|\s]*\|>|<(?i:pad|mask|cls|blank|extra_id_\d+)>|\[(?i:pad|mask|cls|unused\d+)\]"
    ),
}
_SIGNS = (*"<[|\\#@▁ġ￭", "newline_char", "unk")
"""One of these is in every lower-cased text that matches a pattern. Searching for them is faster."""

HTML_TAGS, HTML_ENTITIES = "HTML tags", "HTML entities"
ZERO_WIDTH, BIDIRECTIONAL = "zero-width characters", "bidirectional control characters"
WARNINGS = {
    **ADVICE,
    HTML_TAGS: "--strip-html removes them",
    HTML_ENTITIES: "--strip-html decodes them",
    ZERO_WIDTH: "--strip-invisible removes them",
    BIDIRECTIONAL: "--strip-invisible removes them",
}
"""Mapping from each kind of suspicious content to advice on how to remove it. By default, the content is kept."""

_BLOCKS = (
    "address|article|aside|blockquote|body|br|caption|center|dd|div|dl|dt|figcaption|figure|footer|form|h[1-6]|head|"
    "header|hr|html|li|main|nav|ol|option|p|pre|section|select|table|tbody|tfoot|thead|title|tr|ul"
)
_INLINE = (
    "a|abbr|b|big|button|cite|code|col|del|em|embed|font|i|iframe|img|input|ins|kbd|label|link|meta|noscript|object|"
    "param|script|small|span|strike|strong|style|sub|sup|svg|td|textarea|th|time|tt|u|video"
)
# Only HTML's own tags are listed, so that other tags such as <unk> and <cit> are kept. The HTML tags <s> and <q> are
# not listed, because they are special symbols in this project.
_HTML_TAG = re.compile(
    rf"<!--|<!doctype\b[^<>]*>|</?(?:({_BLOCKS})|{_INLINE})(?:\s[^<>=]*=[^<>]*)?\s*/?>", re.IGNORECASE
)
_HTML_ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});")
_HIDDEN = re.compile(r"<!--|<(script|style)\b[^<>]*>", re.IGNORECASE)
# These characters are removed only on request, because they include joiners that Persian, Indic scripts and emoji
# require.
_ZERO_WIDTH = re.compile("[\u034f\u180e\u200c\u200d\u2061-\u2064\u206a-\u206f\ufff9-\ufffb\U000e0001-\U000e007f]")
_BIDIRECTIONAL = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

_BETWEEN = f" {SENTENCE_MARK} "
_ENDS = tuple(SENTENCE_ENDS + CLOSERS + "«‹“…")
make_treebank_tokenizer = functools.cache(PennTreebankTokenizer)


class BadDocumentError(Exception):  # not an error of the program
    """Exception for records that cannot be read. The message is a short reason, by which report.json counts them."""


class ExcludedDocumentError(BadDocumentError):
    """Exception for valid records that the rules of the corpus exclude. They are always dropped and counted."""


def parse_json_record(line: str) -> Dict[str, Any]:
    """Parse a line as a JSON object. Raises BadDocumentError if the line is not a JSON object or a key occurs twice."""
    try:
        record = _DECODER.decode(line.lstrip("\ufeff"))
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else getattr(error, "msg", str(error))
        raise BadDocumentError(f"not JSON ({reason})") from None
    if isinstance(record, dict):
        return record
    raise BadDocumentError("not a JSON object")


def _check_repeated_keys(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise BadDocumentError("a key occurs twice in an object")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_check_repeated_keys)


@dataclass
class Document:
    """A document with its reference summaries, in pieces, which are paragraphs or sentences."""

    source: Sequence[str]
    targets: Sequence[Sequence[str]]  # each of which is a reference summary
    source_in_sentences: bool = False  # whether each piece of the document is a sentence
    targets_in_sentences: bool = False  # whether each piece of the summaries is a sentence
    original: Sequence[str] = ()  # the words of ``source`` with their original case and digits, if requested
    origin: str = ""  # a word that describes the origin of the document, if requested


@dataclass
class DocumentLines:
    """Result of converting a document to lines."""

    source: str = ""  # the document
    targets: List[str] = field(default_factory=list)  # the reference summaries
    original: str = ""  # the document with its original case and digits, if requested
    origin: str = ""  # a word that describes the origin of the document, if requested
    dropped: str = ""  # reason for dropping the document, or an empty string to keep it
    counts: Counter = field(default_factory=Counter)  # changes of each kind
    warnings: Counter = field(default_factory=Counter)  # suspicious content that has been kept, by the keys of WARNINGS


def count_marks(text: str) -> Counter:
    """Count the marks of each kind in a text. The keys of the result are in ADVICE."""
    possible = _PATTERNS if any(map(text.lower().__contains__, _SIGNS)) else {}
    return Counter({kind: len(pattern.findall(text)) for kind, pattern in possible.items()})


def count_suspicious_content(text: str) -> Counter:
    """Count the occurrences of each kind of suspicious content in a text. The keys of the result are in WARNINGS."""
    found = count_marks(text)
    if "<" in text:
        found[HTML_TAGS] = len(_HTML_TAG.findall(text))
    if "&" in text:
        found[HTML_ENTITIES] = _count_html_entities(text)
    if not text.isascii():
        found[ZERO_WIDTH] = len(_ZERO_WIDTH.findall(text))
        found[BIDIRECTIONAL] = len(_BIDIRECTIONAL.findall(text))
    return found


def _count_html_entities(text: str) -> int:
    return sum(found[1] == "#" or found[1:] in html.entities.html5 for found in _HTML_ENTITY.findall(text))


def strip_html(text: str, counts: Counter) -> str:
    """Remove HTML tags, comments and scripts from a text, decode HTML entities, and add the changes to ``counts``.

    Tags that begin or end a block, such as a paragraph, are replaced with line breaks.
    """
    if "<" in text:
        text, hidden = _remove_hidden_content(text)
        text, tags = _HTML_TAG.subn(lambda tag: "\n" if tag.group(1) else "", text)
        counts["HTML tags, comments and scripts taken out"] += hidden + tags
    if "&" in text:
        counts["HTML entities decoded"] += _count_html_entities(text)
        text = _HTML_ENTITY.sub(lambda entity: html.unescape(entity.group()), text)
    return text


def _remove_hidden_content(text: str) -> Tuple[str, int]:
    """Remove terminated comments, scripts and styles. Returns the text and the number of removed elements."""
    kept, start = [], 0
    for opening in _HIDDEN.finditer(text):
        if opening.start() >= start:
            ending = rf"</{opening.group(1)}\s*>" if opening.group(1) else "-->"
            end = re.compile(ending, re.IGNORECASE).search(text, opening.end())
            if end is None:
                break
            kept.append(text[start : opening.start()])
            start = end.end()
    return "".join([*kept, text[start:]]), len(kept)


def strip_invisible(text: str, counts: Counter) -> str:
    """Remove zero-width characters and bidirectional control characters, and add their number to ``counts``."""
    for pattern in () if text.isascii() else (_ZERO_WIDTH, _BIDIRECTIONAL):
        text, found = pattern.subn("", text)
        counts["zero-width characters and bidirectional controls taken out"] += found
    return text


def add_full_stop(text: str, language: str = "en") -> str:
    """Add a full stop to a text, unless the text ends with punctuation of the language.

    In CNN/Daily Mail, captions and highlights often lack a full stop (See et al. 2017).
    """
    return text if not text or text.endswith((*_ENDS, *GREEK_QUESTION * (language == "el"))) else text + "."


def make_lines(document: Document, options: Any) -> DocumentLines:
    """Convert a document to clean lines with marks between sentences, by a corpus's ``options`` (CorpusOptions)."""
    made = DocumentLines(origin=document.origin)
    if options.join_tokens and not is_tokenised(" ".join(document.source)):
        options = replace(options, join_tokens=False)
    made.counts["documents whose tokens were joined"] += bool(options.join_tokens)
    sentences = _clean_and_split_sentences(document.source, document.source_in_sentences, options, made)
    made.source = _BETWEEN.join(_truncate_to_lead(sentences, options, made.counts))
    made.original = made.source
    words = clean_text(" ".join(document.original), Counter()).split()
    if words and len(words) == sum(len(sentence.split()) for sentence in sentences):
        remaining = iter(words)  # more than are used if the line was truncated
        made.original = " ".join(w if w == SENTENCE_MARK else next(remaining) for w in made.source.split())
    split = (_clean_and_split_sentences(one, document.targets_in_sentences, options, made) for one in document.targets)
    targets = list(map(_BETWEEN.join, split)) or [""]
    made.targets = list(filter(None, targets)) or [""]
    made.counts["empty references left out"] += len(targets) - len(made.targets)
    if not options.keep_empty:
        made.dropped = "empty source" if not made.source else "empty target" if not made.targets[0] else ""
    return made


def join_cleaned_words(document: Document, options: Any) -> str:
    """Return the words of a whole document after cleaning, separated by single spaces, without sentence marks."""
    return " ".join(_clean_text_segments(document.source, options, DocumentLines()))


def _clean_text_segments(pieces: Sequence[str], options: Any, made: DocumentLines) -> Iterator[str]:
    """Clean the pieces of a text, and yield those that are not blank. Changes are counted in ``made``."""
    counts = made.counts
    # A tag or a script can extend over several pieces, so HTML must be removed from all pieces together.
    for mark in options.sentence_marks:
        counts[f"{mark} taken for ends of sentences"] += sum(piece.count(mark) for piece in pieces)
        pieces = replace_sentence_marks("\n".join(pieces), [mark], "\n").split("\n")
    if options.strip_html:
        pieces = strip_html("\n".join(pieces), counts).split("\n")
    for piece in pieces:
        piece = strip_invisible(piece, counts) if options.strip_invisible else piece
        piece = clean_text(piece, counts)
        if found := count_suspicious_content(piece):
            made.warnings.update(found)
        stopped = add_full_stop(piece, options.language) if options.full_stops else piece
        counts["full stops added"] += stopped is not piece
        if stopped:
            yield stopped


def _clean_and_split_sentences(
    pieces: Sequence[str], in_sentences: bool, options: Any, made: DocumentLines
) -> List[str]:
    """Clean the pieces of a text and, if requested, split them into sentences. Changes are counted in ``made``."""
    out: List[str] = []
    splits = options.split and not in_sentences
    for piece in _clean_text_segments(pieces, options, made):
        if options.join_tokens:
            joined = split_tokenised_sentences(piece, make_treebank_tokenizer().decode)
            out += joined if splits else [" ".join(joined)]
        else:
            out += split_sentences(piece, options.language) if splits else [piece]
    return out


def _truncate_to_lead(sentences: List[str], options: Any, counts: Counter) -> List[str]:
    """Truncate a document to the maximum numbers of sentences and words in ``options``."""
    if options.source_sentences and len(sentences) > options.source_sentences:
        number = options.source_sentences
        if options.short_lead and sum(map(len, sentences[:number])) < options.short_lead:
            number += 1
        counts["documents cut by --source-sentences"] += number < len(sentences)
        sentences = sentences[:number]
    words_left = options.source_words or math.inf
    for number, sentence in enumerate(sentences):
        words = sentence.split()
        if len(words) > words_left:
            counts["documents cut by --source-words"] += 1
            return sentences[:number] + ([" ".join(words[: int(words_left)])] if words_left else [])
        words_left -= len(words)
    return sentences
