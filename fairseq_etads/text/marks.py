"""Ends of sentences, and marks that other tools leave in text.

The marks stand between sentences, inside words, and for unknown words or padding. They are counted when a corpus is
made and when summaries are scored, because each of them would become a word.
"""

import re
from collections import Counter

SENTENCE_MARK = "<q>"
"""Mark between two sentences on a line, which is used in raw text, tokenised text and summaries."""
ENDS_ANYWHERE = "。！？｡‼⁇⁈⁉।॥۔؟։።፧፨။។៕"
"""Characters of Chinese, Indic, Arabic and other scripts that end a sentence even if no space follows."""
SENTENCE_ENDS = ".!?" + ENDS_ANYWHERE
GREEK_QUESTION = ";"  # Unicode's form NFC makes a semicolon of it
CLOSERS = "'`\")’”»›」』）】》〉"
"""Characters that can follow the end of a sentence and belong to it."""
SPEAKING_VERBS = frozenset(re.findall(r"\w+", "said says say adds added told asked asks wrote replied tweeted"))

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


def count_marks(text: str) -> Counter:
    """Count the marks of each kind in a text. The keys of the result are those of ``ADVICE``."""
    return Counter({kind: len(pattern.findall(text)) for kind, pattern in _PATTERNS.items()})
