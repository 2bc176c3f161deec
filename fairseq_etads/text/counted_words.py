"""Words as they are counted and compared: by ROUGE, content models, analyses and searches for duplicates."""

import re
import unicodedata
from typing import Callable, Dict, Iterable, List

import regex

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
