"""Compute features of the words and bigrams in a document. The content model predicts a summary's content from them.

A *gram* is a word or a bigram. An *item* is a gram together with a count k. A summary contains the item if the gram
occurs in the summary at least k times, which corresponds to the counts in ROUGE. All words are stems. The bigrams of a
document do not cross sentence boundaries.
"""

import math
from collections import Counter, defaultdict
from typing import Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

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


class NgramPriorProbabilities:
    """The prior probabilities of items.

    Consider the training documents that contain an item. The prior of the item is the proportion of these documents
    with a summary that also contains it.

    Attributes:
        counts: a dictionary from items to two counts: the number of training documents that contain the item, and the
            number of these documents with a summary that also contains it.
        base: a dictionary from pairs (number of words, count) to the proportion computed over all such items.
    """

    def __init__(self, counts: Dict[Item, Tuple[int, int]], base: Dict[Tuple[int, int], float]):
        self.counts, self.base = counts, base

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

    def compute_prior_features(self, item: Item, without: int = -1) -> Tuple[float, float]:
        """Return the logit of an item's prior, and log(1 + number of documents that contain the item).

        Args:
            item: the item.
            without: whether to leave one training pair out of the counts: 1 for a pair with the item in its summary, 0
                for a pair without the item in its summary, or -1 to count all pairs.
        """
        documents, summaries = self.counts.get(item, (0, 0))
        if without >= 0 and documents:
            documents, summaries = documents - 1, summaries - without
        base = self.base.get((len(item[0]), item[1]), 0.5)
        return logit((summaries + PRIOR_WEIGHT * base) / (documents + PRIOR_WEIGHT)), math.log(documents + 1)


def logit(probability: float) -> float:
    """Compute the logit of a probability, which is first clipped to the range from 0.001 to 0.999."""
    probability = min(max(probability, 1e-3), 1 - 1e-3)
    return math.log(probability / (1 - probability))


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
    places: Dict[int, Dict[Gram, List[int]]] = {order: {} for order in MOST_COUNTED}
    for order, found_at in places.items():  # the sentence of each occurrence of each gram, in order
        for number, sentence in enumerate(document):
            for gram in iterate_ngrams(sentence, order):
                found_at.setdefault(gram, []).append(number)
    by_probability = sorted(range(len(document)), key=lambda number: (-probabilities[number], number))
    ranks = {number: rank for rank, number in enumerate(by_probability)}
    word_priors: Dict[Gram, float] = {}
    found = {}
    for order, most in MOST_COUNTED.items():
        wanted: Mapping[Gram, int] = count_summary_ngrams(summary, order)
        items: List[Item] = []
        rows: List[List[float]] = []
        labels: List[bool] = []
        for gram, numbers in places[order].items():
            common = _compute_ngram_features(numbers, probabilities, ranks, len(document))
            if order == 2:
                first, second = word_priors[gram[:1]], word_priors[gram[1:]]
                common += [first, second, min(first, second)]
                common += [math.log(len(places[1][word])) for word in (gram[:1], gram[1:])]
            for count in range(1, min(len(numbers), most) + 1):
                has = wanted.get(gram, 0) >= count
                prior, known = priors.compute_prior_features((gram, count), int(has) if held_out else -1)
                if order == 1 and count == 1:
                    word_priors[gram] = prior
                items.append((gram, count))
                rows.append([*common, prior, known, count, prior * common[0]])
                labels.append(has)
        features = np.array(rows, dtype=np.float32).reshape(len(rows), WIDTHS[order])
        found[order] = FeatureTable(items, features, labels if summary else [])
    return found


def _compute_ngram_features(
    numbers: List[int], probabilities: Sequence[float], ranks: Mapping[int, int], sentences: int
) -> List[float]:
    """Return the features of a gram: its frequency, and the probabilities, positions and ranks of its sentences."""
    different = sorted(set(numbers))
    values = sorted((probabilities[number] for number in different), reverse=True)
    best = min(ranks[number] for number in different)
    return [
        math.log(len(numbers)),
        math.log(len(different)),
        math.log(1 + 10 * len(numbers) / sentences),
        values[0],
        values[1] if len(values) > 1 else 0.0,
        sum(values) / len(values),
        logit(1 - math.prod(1 - value for value in values)),
        different[0] / sentences,
        different[-1] / sentences,
        float(different[0] == 0),
        float(different[-1] == sentences - 1),
        float(different[-1] == sentences - 2),
        math.log(sentences),
        *(float(best < rank) for rank in (1, 2, 4, 8)),
    ]
