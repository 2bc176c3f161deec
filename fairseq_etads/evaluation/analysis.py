"""Analyse summaries: novel and repeated n-grams, lengths, copied bigrams, numbers and names; extract simple summaries.

N-grams extend across the sentences of a text. A system's figure is the mean over the summaries for which the figure is
defined. For example, a summary of two words contains no trigrams.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np
import regex

from ..text.subsequences import ngrams
from .rouge import Settings
from .summaries import split_summary

NGRAM_ORDERS = (1, 2, 3, 4)
TENTHS = 10
# In Indic scripts, marks (\p{M}) are parts of letters. Words in these scripts and in Persian contain joiners.
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}][\p{L}\p{M}\p{N}\p{Join_Control}]*")
_NUMBER = regex.compile(r"\p{Nd}+(?:[.,:/]\p{Nd}+)*")
WORD_SPLITTERS: Dict[str, Callable[[str], List[str]]] = {
    "words": lambda text: _WORD.findall(text.lower()),
    "space": str.split,
    "characters": lambda text: [character for character in text if not character.isspace()],
}
"""Value of ``--words`` -> function from a text to its words.

"words": lower-cased runs of letters, their marks, and digits of any script; "space": the strings between white space;
"characters": single characters, for Chinese.
"""


class Source:
    """The n-grams of a document, collected once for comparison with the summaries of all systems.

    Args:
        words: words of the document.
        text: the document as it is written, for :meth:`numbers_found` and :meth:`names_found`.
    """

    def __init__(self, words: Sequence[str], text: str = ""):
        self._numbers = set(_NUMBER.findall(text))
        self._text_words = set(_WORD.findall(text.lower()))
        self._bigram_positions: Dict[Tuple[str, ...], List[int]] = {}
        for position, bigram in enumerate(ngrams(words, 2)):
            self._bigram_positions.setdefault(bigram, []).append(position)
        self._bigrams = len(words) - 1
        self._grams = {order: set(ngrams(words, order)) for order in NGRAM_ORDERS}
        self._joined = " ".join(["", *words, ""])

    def novel_ngrams(self, words: Sequence[str], order: int) -> Optional[float]:
        """Compute the share of n-grams that do not occur in the document (See et al. 2017, figure 6); None without
        n-grams.

        For single words, 1 minus this share is the source copy rate of Nallapati et al. (2016), section 4.
        """
        grams = list(ngrams(words, order))
        return sum(gram not in self._grams[order] for gram in grams) / len(grams) if grams else None

    def novel_sentences(self, sentences: Sequence[Sequence[str]]) -> Optional[float]:
        """Compute the share of sentences that do not occur word for word in the document; None without sentences.

        Args:
            sentences: words of each sentence of the summary; empty sentences are ignored.
        """
        real = [sentence for sentence in sentences if sentence]
        return sum(" ".join(["", *s, ""]) not in self._joined for s in real) / len(real) if real else None

    def numbers_found(self, sentences: Sequence[str]) -> Optional[float]:
        """Compute the share of a summary's numbers that the document contains; None without numbers.

        Args:
            sentences: sentences of the summary as they are written. "3.5", "1,000" and "10:30" are one number each.
        """
        numbers = [number for sentence in sentences for number in _NUMBER.findall(sentence)]
        return sum(number in self._numbers for number in numbers) / len(numbers) if numbers else None

    def names_found(self, sentences: Sequence[str]) -> Optional[float]:
        """Compute the share of a summary's names that the document contains in any case; None without names.

        A name is a word that begins with a capital letter and is not the first word of a sentence. Lower-cased
        summaries therefore contain no names.

        Args:
            sentences: sentences of the summary as they are written.
        """
        names = [word for sentence in sentences for word in _WORD.findall(sentence)[1:] if word[0].isupper()]
        return sum(name.lower() in self._text_words for name in names) / len(names) if names else None

    def copied_bigrams(self, words: Sequence[str]) -> np.ndarray:
        """Count the bigrams of a summary that come from each tenth of the document (10,).

        If a bigram occurs several times in the document, its count is divided equally among the occurrences.
        """
        tenths = np.zeros(TENTHS)
        for bigram in ngrams(words, 2):
            positions = self._bigram_positions.get(bigram, ())
            for position in positions:
                tenths[position * TENTHS // self._bigrams] += 1 / len(positions)
        return tenths


def repeated_ngrams(words: Sequence[str], order: int) -> Optional[float]:
    """Compute the share of a summary's n-grams that occur earlier in the summary; None without n-grams."""
    grams = list(ngrams(words, order))
    return 1 - len(set(grams)) / len(grams) if grams else None


@dataclass(frozen=True)
class Analysis:
    """Figures of a system.

    Args:
        figures: name of a figure -> mean over the summaries for which it is defined, shares in per cent; None if it is
            defined for no summary.
        counted: name of a figure -> number of summaries for which it is defined.
        positions: share of the copied bigrams, in per cent, from each tenth of the documents.
    """

    figures: Dict[str, Optional[float]]
    counted: Dict[str, int]
    positions: List[float]


class Analyser:
    """Analyser that collects the figures of a system, summary by summary."""

    def __init__(self) -> None:
        self._values: Dict[str, List[Optional[float]]] = {}
        self._tenths = np.zeros(TENTHS)

    def add(self, source: Source, sentences: Sequence[Sequence[str]], texts: Sequence[str] = ()) -> None:
        """Add a summary.

        Args:
            source: the document.
            sentences: words of each sentence in the summary.
            texts: the same sentences as they are written, for the figures of numbers and names.
        """
        words = [word for sentence in sentences for word in sentence]
        novel_words = source.novel_ngrams(words, 1)
        values: Dict[str, Any] = {
            "words": len(words),
            "sentences": sum(map(bool, sentences)),
            "copy rate": None if novel_words is None else 100 * (1 - novel_words),
        }
        for order in NGRAM_ORDERS:
            values[f"novel {order}-grams"] = source.novel_ngrams(words, order)
        values["novel sentences"] = source.novel_sentences(sentences)
        for order in NGRAM_ORDERS:
            values[f"repeated {order}-grams"] = repeated_ngrams(words, order)
        values["found numbers"] = source.numbers_found(texts)
        values["found names"] = source.names_found(texts)
        for name, value in values.items():
            is_share = value is not None and name.startswith(("novel", "repeated", "found"))
            self._values.setdefault(name, []).append(100 * value if is_share else value)
        self._tenths += source.copied_bigrams(words)

    def result(self) -> Analysis:
        """Return the figures of all summaries added so far."""
        real = {name: [v for v in values if v is not None] for name, values in self._values.items()}
        total = self._tenths.sum()
        return Analysis(
            figures={name: float(np.mean(values)) if values else None for name, values in real.items()},
            counted={name: len(values) for name, values in real.items()},
            positions=(100 * self._tenths / total if total else self._tenths).tolist(),
        )


def lead_words(sentences: Sequence[str], count: int) -> List[str]:
    """Return the first ``count`` words (by white space) of a document as sentences; the last may be cut off."""
    kept: List[str] = []
    for sentence in sentences:
        words = sentence.split()[:count]
        count -= len(words)
        if words:
            kept.append(" ".join(words))
    return kept


def _f1(hypothesis: "Counter[Any]", reference: "Counter[Any]") -> float:
    """Compute the F1 of two multisets of n-grams."""
    size = sum(hypothesis.values()) + sum(reference.values())
    return 2 * sum((hypothesis & reference).values()) / size if size else 0.0


def greedy_oracle(sentences: Sequence[Sequence[str]], references: Sequence[Sequence[str]], limit: int) -> List[int]:
    """Greedily choose the sentences of a document that summarise it best (Nallapati et al. 2017, section 3).

    Each step adds the sentence that increases ROUGE-1 plus ROUGE-2 most (F1 with the best reference). If several
    sentences are equally good, the first is added. The search stops when no sentence increases the score or ``limit``
    sentences are chosen.

    Args:
        sentences: words of each sentence in the document.
        references: words of each reference.

    Returns:
        numbers of the chosen sentences, from 0, in the order of the document.
    """
    targets = [[Counter(ngrams(reference, order)) for order in (1, 2)] for reference in references]

    def score(numbers: Sequence[int]) -> float:
        words = [word for number in sorted(numbers) for word in sentences[number]]
        counts = [Counter(ngrams(words, order)) for order in (1, 2)]
        return max(sum(map(_f1, counts, target)) for target in targets)

    chosen: List[int] = []
    best = 0.0
    while len(chosen) < limit:
        rest = [number for number in range(len(sentences)) if number not in chosen]
        scores = [score([*chosen, number]) for number in rest]
        if not scores or max(scores) <= best:
            break
        best = max(scores)
        chosen.append(rest[scores.index(best)])
    return sorted(chosen)


def oracle_sentences(
    sentences: Sequence[str], references: Sequence[str], limit: int, tokenize: Callable[[str], List[str]]
) -> List[str]:
    """Return the sentences of a document that :func:`greedy_oracle` chooses.

    Args:
        sentences: sentences of the document.
        references: reference summaries of the document.
        tokenize: function that splits a text into the words to compare, such as a ROUGE tokeniser.
    """
    words = [tokenize(sentence) for sentence in sentences]
    chosen = greedy_oracle(words, [tokenize(reference) for reference in references], limit)
    return [sentences[number] for number in chosen]


def extract(kind: str, limit: int, document: str, references: Sequence[str], settings: Settings) -> List[str]:
    """Return the sentences of an extract of a document.

    Args:
        kind: "lead": the first ``limit`` sentences; "lead-words": the first ``limit`` words; "oracle": at most
            ``limit`` sentences, chosen greedily by their overlap with the references.
        references: reference summaries of the document.
        settings: settings of ROUGE; only the sentence mark and the tokeniser are used.
    """
    # Split documents even with --no-sentence-split, because an extract consists of sentences.
    sentences = split_summary(document, settings.sentence_mark)
    if kind == "lead":
        return sentences[:limit]
    if kind == "lead-words":
        return lead_words(sentences, limit)
    texts = [" ".join(split_summary(reference, settings.sentence_mark)) for reference in references]
    return oracle_sentences(sentences, texts, limit, settings.tokenizer.tokenize)
