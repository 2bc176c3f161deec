"""The content model, which predicts whether a summary contains a word or bigram of its document, and its features.

A *gram* is a word or a bigram. An *item* is a gram together with a count k. A summary contains the item if the gram
occurs in the summary at least k times, which corresponds to the counts in ROUGE. All words are stems. The bigrams of a
document do not cross sentence boundaries. This module does not import torch.
"""

import functools
import io
import logging
import math
import zipfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from numpy.lib import format as npy

from ..evaluation.rouge import RougeSettings
from ..files.inputs import check_format, name_format, report_damage
from ..files.outputs import open_binary_output
from ..text.subsequences import iterate_ngrams
from ..text.words import LATIN, TOKENS, find_words

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
    labels: List[bool]  # True for items in the reference summary; empty without a reference


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


FILE = "content.npz"  # in the folder of a training run, or in a model folder


LEAST_DOCUMENTS = 5
"""Minimum number of training documents that must contain an item for it to be stored."""
MOST_STORED, MOST_TEXT = 2_000_000, 1 << 25
"""Maximum number of stored items, and maximum size of their text in bytes. The most frequent items are kept."""
FEWEST_WORDS = 20
"""Minimum number of words in a document for a warning that the model knows none of them."""
_MOST_BYTES = 1 << 26
"""Maximum total size of the arrays in a file, in bytes."""
_MOST_WORDS = 1_000_000
_warn = functools.cache(logging.getLogger(__name__).warning)


def stem_words(words: Sequence[str], tokens: str = "words") -> List[str]:
    """Return the stems of words, as ROUGE with ``--tokens`` compares them."""
    return RougeSettings(tokens=tokens).tokenizer.tokenize(" ".join(words))


class FeatureNetwork(NamedTuple):
    """A multilayer perceptron with two hidden tanh layers, applied to standardised features."""

    mean: np.ndarray  # of each feature in the training data
    deviation: np.ndarray  # standard deviation of each feature
    layers: Tuple[Tuple[np.ndarray, np.ndarray], ...]  # weight (out, in) and bias (out,) of each layer

    def predict_probabilities(self, features: np.ndarray) -> np.ndarray:
        """Compute the probability of each item from its row of features."""
        x = (features - self.mean) / self.deviation
        for number, (weight, bias) in enumerate(self.layers):
            x = x @ weight.T + bias
            if number < len(self.layers) - 1:
                x = np.tanh(x)
        probabilities: np.ndarray = 1 / (1 + np.exp(-x[:, 0]))
        return probabilities


class ContentModel(NamedTuple):
    """A model that predicts the words and bigrams of a summary.

    Attributes:
        priors: the prior probabilities of items, learned from the training pairs.
        networks: a dictionary from the number of words in a gram to the network for such grams.
        length: the mean number of words in a training summary.
        tokens: the kind of words that the model counts, a key of :data:`~fairseq_etads.text.words.TOKENS`.
        of_extractor: whether an extractor predicts the probabilities of sentences. Otherwise, they depend on the
            positions of the sentences (:func:`~.sentence_choosing.make_positional_sentence_probabilities`).
    """

    priors: NgramPriorProbabilities
    networks: Mapping[int, FeatureNetwork]
    length: float
    of_extractor: bool = True
    tokens: str = "words"

    def stem_document(self, sentences: Sentences) -> List[List[str]]:
        """Return the stems of each sentence in a document.

        There are no stems, and a warning is logged, if the model cannot count most words of the document.
        """
        stems = [stem_words(words, self.tokens) for words in sentences]
        words = set() if self.tokens != LATIN else set(find_words(" ".join(map(" ".join, sentences))))
        if 2 * sum(map(str.isascii, words)) < len(words):
            _warn(f"the content model counts only words of {LATIN} and does not rank documents in other letters")
            return [[] for _ in sentences]
        known = self.priors.counts
        is_long = sum(map(len, stems)) >= FEWEST_WORDS
        if is_long and known and not any(((stem,), 1) in known for sentence in stems for stem in sentence):
            _warn("the content model knows no word of a document, as if it had been trained on another language")
        return stems

    def predict_ngram_probabilities(self, document: Sentences, probabilities: Sequence[float]) -> Dict[Item, float]:
        """Predict, for each item of a document, the probability that the summary contains it.

        ``document`` contains the stems of each sentence, and ``probabilities`` their selection probabilities.
        """
        found: Dict[Item, float] = {}
        if any(document):
            for order, table in make_feature_tables(document, probabilities, self.priors).items():
                if table.items:
                    found.update(zip(table.items, self.networks[order].predict_probabilities(table.features).tolist()))
        return found

    def get_stored_counts(self) -> Dict[Item, Tuple[int, int]]:
        """Return the counts of the items that :meth:`save` stores, without the rarest items."""
        items = self.priors.keep_frequent_ngrams(LEAST_DOCUMENTS).counts
        kept: Dict[Item, Tuple[int, int]] = {}
        size = 0
        for item in sorted(items, key=lambda item: (-items[item][0], item))[:MOST_STORED]:
            size += len(" ".join(item[0]).encode()) + 1
            if size > MOST_TEXT:
                break
            kept[item] = items[item]
        return kept

    def save(self, path: Path) -> None:
        """Save the model to a file."""
        stored: Dict[str, Any] = {"length": np.float64(self.length), "of_extractor": np.bool_(self.of_extractor)}
        stored |= {"format": _encode(name_format("content model")), "tokens": _encode(self.tokens)}
        for order, network in self.networks.items():
            stored[f"mean.{order}"], stored[f"deviation.{order}"] = network.mean, network.deviation
            for number, (weight, bias) in enumerate(network.layers):
                stored[f"weight.{order}.{number}"], stored[f"bias.{order}.{number}"] = weight, bias
        kept = sorted(self.get_stored_counts().items())
        stored["grams"] = _encode("\n".join(" ".join(gram) for (gram, _), _ in kept))
        stored["counts"] = np.array([(count, *row) for (_, count), row in kept], dtype=np.uint32).reshape(-1, 3)
        base = sorted(self.priors.base.items())
        stored["base"] = np.array([(*key, value) for key, value in base])
        with open_binary_output(path) as file:
            np.savez_compressed(file, **stored)

    @classmethod
    def load(cls, path: Path, advice: str) -> "ContentModel":
        """Load a model from a file. Raises InputError, with ``advice`` for the user, if it is missing or damaged."""
        with report_damage(path, advice):
            stored = _read_arrays(path)
            header = {name: _decode(stored[name]) for name in ("format",) if name in stored}
            check_format(header, "content model", path, advice, older=True)
            return cls._from_arrays(stored)

    @classmethod
    def _from_arrays(cls, stored: Dict[str, np.ndarray]) -> "ContentModel":
        """Create a model from the arrays in a file. Raises ValueError or KeyError if the arrays are inconsistent."""
        networks = {order: _make_network(stored, order) for order in MOST_COUNTED}
        text = _decode(stored["grams"])
        grams = [tuple(gram.split(" ")) for gram in text.split("\n")] if text else []
        count, documents, summaries = stored["counts"].astype(np.uint32, casting="no").reshape(-1, 3).T
        if len(grams) != len(count) or len(count) > MOST_STORED:
            raise ValueError("lists of different lengths")
        if (summaries > documents).any():
            raise ValueError("an item is in more summaries than documents")
        # Lists of numbers are several times faster than a list of rows, which the garbage collector would examine.
        counts = dict(zip(zip(grams, count.tolist()), zip(documents.tolist(), summaries.tolist())))
        base = {(int(order), int(count)): value for order, count, value in stored["base"].reshape(-1, 3).tolist()}
        length = float(stored["length"])
        if not 0 <= length <= _MOST_WORDS or not all(0 <= value <= 1 for value in base.values()):
            raise ValueError("a number is impossible")
        of_extractor = bool(stored.get("of_extractor", True))  # older files contain neither this entry nor the next
        tokens = _decode(stored["tokens"]) if "tokens" in stored else LATIN
        if tokens not in TOKENS:
            raise ValueError(f"words of the kind {tokens[:20]!r} are unknown")
        return cls(NgramPriorProbabilities(counts, base), networks, length, of_extractor, tokens)


def _encode(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), dtype=np.uint8)


def _decode(array: np.ndarray) -> str:
    return array.astype(np.uint8, casting="no").tobytes().decode()


def _make_network(stored: Mapping[str, np.ndarray], order: int) -> FeatureNetwork:
    """Create a network from the arrays in a file. Raises ValueError if their shapes or values are invalid."""
    layers: List[Tuple[np.ndarray, np.ndarray]] = []
    width = WIDTHS[order]
    mean, deviation = stored[f"mean.{order}"], stored[f"deviation.{order}"]
    arrays = [mean, deviation]
    fit = mean.shape == deviation.shape == (width,)
    while f"weight.{order}.{len(layers)}" in stored:
        number = len(layers)
        weight, bias = stored[f"weight.{order}.{number}"], stored[f"bias.{order}.{number}"]
        fit = fit and weight.ndim == 2 and weight.shape[1] == width and bias.shape == (len(weight),)
        width = len(weight)
        layers.append((weight, bias))
        arrays += [weight, bias]
    if not fit or not layers or width != 1:
        raise ValueError("the features differ")
    if not all(array.dtype.kind == "f" and np.isfinite(array).all() for array in arrays) or not (deviation > 0).all():
        raise ValueError("a weight is not a number")
    return FeatureNetwork(mean, deviation, tuple(layers))


def _read_arrays(path: Path) -> Dict[str, np.ndarray]:
    """Read the arrays in an .npz file. Sizes are checked before memory is allocated, and no code is executed."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > _MOST_BYTES:
            raise ValueError(f"its arrays are larger than {_MOST_BYTES:,} bytes")
        found = {}
        for member in members:
            # Other compression methods, or reading without a limit, would ignore the declared size.
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{member.filename[:60]} is compressed by another method")
            with archive.open(member) as file:
                found[member.filename[: -len(".npy")]] = _read_array(file.read(member.file_size + 1))
        return found


def _read_array(content: bytes) -> np.ndarray:
    """Read an array in NumPy's .npy format. Raises ValueError if its size differs from the size in its header."""
    file = io.BytesIO(content)
    if npy.read_magic(file) != (1, 0):
        raise ValueError("the version of an array is unknown")
    shape, is_fortran, dtype = npy.read_array_header_1_0(file)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(content) - file.tell():
        raise ValueError("the size of an array is wrong")
    array: np.ndarray = np.frombuffer(content, dtype, offset=file.tell())
    return array.reshape(shape, order="F" if is_fortran else "C")
