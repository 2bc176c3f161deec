"""Compute features of the words and bigrams in a document. The content model predicts a summary's content from them.

A *gram* is a word or a bigram. An *item* is a gram together with a count k. A summary contains the item if the gram
occurs in the summary at least k times, which corresponds to the counts in ROUGE. All words are stems. The bigrams of a
document do not cross sentence boundaries.
"""

import math
from collections import Counter, defaultdict
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ...text.subsequences import iterate_ngrams

Gram = Tuple[str, ...]
Item = Tuple[Gram, int]
Sentences = Sequence[Sequence[str]]

MOST_COUNTED = {1: 4, 2: 1}
"""A dictionary from the number of words in a gram to the largest count of an item."""
DOCUMENTS = 8000
"""Default number of training documents for which features are computed."""
PRIOR_WEIGHT = 10.0
"""Weight of the overall proportion (``base``) in the prior of an item, as an equivalent number of documents."""
WIDTHS = {1: 21, 2: 26}
"""A dictionary from the number of words in a gram to the number of features."""


def count_summary_ngrams(sentences: Sentences, order: int) -> "Counter[Gram]":
    """Count the grams in a summary. As in ROUGE, grams may cross sentence boundaries."""
    return Counter(iterate_ngrams([word for sentence in sentences for word in sentence], order))


class NgramPriorProbabilities(NamedTuple):
    """The prior probabilities of items.

    The prior of an item is the proportion of summaries that contain it, of those whose documents contain it in the
    training data.
    """

    counts: Dict[Item, Tuple[int, int]]  # training documents with an item, and those with it in the summary, too
    base: Dict[Tuple[int, int], float]  # proportions over all items, by number of words and count

    @classmethod
    def from_pairs(cls, pairs: Iterator[Tuple[Sentences, Sentences]]) -> "NgramPriorProbabilities":
        """Count the items in all pairs of document and summary."""
        found: Dict[Item, List[int]] = {}
        totals: Dict[Tuple[int, int], List[int]] = defaultdict(lambda: [2, 1])
        for document, summary in pairs:
            for order, most in MOST_COUNTED.items():
                wanted = count_summary_ngrams(summary, order)
                there = Counter(gram for sentence in document for gram in iterate_ngrams(sentence, order))
                for gram, number in there.items():
                    has = wanted.get(gram, 0)
                    for count in range(1, min(number, most) + 1):
                        for row in (found.setdefault((gram, count), [0, 0]), totals[order, count]):
                            row[0] += 1
                            row[1] += has >= count
        base = {key: row[1] / row[0] for key, row in totals.items()}
        return cls({item: (row[0], row[1]) for item, row in found.items()}, base)

    def keep_frequent_ngrams(self, least: int) -> "NgramPriorProbabilities":
        """Return a copy without the items that occur in fewer than ``least`` documents."""
        return NgramPriorProbabilities({item: row for item, row in self.counts.items() if row[0] >= least}, self.base)

    def compute_prior_features(self, items: Sequence[Item], without: Optional[Sequence[bool]] = None) -> np.ndarray:
        """Return the logits of the N items' priors, and log(1 + number of documents that contain the item), (N, 2).

        If one training pair is to be left out of the counts, ``without`` tells whether its summary contains each item.
        """
        rows = np.array([self.counts.get(item, (0, 0)) for item in items], dtype=float).reshape(-1, 2)
        documents, summaries = rows.T
        if without is not None:
            summaries = summaries - (np.array(without, dtype=bool) & (documents > 0))
            documents = np.maximum(documents - 1, 0)
        base = PRIOR_WEIGHT * np.array([self.base.get((len(gram), count), 0.5) for gram, count in items])
        return np.stack([logit((summaries + base) / (documents + PRIOR_WEIGHT)), np.log(documents + 1)], axis=1)


def logit(probabilities: np.ndarray) -> np.ndarray:
    """Compute the logits of probabilities, which are first clipped to the range from 0.001 to 0.999."""
    clipped = np.clip(probabilities, 1e-3, 1 - 1e-3)
    found: np.ndarray = np.log(clipped / (1 - clipped))
    return found


class FeatureTable(NamedTuple):
    """The N items of one order in a document, with their features. The order is 1 for words and 2 for bigrams."""

    items: List[Item]
    features: np.ndarray  # of shape (N, WIDTHS[order])
    labels: List[bool]  # whether each item is in the reference summary; empty if there is none


def make_feature_tables(
    document: Sentences,
    probabilities: Sequence[float],
    priors: NgramPriorProbabilities,
    summary: Sentences = (),
    held_out: bool = False,
) -> Dict[int, FeatureTable]:
    """Compute the features of all items in a document. Returns a dictionary from orders to tables.

    The document and the reference summary, from which labels are computed, consist of the stems of their sentences. If
    ``held_out``, this pair of document and summary is excluded from the priors.
    """
    columns: Dict[str, int] = {}
    words = np.array([columns.setdefault(word, len(columns)) for sentence in document for word in sentence], dtype=int)
    sentence_of = np.repeat(np.arange(len(document)), list(map(len, document)))
    spelled = list(columns)
    word_counts = np.bincount(words, minlength=len(spelled))
    word_priors = np.zeros(0)
    found = {}
    for order, most in MOST_COUNTED.items():
        ids, numbers = words, sentence_of
        if order == 2:
            inside = sentence_of[1:] == sentence_of[:-1]
            ids, numbers = (words[:-1] * len(spelled) + words[1:])[inside], sentence_of[1:][inside]
        different, first_at, grams, counts = np.unique(ids, return_index=True, return_inverse=True, return_counts=True)
        order_of = np.argsort(first_at)  # the order of the document
        different, counts = different[order_of], counts[order_of]
        grams = np.argsort(order_of)[grams]
        common = _compute_ngram_features(grams, numbers, counts, np.array(probabilities), len(document))
        parts = np.stack(np.divmod(different, len(spelled) or 1)) if order == 2 else different[None]
        if order == 2:
            priors_of = word_priors[parts]
            common = np.concatenate([common, priors_of.T, priors_of.min(0)[:, None], np.log(word_counts[parts]).T], 1)
        number = np.minimum(counts, most)
        rows = np.repeat(np.arange(len(counts)), number)
        count_of = np.arange(len(rows)) - np.repeat(number.cumsum() - number, number) + 1
        texts = [tuple(spelled[word] for word in gram) for gram in parts.T.tolist()]
        items = [(texts[row], count) for row, count in zip(rows.tolist(), count_of.tolist())]
        wanted: Mapping[Gram, int] = count_summary_ngrams(summary, order)
        labels = [wanted.get(gram, 0) >= count for gram, count in items] if summary else []
        learnt = priors.compute_prior_features(items, (labels or [False] * len(items)) if held_out else None)
        if order == 1:
            word_priors = learnt[count_of == 1, 0]
        prior = learnt[:, :1]
        features = np.concatenate([common[rows], learnt, count_of[:, None], prior * common[rows, :1]], axis=1)
        found[order] = FeatureTable(items, features.astype(np.float32), labels)
    return found


def _compute_ngram_features(
    grams: np.ndarray, numbers: np.ndarray, counts: np.ndarray, probabilities: np.ndarray, sentences: int
) -> np.ndarray:
    """Return the features (G, 17) of grams: their frequencies, and the probabilities, positions and ranks of sentences.

    ``grams`` and ``numbers`` are the gram and the sentence of each occurrence, and ``counts`` the G grams' frequencies.
    """
    if not len(counts):
        return np.zeros((0, 17))
    pairs = np.unique(grams * sentences + numbers)
    of_gram, places = np.divmod(pairs, sentences)
    by_probability = np.lexsort((places, -probabilities[places], of_gram))
    values = probabilities[places[by_probability]]
    starts = np.searchsorted(of_gram, np.arange(len(counts)))
    different = np.diff([*starts, len(pairs)])
    ranks = np.argsort(np.lexsort((np.arange(sentences), -probabilities)))
    best = np.minimum.reduceat(ranks[places], starts)
    first, last = places[starts], places[starts + different - 1]
    second = np.where(different > 1, values[np.minimum(starts + 1, len(values) - 1)], 0.0)
    columns = [
        np.log(counts),
        np.log(different),
        np.log(1 + 10 * counts / sentences),
        values[starts],
        second,
        np.add.reduceat(values, starts) / different,
        logit(1 - np.multiply.reduceat(1 - values, starts)),
        first / sentences,
        last / sentences,
        first == 0,
        last == sentences - 1,
        last == sentences - 2,
        np.full(len(counts), math.log(sentences)),
        *(best < rank for rank in (1, 2, 4, 8)),
    ]
    return np.stack(columns, axis=1).astype(float)
