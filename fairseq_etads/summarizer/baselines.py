"""Extracts without a trained model: the first sentences of a document, or those that TextRank chooses.

This module imports neither torch nor fairseq.
"""

import math
from typing import Any, Dict, Iterable, Iterator, List, Sequence

import numpy as np

from ..platform.command_options import format_option_name
from ..platform.errors import InputError
from ..search.lengths import LimitError, SummaryLimits
from ..search.options import DECLARED, combine_options
from ..text.documents import split_raw_document
from ..text.words import SENTENCE_MARK, find_words
from .explanation import ChosenSentence
from .summary import Summary, Truncation

SENTENCES = 3
"""Number of sentences in an extract without a given length."""
_LIMITS = ("sentences", "words", "percent", "must_include")
_DAMPING, _STEPS = 0.85, 50
_DENSE = 4_000_000
"""Number of entries below which a matrix of sentences and words is stored as a whole."""


def rank_sentences(sentences: Sequence[str]) -> List[int]:
    """Return the indices of sentences in descending order of their TextRank (Mihalcea and Tarau 2004, section 4).

    The similarity of two sentences is the number of words in common, divided by the sum of the logarithms of their
    lengths. The rank is the stationary distribution of a random walk over similar sentences.
    """
    words = [list(dict.fromkeys(find_words(sentence))) for sentence in sentences]
    words = [found if len(found) > 1 else [] for found in words]  # the logarithm of 1 is 0
    numbers: Dict[str, int] = {}
    columns = [numbers.setdefault(word, len(numbers)) for found in words for word in found]
    sizes = list(map(len, words))
    rows = np.repeat(np.arange(len(words)), sizes)
    shape = len(words), len(numbers)
    if not columns:
        return list(range(len(words)))
    if math.prod(shape) < _DENSE:
        has: Any = np.zeros(shape)
        has[rows, columns] = 1
    else:
        from scipy.sparse import csr_matrix  # imported here, because this takes a second

        has = csr_matrix((np.ones(len(columns)), (rows, columns)), shape)
    lengths, kinds = np.unique(sizes, return_inverse=True)
    logs = np.log(np.maximum(lengths, 1))
    sums, own = logs[kinds][:, None] + logs, (np.arange(len(words)), kinds)

    def weigh(values: np.ndarray) -> np.ndarray:
        """Multiply the matrix of similarities by a vector, without storing it: a book has many sentences."""
        by_length = np.zeros(sums.shape)
        by_length[own] = values
        common = has @ (has.T @ by_length)  # words that each sentence shares with all of a length
        common[own] -= values * lengths[kinds]  # and not with itself
        return np.divide(common, sums, out=np.zeros_like(common), where=sums > 0).sum(1)

    totals = weigh(np.ones(len(words)))
    ranks = np.ones(len(words))
    for _ in range(_STEPS):
        moves = np.divide(ranks, totals, out=np.zeros_like(ranks), where=totals > 1e-9)
        ranks = 1 - _DAMPING + _DAMPING * weigh(moves)
    order: List[int] = np.argsort(-ranks.round(9), kind="stable").tolist()
    return order


class BaselineSummarizer:
    """Summariser without a model, with the interface that ``etads-summarize`` uses."""

    def __init__(self, name: str):
        self.name = name

    def check_reads_raw_text(self) -> None:
        """Do nothing, as baselines read raw text."""

    def stream(self, texts: Iterable[str], errors: str = "raise", **given: Any) -> Iterator[Summary]:
        """Yield the extract of each text in the order of the texts. Options of models are ignored or refused."""
        decoding = {name: value for name, value in given.items() if name in DECLARED}
        for name in decoding:
            if name not in _LIMITS:
                raise InputError(f"{format_option_name(name)} has no effect without a model; {self.name} is none")
        options = combine_options({}, decoding)
        if not (options.sentences or options.words or options.percent):
            options.sentences = SENTENCES
        return (self._extract(text, options) for text in texts)

    def _extract(self, text: str, options: Any) -> Summary:
        sentences = split_raw_document(text)
        limits, read = SummaryLimits.for_document(options, text), Truncation(len(text.split()), 0)
        try:
            chosen = limits.choose_required(sentences)
            for number in range(len(sentences)) if self.name == "lead" else rank_sentences(sentences):
                if number not in chosen and limits.allow([sentences[one] for one in (*chosen, number)]):
                    chosen.append(number)
                elif self.name == "lead" and number not in chosen:
                    break
            if sentences and not chosen:
                raise limits.make_error(sentences if self.name == "textrank" else sentences[:1])
        except LimitError as error:
            return Summary("", truncation=read, problem=str(error))
        found = tuple(ChosenSentence(sentences[number], "document", number) for number in sorted(chosen))
        spelled = tuple(one.text for one in found)
        return Summary(f" {SENTENCE_MARK} ".join(spelled), truncation=read, chosen=found, sentences=spelled)
