"""What summaries are made of: copied, new and repeated n-grams, lengths, places in the document; and simple extracts.

Words are lower-cased runs of letters, their marks, and digits of any script ("words"), what stands between white space
("space"), or single characters ("characters", for Chinese). N-grams run across the sentences of a text. A figure of a
system is the mean over those summaries that have it: a summary of two words has no trigrams that could be new.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import regex

ORDERS = (1, 2, 3, 4)
TENTHS = 10
POSITION_ORDER = 2
# marks are parts of letters in Indic scripts, and joiners stand inside words there and in Persian
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}][\p{L}\p{M}\p{N}\p{Join_Control}]*")
WORDS: Dict[str, Callable[[str], List[str]]] = {
    "words": lambda text: _WORD.findall(text.lower()),
    "space": str.split,
    "characters": lambda text: [character for character in text if not character.isspace()],
}


def ngrams(words: Sequence[str], order: int) -> Iterator[Tuple[str, ...]]:
    """The n-grams of a text, in order, each as often as it occurs."""
    return zip(*(words[start:] for start in range(order)))


class Source:
    """A document's words and n-grams, made once for all systems."""

    def __init__(self, words: Sequence[str]):
        self.words = words
        self.places: Dict[Tuple[str, ...], List[int]] = {}
        for place, gram in enumerate(ngrams(words, POSITION_ORDER)):
            self.places.setdefault(gram, []).append(place)
        self._grams = {order: set(ngrams(words, order)) for order in ORDERS}
        self._joined = " ".join(["", *words, ""])

    def novel_ngrams(self, words: Sequence[str], order: int) -> Optional[float]:
        """Share of a summary's n-grams that the document does not have (See et al. 2017, figure 6); None without any.

        1 minus that of single words is the source copy rate of Nallapati et al. (2016), section 4.
        """
        grams = list(ngrams(words, order))
        return sum(gram not in self._grams[order] for gram in grams) / len(grams) if grams else None

    def novel_sentences(self, sentences: Sequence[Sequence[str]]) -> Optional[float]:
        """Share of a summary's sentences whose words do not stand in the document in one run; None without any."""
        real = [sentence for sentence in sentences if sentence]
        return sum(" ".join(["", *s, ""]) not in self._joined for s in real) / len(real) if real else None

    def copied_from(self, words: Sequence[str]) -> np.ndarray:
        """How many of a summary's bigrams come from each tenth of the document: (10,).

        A bigram that the document has several times is shared among its places.
        """
        tenths = np.zeros(TENTHS)
        for gram in ngrams(words, POSITION_ORDER):
            places = self.places.get(gram, ())
            for place in places:
                tenths[place * TENTHS // (len(self.words) - POSITION_ORDER + 1)] += 1 / len(places)
        return tenths


def repeated_ngrams(words: Sequence[str], order: int) -> Optional[float]:
    """Share of a summary's n-grams that occurred before in it; None without any."""
    grams = list(ngrams(words, order))
    return 1 - len(set(grams)) / len(grams) if grams else None


@dataclass(frozen=True)
class Analysis:
    """Figures of one system.

    Args:
        figures: name -> mean over the summaries that have it; None if none has. Shares are in per cent.
        counted: name -> how many summaries that were.
        positions: share of the copied bigrams, in per cent, that come from each tenth of the documents.
    """

    figures: Dict[str, Optional[float]]
    counted: Dict[str, int]
    positions: List[float]


class Analyser:
    """Adds up the figures of one system, summary by summary."""

    def __init__(self) -> None:
        self._values: Dict[str, List[Optional[float]]] = {}
        self._tenths = np.zeros(TENTHS)

    def add(self, source: Source, sentences: Sequence[Sequence[str]]) -> None:
        """One summary: its document, and the words of its sentences."""
        words = [word for sentence in sentences for word in sentence]
        unknown = source.novel_ngrams(words, 1)
        values: Dict[str, Any] = {
            "words": len(words),
            "sentences": sum(map(bool, sentences)),
            "copy rate": None if unknown is None else 100 * (1 - unknown),
        }
        for order in ORDERS:
            values[f"novel {order}-grams"] = source.novel_ngrams(words, order)
        values["novel sentences"] = source.novel_sentences(sentences)
        for order in ORDERS:
            values[f"repeated {order}-grams"] = repeated_ngrams(words, order)
        for name, value in values.items():
            share = value is not None and name.startswith(("novel", "repeated"))
            self._values.setdefault(name, []).append(100 * value if share else value)
        self._tenths += source.copied_from(words)

    def result(self) -> Analysis:
        """The figures of what was added."""
        real = {name: [v for v in values if v is not None] for name, values in self._values.items()}
        total = self._tenths.sum()
        return Analysis(
            figures={name: float(np.mean(values)) if values else None for name, values in real.items()},
            counted={name: len(values) for name, values in real.items()},
            positions=(100 * self._tenths / total if total else self._tenths).tolist(),
        )


def lead_words(sentences: Sequence[str], count: int) -> List[str]:
    """The sentences with the document's first ``count`` words, separated by white space; the last one cut."""
    kept: List[str] = []
    for sentence in sentences:
        words = sentence.split()[:count]
        count -= len(words)
        if words:
            kept.append(" ".join(words))
    return kept


def _overlap(hypothesis: "Counter[Any]", reference: "Counter[Any]") -> float:
    """F1 of two bags of n-grams."""
    size = sum(hypothesis.values()) + sum(reference.values())
    return 2 * sum((hypothesis & reference).values()) / size if size else 0.0


def greedy_oracle(sentences: Sequence[Sequence[str]], references: Sequence[Sequence[str]], limit: int) -> List[int]:
    """Numbers of the document's sentences that summarise it best, found greedily (Nallapati et al. 2017, section 3).

    One sentence at a time, the one with which ROUGE-1 plus ROUGE-2 (F1, with the reference for which that is highest)
    rises most, the first of equals, until none raises it or there are ``limit``.

    Args:
        sentences: the words of the document's sentences. references: the words of each reference.
    """
    wanted = [[Counter(ngrams(reference, order)) for order in (1, 2)] for reference in references]

    def value(numbers: Sequence[int]) -> float:
        words = [word for number in sorted(numbers) for word in sentences[number]]
        bags = [Counter(ngrams(words, order)) for order in (1, 2)]
        return max(sum(map(_overlap, bags, reference)) for reference in wanted)

    chosen: List[int] = []
    best = 0.0
    while len(chosen) < limit:
        rest = [number for number in range(len(sentences)) if number not in chosen]
        values = [value([*chosen, number]) for number in rest]
        if not values or max(values) <= best:
            break
        best = max(values)
        chosen.append(rest[values.index(best)])
    return sorted(chosen)
