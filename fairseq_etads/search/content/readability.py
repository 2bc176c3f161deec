"""Predict how readers would judge a summary of whole sentences, from their places in the document and their form.

The prediction is a ridge regression of the experts' judgements in SummEval (Fabbri et al. 2021; the systems that were
not pretrained) on properties of the summary. Rules of news text count what readers stumble over: an opening "he" or
"but" without the sentence before, captions and other furniture of the page, statements in the first person, fragments,
and two sentences without a full stop between them.
"""

import re
from typing import Callable, Dict, List, Sequence

import numpy as np

PROPERTIES = {
    "neighbours": (0.519, 0.088),
    "sentences": (-0.354, -0.072),
    "log_words": (0.896, 0.961),
    "first": (0.053, -0.113),
    "short": (-1.170, -0.660),
    "depth": (-0.132, -0.390),
}
"""Weights in the predicted coherence and relevance, from 1 to 5, of each property of a summary: the proportion of
sentences that follow the sentence before in the document, the number of sentences, log(1 + number of words), whether
the document's first sentence is included, the proportion of sentences with fewer than :data:`SHORT` words, and the mean
of log(1 + number of the sentence in the document)."""
SHARES = np.array([0.75, 0.25])
"""Shares of predicted coherence and relevance in the readability, chosen on validation pairs of CNN/Daily Mail."""
CONSTANT = (0.719, 0.491)
"""Constant terms, with the share of copied words and of sentences in the document's order, which is 1 here."""
FLAW = 1.5
"""What a flaw costs, relative to a point of predicted coherence and relevance."""
SHORT = 6
ALIKE, REPETITION = 0.35, 3.0
"""Share of the shorter sentence's words that two sentences may have in common, and flaws for each share above it."""
LONG_STEM = 4
"""Minimum number of letters of the stems that are compared."""

_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_PRONOUNS = frozenset(("he", "she", "they", "this", "these", "those"))
_OPENERS = _PRONOUNS | frozenset(
    re.findall(
        r"\w+",
        "it his her their its him them that and but however also meanwhile so then or while although because yet still "
        "instead",
    )
)
_FIRST_PERSON = frozenset(("i", "we", "my", "our", "me", "us"))
_SPEAKS = re.compile(r"\b(?:said|says|told|added|wrote|asked|tweeted)\b")
_FURNITURE = (
    *("#", "pictured", "is seen", "are seen", "scroll down", "mailonline", "updated:", "published:", "copyright"),
    *("image:", "photo", "click here", " video", "getty", "editor's note", "sign up", "follow us", "this page"),
    *("table below", "see more", "read more"),
)
"""Parts of captions and of other furniture of a page, without spaces before colons and apostrophes."""
_PLACE = re.compile(r"\( ?(?:left|right|above|below|inset|cent(?:re|er)|top|bottom)\b")

_JOINED = re.compile(r"(?<!\S)[a-z0-9]\S*\w (?:The|An?|He|She|It|They|We|But|And|There|This|These|Their) [a-z]")
"""A word that begins a sentence, within one: a caption or a heading without a full stop runs into the next sentence."""


class SentenceOverlap:
    """A value for each two of N sentences, given their words, that depends on the distinct words that they share.

    ``compute`` returns the values from the numbers of words that a sentence shares with each one (N,), and of words in
    the shorter of both (N,). For a book, a table of all pairs does not fit into memory, so it is called when needed.
    """

    def __init__(self, sentences: Sequence[Sequence[str]], compute: Callable[[np.ndarray, np.ndarray], np.ndarray]):
        columns: Dict[str, int] = {}
        self._words = [
            np.array(sorted({columns.setdefault(word, len(columns)) for word in one}), dtype=int) for one in sentences
        ]
        self._sizes = np.array(list(map(len, self._words)), dtype=np.float32)
        self._all = np.concatenate([*self._words, np.zeros(0, dtype=int)])
        self._numbers = np.repeat(np.arange(len(sentences)), list(map(len, self._words)))
        self._compute = compute
        self._rows: Dict[int, np.ndarray] = {}

    def __getitem__(self, number: int) -> np.ndarray:
        """Return the values of a sentence with each sentence (N,), which are 0 with itself."""
        if number not in self._rows:
            is_shared = np.zeros(len(self._all) + 1, dtype=np.float32)
            is_shared[self._words[number]] = 1
            common = np.bincount(self._numbers, is_shared[self._all], len(self._words)).astype(np.float32)
            self._rows[number] = self._compute(common, np.minimum(self._sizes, self._sizes[number]))
            self._rows[number][number] = 0
        return self._rows[number]


class Readability:
    """Predicts the readability of sets of a document's N sentences, given the raw text and the stems of each.

    Attributes:
        lengths: the number of stems in each sentence (N,).
        own, dangling, opening: the flaws (N,) of a sentence, of a sentence without the one before it, and of the first
            sentence of a summary.
        repeated: the flaws of two sentences that tell the same.
    """

    def __init__(self, texts: Sequence[str], stems: Sequence[Sequence[str]]):
        own, dangling, opening = [], [], []
        for number, text in enumerate(texts):
            sentence = text.lower().replace("``", '"').replace("''", '"').replace("’", "'").strip()
            words: List[str] = _WORD.findall(sentence) or [""]
            opens = words[0].partition("'")[0] in _OPENERS
            dangling.append(number and (1.0 if opens else 0.5 if _PRONOUNS.intersection(words[:5]) else 0.0))
            opening.append(0.5 if opens and number else 0.0)
            says_i = number > 0 and not _FIRST_PERSON.isdisjoint(words) and not _SPEAKS.search(sentence)
            ends = sentence.rstrip(" '\"”)`").endswith((".", "?", "!"))
            spelled = sentence.replace(" :", ":").replace(" '", "'")
            has_furniture = spelled.startswith(("by ", "video")) or any(part in spelled for part in _FURNITURE)
            has_furniture = has_furniture or ("(" in spelled and _PLACE.search(spelled) is not None)
            own.append(
                says_i
                + 1.5 * has_furniture
                + 1.5 * (not ends or _JOINED.search(text) is not None)
                + (len(words) < SHORT)
                + 0.5 * ((sentence.count('"') + (sentence.count("“") != sentence.count("”"))) % 2)
            )
        long_stems = [[stem for stem in sentence if len(stem) >= LONG_STEM] for sentence in stems]
        self.repeated = SentenceOverlap(
            long_stems, lambda common, least: REPETITION * np.maximum(common / np.maximum(least, 1) - ALIKE, 0)
        )
        self.own, self.dangling, self.opening = np.array(own), np.array(dangling), np.array(opening)
        self.lengths = np.array(list(map(len, stems)), dtype=int)

    def score_extensions(self, taken: np.ndarray) -> np.ndarray:
        """Predict the readability (B, N) of sets of the same size, booleans (B, N), with each of the N sentences.

        It is the predicted coherence and relevance in their :data:`SHARES`, minus :data:`FLAW` for each flaw, and
        meaningless where the set contains the sentence.
        """
        numbers = np.arange(taken.shape[1])
        size = int(taken[0].sum()) + 1 if len(taken) else 1
        short, depth = (self.lengths < SHORT).astype(float), np.log1p(numbers)
        follows, precedes = np.zeros_like(taken), np.zeros_like(taken)
        follows[:, 1:], precedes[:, :-1] = taken[:, :-1], taken[:, 1:]
        neighbours = (taken & follows).sum(1)[:, None] + follows + precedes
        first = np.minimum(np.where(taken.any(1), taken.argmax(1), len(numbers))[:, None], numbers)
        properties = {
            "neighbours": neighbours / (size - 1) if size > 1 else 1.0,
            "sentences": size,
            "log_words": np.log1p((taken @ self.lengths)[:, None] + self.lengths),
            "first": first == 0,
            "short": ((taken @ short)[:, None] + short) / size,
            "depth": ((taken @ depth)[:, None] + depth) / size,
        }
        predicted = sum(np.multiply(SHARES @ PROPERTIES[name], value) for name, value in properties.items())
        without = taken & ~follows
        pairs = np.zeros(taken.shape, dtype=np.float32)
        for row, number in np.argwhere(taken).tolist():
            pairs[row] += self.repeated[number]
        flaws = (taken @ self.own + without @ self.dangling + (pairs * taken).sum(1) / 2)[:, None] + self.own + pairs
        flaws += self.opening[first] + np.where(follows, 0, self.dangling) - np.append(self.dangling[1:], 0) * precedes
        scores: np.ndarray = predicted + SHARES @ CONSTANT - FLAW * flaws
        return scores
