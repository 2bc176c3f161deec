"""Split text into sentences, split sentences into words or characters, and join words into text; without fairseq.

The classes below process one sentence at a time, without sentence marks.
:class:`fairseq_etads.text.tokenizer.TextTokenizer` splits lines at the marks and inserts them again.

nltk and sacremoses are imported only by the functions that use them, because the imports take half a second, which
would delay commands such as ``etads-rouge --help``.
"""

import functools
import re
from typing import Any, Dict, Iterator, List

from ..platform.deferred import STATISTICS, deferred

SENTENCE_MARK = "<q>"
"""Separator of the sentences of a line, in raw text, tokens and summaries."""

WORD_KINDS = ("moses", "ptb", "spaces", "characters", "raw")
"""Ways to split a sentence into words: values of ``--text-words`` and of etads-prepare's ``--words``."""

CACHED_CHUNKS = 500_000
"""Maximum number of chunks in the cache of TreebankWords (about 100 MB); a full cache is cleared."""

LONGEST_CHUNK = 200
"""Maximum number of characters in a chunk without white space. Longer chunks are split, because the rules for quotes
take quadratic time.
"""

BLOCK = 20_000
"""Number of characters that are split into sentences at a time."""

_WIDE_ENDS = re.compile(r"(?<=[。！？])(?![。！？」』”’）])(?=.)|(?<=[。！？][」』”’）])(?=.)")
_ABBREVIATIONS = re.findall(r"\S+", "al approx ca cf etc fig figs inc ltd pv resp spp subsp u.k u.n u.s")
_NUMBER_FOLLOWS = re.compile(r"\b(?:no|nos|nr|art|pp|vol|sec)\.$", re.IGNORECASE)
_SPECIALS = re.compile(r"<(/?s|pad|q)>", re.IGNORECASE)
_LANGUAGES = re.compile(r"(?<=[^\W\d_]) \+ \+(?![^\s,.;:!?)])|(?<=\b[CFcf]) #(?! ?\d)")
"""Tokens of C++, g++ and C# after Moses has split them."""
_LAST_AT = re.compile(r"(?<=@)(?=@+$)")


@functools.cache
def _punkt() -> Any:
    """Create Punkt's splitter with the abbreviations in sacremoses, which requires no trained model and no download."""
    from sacremoses.corpus import NonbreakingPrefixes

    with deferred(*STATISTICS):  # nltk imports all of its modules
        from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    parameters = PunktParameters()
    moses = (prefix.split()[0].lower() for prefix in NonbreakingPrefixes().words("en"))
    # Words such as "no" and "art" can also end a sentence, so they are not listed. Punkt's own rules treat single
    # letters as initials.
    ambiguous = ("no", "art", "pp")
    parameters.abbrev_types = {word for word in moses if word not in ambiguous}.union(_ABBREVIATIONS)
    return PunktSentenceTokenizer(parameters)


def split_sentences(text: str) -> List[str]:
    """Split a text into sentences, without white space around them; a blank text has none.

    A sentence ends after ``.``, ``!`` or ``?`` and any closing quotes if white space follows and the word is not an
    English abbreviation (Punkt; Kiss and Strunk 2006). A sentence also ends after ``。``, ``！`` or ``？``.
    """
    parts = _WIDE_ENDS.split(text) if re.search("[。！？]", text) else [text]
    out: List[str] = []
    for sentence in (found.strip() for part in parts for found in _punkt_sentences(part)):
        if out and _NUMBER_FOLLOWS.search(out[-1]) and sentence[:1].isdigit():
            out[-1] += " " + sentence
        elif sentence:
            out.append(sentence)
    return out


def _punkt_sentences(text: str) -> Iterator[str]:
    """Split with Punkt in blocks, because nltk stops a call after 5 seconds, too early for a very long line."""
    start, rest = 0, ""
    while start < len(text):
        end = text.find(" ", start + BLOCK)
        end = len(text) if end < 0 else end + 1
        *sentences, rest = _punkt().tokenize(rest + text[start:end]) or [""]
        yield from sentences
        start = end
        # No sentence is this long, and searching the rest again with every block would take quadratic time.
        if len(rest) > 4 * BLOCK:
            yield rest
            rest = ""
        elif start < len(text):
            rest += " "  # Punkt drops white space at the end
    yield rest


def neutralise_specials(text: str) -> str:
    """Replace ``<s>`` by ``< s >``, and likewise ``</s>``, ``<pad>`` and the sentence mark ``<q>``.

    As a result, text cannot contain fairseq's special symbols or imitate a sentence mark. Upper-case symbols (``<S>``)
    are also replaced, because text may be lower-cased later.
    """
    return _SPECIALS.sub(r"< \1 >", text) if "<" in text else text


class RawWords:
    """Words between white space, unchanged, for text that SentencePiece splits."""

    def encode(self, sentence: str, keep_case: bool = False) -> List[str]:
        """Return the words of a sentence."""
        return [neutralise_specials(word) for word in (sentence if keep_case else sentence.lower()).split()]

    def decode(self, tokens: List[str]) -> str:
        """Join tokens with spaces."""
        return " ".join(tokens)


class SpacedWords(RawWords):
    """Words between white space, for tokenised text that BPE may split."""

    def encode(self, sentence: str, keep_case: bool = False) -> List[str]:
        """Return the tokens of each word between white space, as one string per word.

        In BPE, ``@@`` at the end of a token means that the word continues. If a word itself ends in ``@@``, each of its
        final ``@`` except the first becomes a separate token.
        """
        return [_LAST_AT.sub(" ", word) for word in super().encode(sentence, keep_case)]


class MosesWords:
    """Moses's tokeniser (sacremoses), without escapes for characters such as ``&``; hyphens become ``@-@``.

    Args:
        language: language of the abbreviations and rules.
    """

    def __init__(self, language: str = "en"):
        from sacremoses import MosesDetokenizer, MosesTokenizer

        self.tokenizer = MosesTokenizer(language)
        self.detokenizer = MosesDetokenizer(language)

    def encode(self, sentence: str, keep_case: bool = False) -> List[str]:
        """Return all tokens of a sentence as one string, because some rules of Moses look across white space."""
        if not sentence:
            return []
        line = self.tokenizer.tokenize(sentence, aggressive_dash_splits=True, escape=False, return_str=True)
        return [re.sub("< unk >", "<unk>", line if keep_case else line.lower())]

    def decode(self, tokens: List[str]) -> str:
        """Join tokens into text, without spaces around punctuation and inside C++ and C#."""
        text = str(self.detokenizer.detokenize(tokens, unescape=False))
        return _LANGUAGES.sub(lambda found: found[0].replace(" ", ""), text)


class TreebankWords:
    """Words as in the Penn Treebank and in CNN/Daily Mail: ``do n't``, ``-lrb-``, opening and closing quotes.

    nltk's ``NLTKWordTokenizer`` splits the text after typographic quotes, dashes and ellipses have been replaced by
    ASCII characters. Placeholders such as ``<unk>`` or ``<cit>`` stay whole.

    nltk's rules hardly look across white space, so the words of each chunk between white space are cached. Only the
    last chunk of a sentence is treated differently, because its full stop is split off.
    """

    _ascii = str.maketrans(
        {"’": "'", "´": "'", "‘": "`", "“": "``", "„": "``", "”": "''", "…": "...", "–": "--", "—": "--", "―": "--"}
    )
    _simple = re.compile(r"(\(?)([^\W_]+(?:-[^\W_]+)*?)(n't|'s|'m|'d|'ll|'re|'ve)?(\)?)([,.;:!?]?)")
    _closers = re.compile(r"[\]\)}>\"'»]+")
    _placeholder = re.compile(r"(<(?!s>|pad>|q>)[a-z]{1,12}>)")
    _contracted = re.compile(r"(?i)\b(?:cannot|gimme|gonna|gotta|lemme|wanna)\b")

    def __init__(self) -> None:
        from nltk.tokenize.destructive import NLTKWordTokenizer
        from nltk.tokenize.treebank import TreebankWordDetokenizer

        self.tokenizer = NLTKWordTokenizer()
        self.detokenizer = TreebankWordDetokenizer()
        self._known: Dict[str, str] = {}

    def encode(self, sentence: str, keep_case: bool = False) -> List[str]:
        """Return the tokens of each chunk between white space, as one string per chunk."""
        if not sentence.isascii():
            sentence = sentence.translate(self._ascii)
        chunks = sentence.split()
        last = len(chunks) - 1
        while last > 0 and self._closers.fullmatch(chunks[last]):
            last -= 1
        known, out = self._known, []
        for number, chunk in enumerate(chunks):
            # No chunk contains white space, so the appended character distinguishes the kinds of keys.
            key = (chunk if number < last else chunk + "\n") if keep_case else chunk + (" " if number < last else "\t")
            words = known.get(key)
            if words is None:
                words = self._words(chunk, number == 0, number >= last)
                words = words if keep_case else words.lower()
                if number:  # in the first chunk, nltk treats any quote as an opening quote
                    if len(known) >= CACHED_CHUNKS:
                        known.clear()
                    known[key] = words
            out.append(words)
        return out

    def _words(self, chunk: str, first: bool, last: bool) -> str:
        """Return the tokens of a chunk, joined by spaces.

        Args:
            first, last: whether the chunk is the first or the last of the sentence.
        """
        simple = self._simple.fullmatch(chunk)
        if simple and not self._contracted.search(simple.group(2)):  # this shortcut produces the same result as nltk
            opening, word, clitic, closing, end = simple.groups()
            if end != "." or last or closing:
                return " ".join(filter(None, (opening and "-LRB-", word, clitic, closing and "-RRB-", end)))
            if not clitic:  # this is the full stop of an abbreviation
                return ("-LRB- " if opening else "") + word + "."
        if len(chunk) > LONGEST_CHUNK:
            parts = [chunk[start : start + LONGEST_CHUNK] for start in range(0, len(chunk), LONGEST_CHUNK)]
            return " ".join(self._words(part, first, last and part is parts[-1]) for part in parts)
        if "<" in chunk:
            parts = [part for part in self._placeholder.split(chunk) if part]
            if len(parts) > 1 or self._placeholder.fullmatch(chunk):
                return " ".join(
                    part if self._placeholder.fullmatch(part) else self._words(part, first, last and part is parts[-1])
                    for part in parts
                )
        before, after = ("" if first else "x "), ("" if last else " x")
        words = self.tokenizer.tokenize(f"{before}{chunk}{after}", convert_parentheses=True)
        return " ".join(words[bool(before) : len(words) - bool(after)])

    def decode(self, tokens: List[str]) -> str:
        """Join tokens into text, without spaces around punctuation and inside contractions."""
        brackets = [token.upper() if re.fullmatch("-[lr][rsc]b-", token) else token for token in tokens]
        return neutralise_specials(str(self.detokenizer.detokenize(brackets, convert_parentheses=True)))


class Characters:
    """Split Chinese, Japanese and Korean into single characters; runs of other letters or digits stay together."""

    _wide = "\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
    wide = re.compile(f"[{_wide}]")
    _token = re.compile(rf"<unk>|[{_wide}]|[^\W{_wide}]+|\S")
    _narrow_gap = re.compile(rf"(?<=[{_wide}]) (?=\S)|(?<=\S) (?=[{_wide}])")

    def encode(self, sentence: str, keep_case: bool = False) -> List[str]:
        """Return the tokens of each chunk between white space, as one string per chunk."""
        chunks = (sentence if keep_case else sentence.lower()).split()
        return [" ".join(self._token.findall(chunk)) for chunk in chunks]

    def decode(self, tokens: List[str]) -> str:
        """Join tokens into text, without spaces next to wide characters."""
        return self._narrow_gap.sub("", " ".join(tokens))


def make_words(kind: str, language: str = "en") -> Any:
    """Create the object that splits sentences into words (``encode``) and joins them again (``decode``).

    Args:
        kind: one of ``WORD_KINDS``.
        language: language of Moses's rules.
    """
    if kind == "moses":
        return MosesWords(language)
    return {"ptb": TreebankWords, "spaces": SpacedWords, "characters": Characters, "raw": RawWords}[kind]()
