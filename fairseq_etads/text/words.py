"""Split text into sentences, split sentences into words or characters, and join words into text.

The classes process one sentence at a time, without sentence marks; :class:`~fairseq_etads.text.tokenizer.TextTokenizer`
splits lines at the marks. nltk and sacremoses are imported inside functions, because this takes half a second.

:func:`find_words` finds words as they are counted and compared: by ROUGE, content models, analyses and searches for
duplicates.
"""

import functools
import re
import unicodedata
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import regex

from ..platform.optional_parts import defer_statistics

SENTENCE_MARK = "<q>"
"""Mark between two sentences on a line, which is used in raw text, tokenised text and summaries."""
ENDS_ANYWHERE = "。！？｡‼⁇⁈⁉।॥۔؟։።፧፨။។៕"
"""Characters of Chinese, Indic, Arabic and other scripts that end a sentence even if no space follows."""
SENTENCE_ENDS = ".!?" + ENDS_ANYWHERE
GREEK_QUESTION = ";"  # Unicode's form NFC makes a semicolon of it
CLOSERS = "'`\")’”»›」』）】》〉"
"""Characters that can follow the end of a sentence and belong to it."""
SPEAKING_VERBS = frozenset(re.findall(r"\w+", "said says say adds added told asked asks wrote replied tweeted"))

CACHED_CHUNKS = 500_000
"""Maximum number of chunks in the cache of PennTreebankTokenizer (about 100 MB). A full cache is cleared."""
LONGEST_CHUNK = 200
"""Maximum number of characters in a chunk without white space, in which the rules for quotes take quadratic time."""
_SPACE = "▁"
"""Token of CharacterTokenizer for a space next to Korean, which alone among its scripts has spaces between words."""
BLOCK = 20_000
"""Approximate number of characters to process at a time when text is split into sentences."""

_CLOSERS_ANYWHERE = CLOSERS[4:]
_STRAIGHT = CLOSERS[:4]  # can also open a quotation, unless a space follows
_ANYWHERE = re.compile(
    f"(?<=[{ENDS_ANYWHERE}])(?![{SENTENCE_ENDS}{_CLOSERS_ANYWHERE}]|[{_STRAIGHT}](?:\\s|$))(?=.)|"
    f"(?<=[{ENDS_ANYWHERE}][{_CLOSERS_ANYWHERE}])(?![{_CLOSERS_ANYWHERE}{SENTENCE_ENDS}、，,とっ])(?=.)|"
    f"(?<=[{ENDS_ANYWHERE}][{_STRAIGHT}])(?=\\s)"
)
LANGUAGES = (
    *re.findall(r"\w+", "en as bn ca cs de el es et fi fr ga gu hi hu is it kn lt lv ml mni mr nl or pa pl pt ro ru"),
    *re.findall(r"\w+", "sk sl sv ta tdt te yue zh"),
)
"""Codes of the languages with abbreviations in sacremoses."""
_WITH_ORDINALS = ("cs", "de", "et", "fi", "hu", "is", "lv", "sk", "sl")
"""Languages in which a number with a full stop is an ordinal number, as in "3. Mai"."""
_LEFT_POINTING = ("cs", "de", "hu", "sk", "sl")
"""Languages in which ``«``, ``‹`` and ``“`` close quotations."""
_ABBREVIATIONS = re.findall(r"\S+", "al approx ca cf etc fig figs inc ltd pv resp spp subsp u.k u.n u.s")
_DAYS = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_CONTINUES = re.compile(
    r"\b(?:(?:no|nos|nr|art|pp|vol|sec|jan|feb|apr|aug|sept?|oct|nov|dec)\.\n\d"
    rf"|[ap]\.m\.\n(?:on|{_DAYS}|[ecmp][sd]?t|gmt|bst)\b)",
    re.IGNORECASE,
)
"""Abbreviations and, after a line break, what may follow so that no sentence ends between them."""
_CONTINUES_IN_LOWER_CASE = re.compile(
    r"(?:(?:(?:\b[^\W\d_]{1,2}\.){2,}|\b(?:Bros|Co|Corp|Dept|Jr|Sr)\.)\)?|[!?] ?[\"'”’»“])\n[^\W\d_]|\.\n['’]s\b"
)
"""The same in text with capital letters, if a small letter follows: "the B.B.C.", "Ph.D." or a quotation."""
_SPECIALS = re.compile(r"<(/?s|pad|q)>", re.IGNORECASE)
_LANGUAGES = re.compile(r"(?<=[^\W\d_]) \+ \+(?![^\s,.;:!?)])|(?<=\b[CFcf]) #(?! ?\d)")
"""Suffixes of C++, g++ and C# that the Moses tokeniser has separated into tokens."""
_WIDE = r"[\p{Han}\p{Hiragana}\p{Katakana}\u30fb\u3000-\u303f\uff00-\uff60]"
_QUOTED_WIDE = regex.compile(rf"(?<={_WIDE}) (?=[“‘”’])|(?<=[“‘”’]) (?={_WIDE})")
_BEFORE_MARK = r" (?=[\p{M}\u200c\u200d\U0001f3fb-\U0001f3ff])|(?<=[\u200c\u200d]) "
"""A space before an accent, a skin tone or a joiner (of Persian, Indic scripts or emoji), or after a joiner."""
_HANGUL = re.compile("[\uac00-\ud7a3]")
_LAST_AT = re.compile(r"(?<=@)(?=@+$)")

# Text that is already split into tokens, as released corpora are: he did n't say so , " she added . "
_LONE_STOP = re.compile(r"(?<!\S)[.](?!\S)")
_LONE_COMMA = re.compile(r"(?<!\S),(?!\S)")
_ATTACHED = re.compile(r"(?:\w{3}[.]|\w,)(?!\S)")
_JOINED_HYPHEN = re.compile(r"\w-\w")
_END_TOKENS = frozenset((*SENTENCE_ENDS, "...", "…"))
_CLOSING = frozenset(("''", "”", "’", ")", "]", "-rrb-", "-RRB-"))
_TREEBANK_QUOTES: Dict[str, Tuple[str, str]] = {'"': ("``", "''"), "'": ("`", "'")}
_WITH_LONE_STOP = frozenset(("mr", "mrs", "ms", "dr", "st", "vs", "no"))


@functools.cache
def _make_punkt(language: str) -> Any:
    """Create a Punkt sentence splitter that uses the abbreviations in sacremoses."""
    from sacremoses.corpus import NonbreakingPrefixes

    with defer_statistics():  # nltk imports all of its modules
        from nltk.tokenize.punkt import PunktLanguageVars, PunktParameters, PunktSentenceTokenizer

    parameters = PunktParameters()
    moses = (prefix.lower().split() for prefix in NonbreakingPrefixes().words(language))
    if language == "en":
        # Words such as "no" and "art" can also end a sentence, so they are not treated as abbreviations here. Punkt
        # itself treats single letters as initials.
        parameters.abbrev_types = {word for word, *_ in moses if word not in ("no", "art", "pp")}.union(_ABBREVIATIONS)
        return PunktSentenceTokenizer(parameters)
    parameters.abbrev_types = {word for word, *only_before_numbers in moses if not only_before_numbers}
    if language in _WITH_ORDINALS:
        parameters.abbrev_types.update(map(str, range(1, 32)))
    closers = CLOSERS + ("«‹“‘" if language in _LEFT_POINTING else "")

    class Rules(PunktLanguageVars):
        """Punkt's rules with typographic quotes and the Greek question mark, which Punkt itself does not know."""

        sent_end_chars = (".", "?", "!", *GREEK_QUESTION * (language == "el"))
        _re_non_word_chars = rf"(?:[;}}\]*:@({{\[!?{closers}])"
        re_boundary_realignment = re.compile(rf"[\]}}{closers}]+?(?:\s+|(?=--)|$)", re.MULTILINE)

    return PunktSentenceTokenizer(parameters, lang_vars=Rules())


def split_sentences(text: str, language: str = "en") -> List[str]:
    """Split a text into sentences without white space around them. The list is empty for a blank text.

    A sentence ends after ``.``, ``!`` or ``?`` and any closing quotes if white space follows and the word is not an
    abbreviation of the language (one of :data:`LANGUAGES`). These rules are from Punkt (Kiss and Strunk 2006). The
    characters in :data:`ENDS_ANYWHERE` always end a sentence. Tokenised text is split at full stops that are tokens.
    """
    if is_tokenised(text):
        return split_tokenised_sentences(text)
    parts = _ANYWHERE.split(text) if not text.isascii() else [text]
    found: List[List[str]] = []  # the pieces of each sentence, which are joined once: a text can be one sentence
    is_mixed, tail = not text.islower(), ""
    punkt = _make_punkt(language if language in LANGUAGES else "en")
    for piece in (one.strip() for part in parts for one in split_sentences_in_blocks(punkt, part)):
        if not piece:
            continue
        between = f"{tail}\n{piece[:10]}"
        continues = is_mixed and piece[:2].islower() and _CONTINUES_IN_LOWER_CASE.search(between)
        if continues or _CONTINUES.search(between):
            gap = " " if piece[0].isalnum() or tail + piece[:10] not in text else ""  # "B.B.C.'s" has none
            found[-1] += [gap, piece]
            tail = f"{tail}{gap}{piece}"[-6:]
        else:
            found.append([piece])
            tail = piece[-6:]
    return list(map("".join, found))


def split_marked_sentences(text: str, language: str = "en") -> List[str]:
    """Split a text at its sentence marks or, without any, by rules. White space in the sentences becomes one space."""
    parts = text.split(SENTENCE_MARK) if SENTENCE_MARK in text else split_sentences(text, language)
    return [" ".join(part.split()) for part in parts if part.strip()]


def split_sentences_in_blocks(punkt: Any, text: str) -> Iterator[str]:
    """Split a text into sentences with nltk's ``PunktSentenceTokenizer``, one block at a time.

    nltk aborts calls that take more than 5 seconds, which happens with very long lines.
    """
    start, rest = 0, ""
    while start < len(text):
        end = text.find(" ", start + BLOCK)
        end = len(text) if end < 0 else end + 1
        *sentences, rest = punkt.tokenize(rest + text[start:end]) or [""]
        yield from sentences
        start = end
        # The rest is too long to be a single sentence. Searching it again with each block would take quadratic time.
        if len(rest) > 4 * BLOCK:
            yield rest
            rest = ""
        elif start < len(text):
            rest += " "  # Punkt drops white space at the end of the text
    yield rest


def is_tokenised(text: str) -> bool:
    """Return whether most full stops and commas in a text are tokens of their own, which no writer puts there."""
    stops = len(_LONE_STOP.findall(text))
    return stops > 0 and stops + len(_LONE_COMMA.findall(text)) > 2 * len(_ATTACHED.findall(text))


def _mark_quotes(tokens: List[str]) -> Iterator[str]:
    """Yield tokens in which straight quotes are the Penn Treebank's opening and closing ones.

    Quotes alternate, but one after a comma closes, and one after ``said ,`` or a colon opens.
    """
    is_open = dict.fromkeys(_TREEBANK_QUOTES, False)
    for number, token in enumerate(tokens):
        if token not in _TREEBANK_QUOTES:
            yield token
            continue
        before, word = tokens[number - 1] if number else "", tokens[number - 2].lower() if number > 1 else ""
        if token == "'" and not is_open[token] and before.endswith("s") and before != "'s":  # players ' union
            yield token
            continue
        opens = word in SPEAKING_VERBS or number == 1 if before == "," else before == ":" or not is_open[token]
        is_open[token] = opens
        yield _TREEBANK_QUOTES[token][not opens]


Decode = Callable[[List[str]], str]


def split_tokenised_sentences(text: str, join: Optional[Decode] = None) -> List[str]:
    """Split tokenised text into sentences.

    A sentence ends after each full stop, question mark or exclamation mark that is a token, except after an
    abbreviation such as "mr", and includes closing quotes and brackets. ``join`` joins the Penn Treebank tokens of a
    sentence as people write them; without it, the tokens are kept.
    """
    if join is not None and not _JOINED_HYPHEN.search(text):  # some editions split words at hyphens: 35 - year - old
        text = re.sub(r"(?<=\w) - (?=\w)", "-", text)
    tokens = text.split()
    sentences: List[List[Tuple[str, str]]] = [[]]
    ended, before = False, ""
    for token, marked in zip(tokens, _mark_quotes(tokens)):
        closes = marked in _CLOSING or (token == "'" == marked)
        if ended and not closes and token not in _END_TOKENS:
            sentences.append([])
            ended = False
        sentences[-1].append((token, marked))
        ended = ended or (token in _END_TOKENS and not (token == "." and before in _WITH_LONE_STOP))
        before = token.lower()
    if join is None:
        return [" ".join(token for token, _ in sentence) for sentence in sentences if sentence]
    return [_join_tokens([marked for _, marked in sentence], join) for sentence in sentences if sentence]


def _join_tokens(tokens: List[str], join: Decode) -> str:
    ended = [token for before, token in zip(["", *tokens], tokens) if token != "." or not before.endswith(".")]
    text = join(ended)
    text = re.sub(r"(?<!\S)[`‘] (?=\S)", lambda quote: "‘" if quote[0] == "‘ " else "'", text)
    text = re.sub(r"(?<=\S) (?=’(?:(?:s|t|m|d|re|ve|ll)\b|\W|$))", "", text)
    return re.sub(r"(?<!\S)([£$€#@]) (?=\w)", r"\1", text)


def replace_sentence_marks(text: str, marks: Sequence[str], replacement: str = SENTENCE_MARK) -> str:
    """Replace each of the marks, and the closing tag of a mark like ``<t>``, with a sentence mark."""
    for mark in filter(None, marks):
        text = text.replace(mark, replacement).replace(re.sub("^<(?=[A-Za-z])", "</", mark), replacement)
    return text


def neutralise_special_symbols(text: str) -> str:
    """Insert spaces into special symbols of fairseq and the mark ``<q>``, in any case: ``<s>`` becomes ``< s >``."""
    return _SPECIALS.sub(r"< \1 >", text) if "<" in text else text


class RawWordTokenizer:
    """Split text only at white space. Used for text that SentencePiece splits into subwords."""

    def encode(self, sentence: str, keep_case: bool = False) -> List[str]:
        """Return the words of a sentence."""
        return [neutralise_special_symbols(word) for word in (sentence if keep_case else sentence.lower()).split()]

    def decode(self, tokens: List[str]) -> str:
        """Join tokens with spaces."""
        return " ".join(tokens)


class PretokenizedWordTokenizer(RawWordTokenizer):
    """Split text only at white space. Used for text that is already tokenised and that BPE may split into subwords."""

    def encode(self, sentence: str, keep_case: bool = False) -> List[str]:
        """Return the words of a sentence. Of ``@@`` at the end, where a word of BPE continues, ``@`` is split off."""
        return [_LAST_AT.sub(" ", word) for word in super().encode(sentence, keep_case)]


@functools.cache
def _compile_joined_signs(language: str) -> List[Tuple[Any, str]]:
    """Return patterns of the spaces that Moses inserts and does not remove, and what replaces them."""
    elided = "[^\\W\\d_]" if language in ("fr", "it", "ca", "ga") else r"(?:s|t|m|d|re|ve|ll|em)\b"
    opening, closing = ("„‚»›", "“”‘’«‹") if language in _LEFT_POINTING else ("“‘„‚«‹", "”’»›")
    closed = rf"(?: ([,.?!;:…]))? ([{closing if language != 'fr' else '’”'}])(?= )"
    opened = rf" ([{opening if language != 'fr' else '“‘'}]) (?=\S)"
    return [
        (regex.compile(pattern), replacement)
        for pattern, replacement in (
            (_BEFORE_MARK, ""),
            (r"(?<=[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}+) (?=[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}])", ""),
            (r"(?<=\p{Hebrew}) ([״׳]) (?=\p{Hebrew})|(?<=\p{Armenian}) ([՛՜՞]) (?=\p{Armenian})", r"\1\2"),
            (rf" (?=[{ENDS_ANYWHERE}…،؛፣、，：；])|(?<={_WIDE}|…) (?={_WIDE})", ""),
            (rf"(?<={_WIDE}|—) (?=—)|(?<=—) (?={_WIDE})", ""),
            (r" (\w+) : / / (?=\S)", r" \1://"),
            (r"(?<=\w) ([/_]) (?=\w)", r"\1"),
            (r"(?<=\d) : (?=\d)", ":"),
            (r"(?<=\w) @ (?=[\w-]+\.\w)", "@"),
            (r"(?<! [CFcf]) ([#@]) (?=[^\W\d_])", r" \1"),
            (rf"(?<=[^\W\d_]) ’ (?={elided})|(?<= [ODLodl]) ’ (?=[^\W\d_])", "’"),
            (r" ’ n ’ ", "’n’"),
            (r" ’ (?=\d\ds?\b)", " ’"),
            (closed, r"\1\2"),
            (opened, r" \1"),
        )
    ]


class MosesWordTokenizer:
    """Moses's words and punctuation (sacremoses), unescaped, with ``@-@`` for hyphens."""

    def __init__(self, language: str = "en"):
        from sacremoses import MosesDetokenizer, MosesTokenizer

        self.tokenizer = MosesTokenizer(language)
        # With other languages, Moses takes Korean for Chinese, which has no spaces.
        self.korean_tokenizer, self.korean_detokenizer = MosesTokenizer("ko"), MosesDetokenizer("ko")
        self.detokenizer = MosesDetokenizer(language)
        self._joined = _compile_joined_signs(language)

    def encode(self, sentence: str, keep_case: bool = False) -> List[str]:
        """Return all tokens of a sentence in a single string, because some rules depend on neighbouring words."""
        if not sentence:
            return []
        tokenizer = self.korean_tokenizer if _HANGUL.search(sentence) else self.tokenizer
        line = tokenizer.tokenize(sentence, aggressive_dash_splits=True, escape=False, return_str=True)
        return [re.sub("< unk >", "<unk>", line if keep_case else line.lower())]

    def decode(self, tokens: List[str]) -> str:
        """Join tokens into text without spaces around punctuation or inside C++ and C#."""
        text = f" {' '.join(tokens)} "
        for pattern, replacement in self._joined:
            text = pattern.sub(replacement, text)
        detokenizer = self.korean_detokenizer if _HANGUL.search(text) else self.detokenizer
        text = _QUOTED_WIDE.sub("", str(detokenizer.detokenize(text.split(), unescape=False)))
        return _LANGUAGES.sub(lambda found: found[0].replace(" ", ""), text)


class PennTreebankTokenizer:
    """Split words as in the Penn Treebank and CNN/Daily Mail: ``do n't``, ``-lrb-``, opening and closing quotes.

    Typographic quotes, dashes and ellipses are first replaced with ASCII characters. The text is then split by nltk's
    ``NLTKWordTokenizer``. Placeholders such as ``<unk>`` or ``<cit>`` are not split. The tokens of each chunk between
    white space are cached. They depend on its neighbours only at the start of a sentence, where quotes are read in
    another way, and at the end, where the full stop is split off.
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
        """Return, for each chunk of text between white space, its tokens in one string, separated by spaces."""
        chunks = (sentence if sentence.isascii() else sentence.translate(self._ascii)).split()
        last = len(chunks) - 1
        while last > 0 and self._closers.fullmatch(chunks[last]):
            last -= 1
        known, out = self._known, []
        for number, chunk in enumerate(chunks):
            # Chunks do not contain white space, so the appended character distinguishes the kinds of keys.
            key = (chunk if number < last else chunk + "\n") if keep_case else chunk + (" " if number < last else "\t")
            words = known.get(key) if number else None  # at the start of a sentence, nltk reads quotes differently
            if words is None:
                words = self._split_chunk(chunk, number == 0, number >= last)
                words = words if keep_case else words.lower()
                if number:
                    if len(known) >= CACHED_CHUNKS:
                        known.clear()
                    known[key] = words
            out.append(words)
        return out

    def _split_chunk(self, chunk: str, first: bool, last: bool) -> str:
        """Split a chunk of text into tokens, and return them separated by spaces."""
        simple = self._simple.fullmatch(chunk)
        if simple and not self._contracted.search(simple.group(2)):  # this shortcut produces the same result as nltk
            opening, word, clitic, closing, end = simple.groups()
            if end != "." or last or closing:
                return " ".join(filter(None, (opening and "-LRB-", word, clitic, closing and "-RRB-", end)))
            if not clitic:  # the full stop is part of an abbreviation
                return ("-LRB- " if opening else "") + word + "."
        if self._placeholder.fullmatch(chunk):
            return chunk
        parts = [chunk[start : start + LONGEST_CHUNK] for start in range(0, len(chunk), LONGEST_CHUNK)]
        parts = list(filter(None, self._placeholder.split(chunk))) if len(parts) == 1 else parts
        if len(parts) > 1:
            return " ".join(self._split_chunk(part, first, last and part is parts[-1]) for part in parts)
        before, after = ("" if first else "x "), ("" if last else " x")
        words = self.tokenizer.tokenize(f"{before}{chunk}{after}", convert_parentheses=True)
        return " ".join(words[bool(before) : len(words) - bool(after)])

    def decode(self, tokens: List[str]) -> str:
        """Join tokens into text without spaces around punctuation or inside contractions."""
        brackets = [token.upper() if re.fullmatch("-[lr][rsc]b-", token) else token for token in tokens]
        return neutralise_special_symbols(str(self.detokenizer.detokenize(brackets, convert_parentheses=True)))


class CharacterTokenizer:
    """Split Chinese, Japanese and Korean text into single characters.

    Other letters and digits stay together. Any other character is a token, such as the point in 12.5 or the accent in a
    decomposed é, and so is a space next to Korean (▁).
    """

    _wide = "\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
    wide = re.compile(f"[{_wide}]")
    _token = re.compile(rf"<unk>|[{_wide}]|[^\W{_wide}]+|\S")
    _korean_gap = re.compile(f"(?<={_HANGUL.pattern}) | (?={_HANGUL.pattern})")
    _narrow_gap = re.compile(rf"(?<=[{_wide}]) (?=\S)|(?<=\S) (?=[{_wide}])|(?<=…) (?=…)|(?<=—) (?=—)")
    # A comma may also separate two numbers, so spaces around it are removed only before a group of three digits.
    _in_number = re.compile(r"(?<=\d) ([.:]|,(?= \d{3}(?!\d))) (?=\d)|(?<=\d) (?=[%‰])")

    def encode(self, sentence: str, keep_case: bool = False) -> List[str]:
        """Return, for each chunk of text between white space, its tokens in one string, separated by spaces."""
        sentence = " ".join((sentence if keep_case else sentence.lower()).split())
        chunks = self._korean_gap.sub(f"{_SPACE} ", sentence).split()
        return [" ".join(self._token.findall(chunk)) for chunk in chunks]

    def decode(self, tokens: List[str]) -> str:
        """Join tokens into text without spaces next to wide characters, in numbers and before combining marks.

        A space may remain after a mark, because the tokens do not show whether the word ends there.
        """
        text = self._narrow_gap.sub("", regex.sub(_BEFORE_MARK, "", " ".join(tokens)))
        text = re.sub(f" ?{_SPACE} ?", " ", text).strip()
        return self._in_number.sub(lambda found: found[1] or "", text)


_TOKENIZERS: Dict[str, Any] = {
    "moses": MosesWordTokenizer,
    "ptb": PennTreebankTokenizer,
    "spaces": PretokenizedWordTokenizer,
    "characters": CharacterTokenizer,
    "raw": RawWordTokenizer,
}
WORD_KINDS = tuple(_TOKENIZERS)
"""Types of word tokenisation, which are the values of ``--text-words`` and of ``--words`` in etads-prepare."""


def make_word_tokenizer(kind: str, language: str = "en") -> Any:
    """Create a tokeniser of a kind in WORD_KINDS, with ``encode`` (sentence to words) and ``decode`` (words to text).

    ``language`` is the code of the language for the Moses rules.
    """
    return MosesWordTokenizer(language) if kind == "moses" else _TOKENIZERS[kind]()


# Scripts without spaces between words. U+30FC prolongs vowels in Katakana, but belongs to no script in Unicode.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\u30fc\uff70\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
# In Indic scripts, a combining mark (\p{M}) belongs to the preceding letter. Words in these scripts and in Persian may
# contain joiners.
_CHARACTER = r"[\p{L}\p{N}][\p{M}\p{Join_Control}]*"
WORD = (
    rf"(?V1)[[\p{{L}}\p{{N}}]&&[{_UNSPACED}]][\p{{M}}\p{{Join_Control}}]*|"
    rf"[[\p{{L}}\p{{N}}]--[{_UNSPACED}]][[\p{{L}}\p{{M}}\p{{N}}\p{{Join_Control}}]--[{_UNSPACED}]]*"
)
"""Pattern of a word in any script, for the package regex."""
_UNSPACED_LETTER = regex.compile(rf"[{_UNSPACED}]")
LATIN = "a-z0-9"

TOKENS: Dict[str, Callable[[str], List[str]]] = {
    LATIN: re.compile("[a-z0-9]+").findall,
    "words": regex.compile(WORD).findall,
    "characters": regex.compile(_CHARACTER).findall,
}
"""Mapping from the values of ``--tokens`` to functions that split a lower-cased text into words.

"a-z0-9": sequences of these letters and digits, as in rouge-score and ROUGE-1.5.5.pl. "words": sequences of letters
(with their combining marks) and digits in any script, or single characters in Chinese, Japanese, Thai and other scripts
without spaces. ASCII text has the same words as with "a-z0-9". "characters": single letters and digits in any script.
"""


def find_words(text: str, tokens: str = "words") -> List[str]:
    """Return the lower-cased words of a text in Unicode's form NFC. ``tokens`` is a key of :data:`TOKENS`."""
    text = text.lower()
    if text.isascii():
        return TOKENS[LATIN if tokens == "words" else tokens](text)
    return TOKENS[tokens](unicodedata.normalize("NFC", text) if tokens != LATIN else text)


def count_words(text: str) -> int:
    """Count the words between white space. Each letter of a script without spaces counts as a word."""
    if text.isascii():
        return len(text.split())
    return sum(max(len(_UNSPACED_LETTER.findall(word)), 1) for word in text.split())


def has_uncounted_letters(text: str, tokens: str = LATIN) -> bool:
    """Return whether a text contains letters or digits that belong to no word of the given kind."""
    if tokens != LATIN or text.isascii():
        return False
    return any(c.isalnum() and not c.isascii() for c in unicodedata.normalize("NFC", text.lower()))


def choose_tokens(texts: Iterable[str]) -> str:
    """Return "words" if one text in fifty, or more, has letters that "a-z0-9" does not count; otherwise, "a-z0-9"."""
    found = [has_uncounted_letters(text) for text in texts]
    return "words" if any(found) and 50 * sum(found) >= len(found) else LATIN
