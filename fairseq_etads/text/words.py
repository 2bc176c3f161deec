"""From raw text to words and back: sentences, Penn Treebank words, Moses words, characters. fairseq is not needed here.

A *sentence mark* stands between the sentences of a line. Every class below is given sentences without marks; the marks
are the business of :class:`fairseq_etads.text.tokenizer.TextTokenizer`.

nltk and sacremoses are imported where they are first used: together they cost 1.8 s of processor time (nltk loads scipy
and scikit-learn where they are installed), and most commands need only the constants of this module to start.
"""

import functools
import re
from typing import Any, Dict, Iterator, List

SENTENCE_MARK = "<q>"
"""Stands between the sentences of a line, in raw text, among the tokens and in summaries."""

WORD_KINDS = ("moses", "ptb", "spaces", "characters", "raw")
"""How --words and --text-words cut text into words; see the classes below."""

CACHED_CHUNKS = 500_000
"""Different chunks of text whose words are remembered, about 100 MB; then the memory starts anew."""

LONGEST_CHUNK = 200
"""Characters of a chunk without white space that are looked at together: rules for quotes are quadratic in them."""

BLOCK = 20_000
"""Characters that are cut into sentences at a time."""

_WIDE_ENDS = re.compile(r"(?<=[。！？])(?![。！？」』”’）])(?=.)|(?<=[。！？][」』”’）])(?=.)")
_ABBREVIATIONS = re.findall(r"\S+", "al approx ca cf etc fig figs inc ltd pv resp spp subsp u.k u.n u.s")
_NUMBER_FOLLOWS = re.compile(r"\b(?:no|nos|nr|art|pp|vol|sec)\.$", re.IGNORECASE)
_SPECIALS = re.compile(r"<(/?s|pad|q)>", re.IGNORECASE)
_LAST_AT = re.compile(r"(?<=@)(?=@+$)")


@functools.lru_cache(maxsize=None)
def _punkt() -> Any:
    """Punkt's rules with Moses's abbreviations, which sacremoses carries: no trained model, nothing to download."""
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer
    from sacremoses.corpus import NonbreakingPrefixes

    parameters = PunktParameters()
    moses = (prefix.split()[0].lower() for prefix in NonbreakingPrefixes().words("en"))
    # "no." ends sentences, too; a single letter is an initial by Punkt's own rules
    ambiguous = ("no", "art", "pp")
    parameters.abbrev_types = {word for word in moses if word not in ambiguous}.union(_ABBREVIATIONS)
    return PunktSentenceTokenizer(parameters)


def split_sentences(text: str) -> List[str]:
    """Sentences of a text, without white space around them; none for a blank one.

    Cut after ``.``, ``!`` or ``?`` and closing quotes where white space follows, unless the word is an abbreviation of
    English (Punkt; Kiss and Strunk 2006), and after ``。``, ``！`` or ``？``.
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
    """Punkt's sentences, block by block: nltk gives every call 5 seconds, which a very long line can take."""
    start, rest = 0, ""
    while start < len(text):
        end = text.find(" ", start + BLOCK)
        end = len(text) if end < 0 else end + 1
        *sentences, rest = _punkt().tokenize(rest + text[start:end]) or [""]
        yield from sentences
        start = end
        if len(rest) > 4 * BLOCK:  # no sentence is so long; looking at it again with every block would be quadratic
            yield rest
            rest = ""
        elif start < len(text):
            rest += " "  # Punkt leaves white space at the end out
    yield rest


def neutralise_specials(text: str) -> str:
    """Spaces inside what would be taken for fairseq's own ``<s>``, ``</s>`` and ``<pad>``, or for a sentence mark.

    In any case, since text may be lower-cased later.
    """
    return _SPECIALS.sub(r"< \1 >", text) if "<" in text else text


class RawWords:
    """Text whose words are separated by spaces already, or which SentencePiece cuts."""

    def encode(self, sentence: str, keep_case: bool = False) -> List[str]:
        """Tokens of each word between white space, as one string each."""
        return [neutralise_specials(word) for word in (sentence if keep_case else sentence.lower()).split()]

    def decode(self, tokens: List[str]) -> str:
        return " ".join(tokens)


class SpacedWords(RawWords):
    """Text whose words are separated by spaces already, and which BPE may cut."""

    def encode(self, sentence: str, keep_case: bool = False) -> List[str]:
        """As RawWords; of a word that ends in ``@@``, which says in BPE that it goes on, each last ``@`` is a token."""
        return [_LAST_AT.sub(" ", word) for word in super().encode(sentence, keep_case)]


class MosesWords:
    """Moses's tokeniser (sacremoses) without escapes, hyphens split as ``@-@``."""

    def __init__(self, language: str = "en"):
        from sacremoses import MosesDetokenizer, MosesTokenizer

        self.tokenizer = MosesTokenizer(language)
        self.detokenizer = MosesDetokenizer(language)

    def encode(self, sentence: str, keep_case: bool = False) -> List[str]:
        """The whole sentence as one string: Moses's rules look across white space, and at capitals behind a stop."""
        if not sentence:
            return []
        line = self.tokenizer.tokenize(sentence, aggressive_dash_splits=True, escape=False, return_str=True)
        return [re.sub("< unk >", "<unk>", line if keep_case else line.lower())]

    def decode(self, tokens: List[str]) -> str:
        return str(self.detokenizer.detokenize(tokens, unescape=False))


class TreebankWords:
    """Words as in the Penn Treebank and in CNN/Daily Mail: ``do n't``, ``-lrb-``, opening and closing quotes.

    nltk's ``NLTKWordTokenizer`` after typographic quotes, dashes and dots are put into ASCII. Its rules hardly look
    across white space, so the words of each chunk between white space are remembered; only the last chunk of a sentence
    is special, since its full stop is split off. In place of ``<name>`` (``<unk>``, ``<cit>``) is one word.
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
        """Tokens of each chunk between white space, as one string each."""
        if not sentence.isascii():
            sentence = sentence.translate(self._ascii)
        chunks = sentence.split()
        last = len(chunks) - 1
        while last > 0 and self._closers.fullmatch(chunks[last]):
            last -= 1
        known, out = self._known, []
        for number, chunk in enumerate(chunks):
            # white space cannot be in a chunk, so these marks make different keys
            key = (chunk if number < last else chunk + "\n") if keep_case else chunk + (" " if number < last else "\t")
            words = known.get(key)
            if words is None:
                words = self._words(chunk, number == 0, number >= last)
                words = words if keep_case else words.lower()
                if number:  # nltk takes a quote at the very beginning for an opening one
                    if len(known) >= CACHED_CHUNKS:
                        known.clear()
                    known[key] = words
            out.append(words)
        return out

    def _words(self, chunk: str, first: bool, last: bool) -> str:
        simple = self._simple.fullmatch(chunk)
        if simple and not self._contracted.search(simple.group(2)):  # what nltk's rules come to for most chunks
            opening, word, clitic, closing, end = simple.groups()
            if end != "." or last or closing:
                return " ".join(filter(None, (opening and "-LRB-", word, clitic, closing and "-RRB-", end)))
            if not clitic:  # the full stop of an abbreviation
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
        brackets = [token.upper() if re.fullmatch("-[lr][rsc]b-", token) else token for token in tokens]
        return neutralise_specials(str(self.detokenizer.detokenize(brackets, convert_parentheses=True)))


class Characters:
    """Each Chinese, Japanese or Korean character is a token; runs of other letters or digits stay together."""

    _wide = "\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
    _token = re.compile(rf"<unk>|[{_wide}]|[^\W{_wide}]+|\S")
    _narrow_gap = re.compile(rf"(?<=[{_wide}]) (?=\S)|(?<=\S) (?=[{_wide}])")

    def encode(self, sentence: str, keep_case: bool = False) -> List[str]:
        """Tokens of each chunk between white space, as one string each."""
        chunks = (sentence if keep_case else sentence.lower()).split()
        return [" ".join(self._token.findall(chunk)) for chunk in chunks]

    def decode(self, tokens: List[str]) -> str:
        return self._narrow_gap.sub("", " ".join(tokens))
