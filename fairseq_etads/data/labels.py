"""Labels and probabilities of words or sentences: algorithms that create labels, files, scores, and picked sentences.

Sentences are identified by their index, which starts at 0. If several sentences are equally good, the first of them is
selected. Empty sentences between adjacent sentence marks also have an index but are never selected.

Files of labels or probabilities can only be used with the data for which they were created:

    labels.words.SPLIT             written by etads-labels --kind words
    labels.sentences.SPLIT         written by etads-labels --kind match, extract or distribution
    probabilities.words.SPLIT, probabilities.sentences.SPLIT        written by etads-select

The first line is a comment with a JSON object that describes how the file was created, with the numbers of "documents"
and of tokens that were read from each ("truncate_source"). Each of the other lines belongs to one document. It contains
the first 16 hexadecimal digits of the document's hash, a tab, and fields that are separated by spaces:

    words           a label or probability for each token, or "-" for a sentence mark
    sentences       labels: one field for each summary sentence (for "extract": for each extracted sentence). The field
                    is the index of a document sentence. For "distribution", the field consists of pairs such as
                    0:0.25,3:0.75, or is "-" if there are no pairs.
                    probabilities: a probability for each document sentence, or "-" if the sentence has no words
"""

import bisect
import functools
import hashlib
import json
import math
import mmap
import operator
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from ..files.inputs import check_format, name_format, read_json, report_damage
from ..files.outputs import open_output
from ..platform.errors import InputError
from ..text.subsequences import WordRuns, Words, compute_lcs_length, find_lcs_positions, iterate_matches

_STOP_WORDS = """\
a about after all also an and any are as at be because been before being between both but by can could did do
does down during each for from further had has have he her here hers him his how i if in into is it its just
me more most my no nor not now of off on once one only or other our ours out over own said same she should so
some such than that the their theirs them then there these they this those through to too under until up very
was we were what when where which while who whom why will with would you your yours n't 's 'm 're 've 'd 'll"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English function words, which carry no information about the topic of a sentence."""


def label_copied_words(document: Words, summary: Words) -> List[int]:
    """Label each word of a document with 1 if the summary copies it and 0 otherwise (Gehrmann et al. 2018, section 3).

    From left to right, the words of the longest sequence that also occurs in the summary are labelled, unless the same
    sequence has occurred before. The authors' code differs in two details: it searches for substrings, so that it finds
    "he" inside "the", and it never labels the last word of a document.
    """
    runs = WordRuns(summary)
    labels = [0] * len(document)
    seen: Set[Tuple[str, ...]] = set()
    start = 0
    while start < len(document):
        _, length = runs.find_longest(document, start)
        run = tuple(document[start : start + length])
        if length and run not in seen:
            labels[start : start + length] = [1] * length
            seen.add(run)
        start += max(length, 1)
    return labels


def match_sentences(document: Sequence[Words], summary: Sequence[Words]) -> List[int]:
    """Match each summary sentence with its most similar document sentence (Chen and Bansal 2018, eq. 1).

    The similarity measure is ROUGE-L recall. Each document sentence is matched at most once. If the document has fewer
    sentences than the summary, the last sentences of the summary remain unmatched. Returns the indices of the matched
    document sentences, in the order of the summary.
    """
    free = [number for number, sentence in enumerate(document) if sentence]
    found: List[int] = []
    for reference in summary:
        if not free:
            break
        best = max(free, key=lambda number: compute_lcs_length(reference, document[number]))
        free.remove(best)
        found.append(best)
    return found


class SummaryRecall:
    """Compute the summary-level ROUGE-L recall of selected document sentences (Lin 2004, section 3.2).

    ``document`` and ``summary`` (the reference) are lists of sentences, each a list of words.
    """

    def __init__(self, document: Sequence[Words], summary: Sequence[Words]):
        self.document, self.summary = document, summary
        self.size = sum(map(len, summary))
        self._common = [find_lcs_positions(words, summary) for words in document]

    def __call__(self, chosen: Iterable[int]) -> float:
        """Compute the recall of the sentences with these indices, in any order. It is 0 if the summary is empty."""
        taken = [(self.document[number], self._common[number]) for number in chosen]
        hits = iterate_matches([words for words, _ in taken], self.summary, [common for _, common in taken])
        return sum(1 for _ in hits) / self.size if self.size else 0.0


def select_by_greedy_recall(document: Sequence[Words], summary: Sequence[Words]) -> List[int]:
    """Select document sentences that together have a high ROUGE-L recall of the summary (Hsu et al. 2018).

    Sentences are considered in descending order of their individual summary-level ROUGE-L recall. A sentence is
    selected if it increases the recall of the sentences that have been selected so far. If no sentence has a word in
    common with the summary, the first sentence is selected. Returns their indices, in the order of the document.
    """
    numbers = [number for number, sentence in enumerate(document) if sentence]
    if not numbers or not summary:
        return []
    recall = SummaryRecall(document, summary)
    alone = {number: recall([number]) for number in numbers}
    best, kept = 0.0, []  # type: float, List[int]
    for number in sorted(numbers, key=lambda number: -alone[number]):
        together = recall([*kept, number])
        if together > best:
            best = together
            kept.append(number)
    return sorted(kept) or numbers[:1]


def select_by_greedy_f1(document: Sequence[Words], summary: Sequence[Words]) -> List[int]:
    """Select document sentences that together are most similar to the summary, using a greedy algorithm.

    Each step adds the sentence that increases the sum of unigram F1 and bigram F1 most, until none increases it
    (Nallapati et al. 2017, section 3.3, with ROUGE-1). Each distinct word or bigram of the summary is counted once, and
    the length of the extract is the sum of its sentences' numbers of distinct words. If no sentence shares a word with
    the summary, the first one is selected. Returns their indices, in the order of the document.
    """
    words: Dict[str, int] = {}
    bigrams: Dict[Tuple[str, str], int] = {}
    for sentence in summary:
        for word in sentence:
            words.setdefault(word, 1 << len(words))
        for pair in zip(sentence, sentence[1:]):
            bigrams.setdefault(pair, 1 << len(bigrams))
    free = {}  # bit sets of the summary's words and bigrams, and the number of distinct words, by free sentence
    for number, sentence in enumerate(document):
        if sentence:
            of_words = functools.reduce(operator.or_, (words.get(word, 0) for word in sentence))
            pairs = (bigrams.get(pair, 0) for pair in zip(sentence, sentence[1:]))
            free[number] = of_words, functools.reduce(operator.or_, pairs, 0), len(set(sentence))
    first = list(free)[:1]
    kept: List[int] = []
    best, found_words, found_bigrams, size = 0.0, 0, 0, 0
    while free:
        top = None
        for number, (of_words, of_bigrams, length) in free.items():
            hits = bin(found_words | of_words).count("1"), bin(found_bigrams | of_bigrams).count("1")
            total = size + length
            value = 2 * hits[0] / (len(words) + total) + 2 * hits[1] / (len(bigrams) + total)
            if value > best + 1e-9:
                best, top = value, number
        if top is None:
            break
        of_words, of_bigrams, length = free.pop(top)
        found_words, found_bigrams, size = found_words | of_words, found_bigrams | of_bigrams, size + length
        kept.append(top)
    return sorted(kept) or first


def compute_selection_targets(
    document: Sequence[Words], summary: Sequence[Words], idf: Mapping[str, float], unseen: float = 1.0
) -> List[List[float]]:
    """Compute a distribution over the document sentences for each summary sentence (Li et al. 2018).

    The probability of a document sentence is proportional to the cosine similarity between its TF-IDF vector and the
    TF-IDF vector of the summary sentence. Stop words and punctuation are ignored. ``idf`` maps words to inverse
    document frequencies (see :func:`compute_idf`), which are ``unseen`` for other words.

    Returns one list per summary sentence, with one probability per document sentence. Each list sums to 1, unless the
    summary sentence has no content words in common with the document. Its values are then all 0.
    """
    vectors = [_compute_tf_idf(sentence, idf, unseen) for sentence in document]
    rows = []
    for sentence in summary:
        vector = _compute_tf_idf(sentence, idf, unseen)
        row = [sum(weight * other.get(word, 0.0) for word, weight in vector.items()) for other in vectors]
        total = sum(row)
        rows.append([value / total if total else 0.0 for value in row])
    return rows


def _compute_tf_idf(sentence: Words, idf: Mapping[str, float], unseen: float) -> Dict[str, float]:
    """Compute the TF-IDF vector of a sentence, normalised to length 1."""
    counts = Counter(word for word in sentence if is_content_word(word))
    weights = {word: count * idf.get(word, unseen) for word, count in counts.items()}
    length = math.sqrt(sum(weight**2 for weight in weights.values()))
    return {word: weight / length for word, weight in weights.items()} if length else {}


def is_content_word(word: str) -> bool:
    """Return whether a word contains a letter or digit and is not a stop word."""
    return word.lower() not in STOP_WORDS and any(character.isalnum() for character in word)


def compute_idf(documents: Iterable[Words]) -> Tuple[Dict[str, float], float]:
    """Compute the inverse document frequencies (idf) of words, and that of words that do not occur in any document.

    The idf of a word is ln((1 + D) / (1 + df)) + 1, where df is the number of documents that contain the word and D is
    the total number of documents.
    """
    count, frequencies = 0, Counter()  # type: int, Counter[str]
    for words in documents:
        count += 1
        frequencies.update(set(words))
    idf = {word: math.log((1 + count) / (1 + df)) + 1 for word, df in frequencies.items()}
    return idf, math.log(1 + count) + 1


UNITS = ("words", "sentences")
NOTHING = "-"


def compute_source_hash(tokens: Sequence[str]) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 hash of a document's tokens, joined with spaces."""
    return hashlib.sha256(" ".join(tokens).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def make_label_file_name(what: str, unit: str, split: str) -> str:
    """Return the name of a file with ``what``, "labels" or "probabilities", of a unit in UNITS, such as "words"."""
    return f"{what}.{unit}.{split}"


def write_label_rows(path: Path, header: Dict[str, Any], rows: Iterable[Tuple[str, Sequence[str]]]) -> None:
    """Write labels or probabilities: ``header`` as JSON in the first line, then each document's hash and fields."""
    with open_output(path) as file:
        file.write(f"# {json.dumps({'format': name_format(path.name.partition('.')[0]), **header})}\n")
        for digest, fields in rows:
            file.write(f"{digest}\t{' '.join(fields)}\n")


class SelectionFile:
    """File with labels or probabilities of this number of ``documents``, if given. Its lines are read on demand.

    Raises InputError, which names ``option``, if the file is missing, damaged or incomplete, or covers others.
    """

    def __init__(self, path: Path, option: str, documents: Optional[int] = None):
        self.path = path
        self._map: Optional[mmap.mmap] = None
        advice = f"{_name_creating_command(path.name)} creates it"
        with report_damage(path, advice, f"{option}: "):
            with open(path, "rb") as file:
                first = file.readline()
                if not first.startswith(b"# "):
                    raise ValueError("its first line is not a comment")
                self.header: Dict[str, Any] = json.loads(first[2:])  # the JSON object in the first line
                check_format(self.header, path.name.partition(".")[0], path, advice, older=True)
                starts = [len(first)]
                for line in file:
                    starts.append(starts[-1] + len(line))
            if int(self.header["documents"]) != len(starts) - 1 or (len(starts) > 1 and line[-1:] != b"\n"):
                raise ValueError(f"it has {len(starts) - 1:,} lines instead of {self.header['documents']:,}")
        self._starts = np.array(starts)
        if documents is not None and len(self) != documents:
            raise InputError(f"{option}: {path} covers {len(self):,} documents, but DATA has {documents:,}")

    def __len__(self) -> int:
        return len(self._starts) - 1

    def check_kind(self, option: str, kind: Optional[str] = None) -> None:
        """Raise InputError if the labels are not of a ``kind`` of etads-labels or, without one, are distributions."""
        found = self.header.get("kind")
        if found == "distribution" if kind is None else found != kind:
            raise InputError(
                f"{option}: {self.path} contains labels of the kind {found}; create it with etads-labels --kind "
                f"{kind or 'extract or match'}"
            )

    def __getstate__(self) -> Dict[str, Any]:
        """Return the state for pickling, without the memory map, which cannot be pickled."""
        return {**vars(self), "_map": None}

    def read_row(self, number: int, tokens: Optional[Sequence[str]] = None) -> List[str]:
        """Return the fields of the document with index ``number``.

        Raises InputError if its line has no tab or, given its ``tokens``, if the file was created for other documents.
        """
        if self._map is None:
            with open(self.path, "rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        line = self._map[self._starts[number] : self._starts[number + 1]].decode("utf-8", "replace")
        digest, tab, rest = line.rstrip("\n").partition("\t")
        if not tab:
            raise InputError(f"{self.path}, line {number + 2}: no tab found")
        if tokens is not None and digest != compute_source_hash(tokens):
            raise InputError(
                f"{self.path}, line {number + 2}: does not match document {number} (from 0) of the data, so the order "
                f"or text of documents differs; create the file again with {_name_creating_command(self.path.name)}"
            )
        return rest.split()

    def read_probabilities(self, number: int, tokens: Optional[Sequence[str]] = None) -> List[Optional[float]]:
        """Return the probabilities of a document's words or sentences, with None for those that have none.

        Raises InputError if the file was created for other documents than ``tokens``, or a field is not a number.
        """
        fields = self.read_row(number, tokens)
        try:
            return [None if field == NOTHING else float(field) for field in fields]
        except ValueError as error:
            raise InputError(f"{self.path}, line {number + 2}: {error}") from None


def _name_creating_command(name: str) -> str:
    return "etads-labels" if name.startswith("labels.") else "etads-select"


EDGES: List[float] = [number / 20 for number in range(-240, 241)]
"""Logits at the edges of the histogram bins: probabilities from 0.000006 to 0.999994 in steps of at most 0.0125."""


def find_histogram_bin(probability: float) -> int:
    """Return the index b of a probability's bin: its logit is above EDGES[b - 1] and at most EDGES[b]."""
    if not 0 < probability < 1:
        return 0 if probability <= 0 else len(EDGES)
    logit = math.log(probability / (1 - probability))
    return min(max(math.ceil((logit - EDGES[0]) * 20 - 1e-9), 0), len(EDGES))


def compute_roc_auc(counts: Any) -> float:
    """Compute the area under the ROC curve, or return 0.5 if there are no positive or no negative examples.

    The area is the probability that a random positive example has a larger logit than a random negative example. Each
    pair of a positive and a negative example in the same bin contributes one half. ``counts`` contains the numbers of
    negative and positive words or sentences in each bin, shape (2, bins).
    """
    negative, positive = np.asarray(counts, dtype=float)
    pairs = negative.sum() * positive.sum()
    return float((positive * (negative.cumsum() - negative / 2)).sum() / pairs) if pairs else 0.5


def find_best_f1_threshold(counts: Any) -> Tuple[float, float]:
    """Return the highest F1 score, and the bin edge that yields it as a threshold of probability.

    A word or sentence is selected if its probability exceeds the threshold. ``counts`` is as in
    :func:`compute_roc_auc`.
    """
    negative, positive = np.asarray(counts, dtype=float)
    true, chosen = (row[:0:-1].cumsum() for row in (positive, positive + negative))  # from the highest edge
    f1 = 2 * true / np.maximum(chosen + positive.sum(), 1)
    best = int(f1.argmax())
    return (float(f1[best]), 1 / (1 + math.exp(-EDGES[-1 - best]))) if f1[best] else (0.0, 0.5)


def make_empty_histogram() -> List[List[float]]:
    """Return an empty histogram, i.e. counts of 0 with shape (2, bins)."""
    return [[0.0] * (len(EDGES) + 1) for _ in range(2)]


SALIENCE = "salience"
"""Name of the source factor that informs the summariser about the probability level of each selected sentence."""
PICKING = "picking.json"
"""Name of the settings file in the run folder of an extractor, and in model folders that contain an extractor."""
DEFAULT_WORDS = 200
"""Default maximum number of words in the selected sentences (the budget)."""
QUANTILES = (0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9)
"""Quantiles of the probabilities of training sentences that divide levels, closer among those usually selected."""
FULL = 0.95
"""Fraction of the budget at which the selection ends, even if more sentences would fit."""
SHORTEST = 3
"""Minimum number of words in a sentence that is selected from a longer document, unless all sentences are shorter."""
_MOST_WORDS = 1_000_000


def check_word_budget(words: Optional[int]) -> None:
    """Raise InputError if --words is outside the range that the settings file can store."""
    if words is not None and not 1 <= words <= _MOST_WORDS:
        raise InputError(f"--words {words}: choose 1 to {_MOST_WORDS:,}")


class Pick(NamedTuple):
    """A selected sentence."""

    number: int  # index of the sentence in the document
    probability: float  # predicted probability of the sentence, or 0 if the extractor did not read it
    level: str  # probability level of the sentence; the lowest is "1"


@dataclass(frozen=True)
class SentencePickingSettings:
    """Settings for selecting sentences, and the bounds of the probability levels for the factor :data:`SALIENCE`."""

    words: int  # maximum number of words in the selected sentences (the budget)
    edges: Tuple[float, ...]  # lower bounds of the probability levels 2, 3, …; below the first bound is level 1

    def pick(self, sentences: Sequence[str], probabilities: Sequence[Optional[float]]) -> List[Pick]:
        """Select sentences with :func:`pick_sentences`. Those beyond the last probability have not been read."""
        known = [*probabilities, *[None] * len(sentences)][: len(sentences)]
        places = pick_sentences([len(sentence.split()) for sentence in sentences], known, self.words)
        return [Pick(place, known[place] or 0.0, self.find_probability_level(known[place] or 0.0)) for place in places]

    def find_probability_level(self, probability: float) -> str:
        """Return the level of a probability."""
        return str(1 + bisect.bisect_right(self.edges, probability))

    def to_json(self) -> str:
        """Format the settings as the content of :data:`PICKING`."""
        return json.dumps({"format": name_format("picking"), **asdict(self)}) + "\n"

    @classmethod
    def read(cls, path: Path, advice: str) -> "SentencePickingSettings":
        """Read the settings from a file. Raises InputError, which ends in ``advice``, if it is missing or damaged."""
        with report_damage(path, advice):
            found = cls(**check_format(read_json(path, advice), "picking", path, advice, older=True))
            if type(found.words) is not int or not 1 <= found.words <= _MOST_WORDS:
                raise ValueError(f'"words" is {str(found.words)[:40]}, not a number of words')
            edges: Any = found.edges
            numbers = isinstance(edges, list) and all(isinstance(x, (int, float)) and 0 <= x <= 1 for x in edges)
            if not numbers or edges != sorted(edges) or len(edges) > 100:
                raise ValueError('"edges" is not an ascending list of probabilities')
            return replace(found, edges=tuple(map(float, edges)))


def pick_sentences(lengths: Sequence[int], probabilities: Sequence[Optional[float]], budget: int) -> List[int]:
    """Select the most probable sentences that together fit into a budget of words, and return their indices in order.

    If the whole document fits into the budget, all its sentences with words are selected. Otherwise, sentences are
    considered in order of decreasing probability, the earlier of equal ones first and those without a probability last,
    and a sentence is skipped if it exceeds the remaining budget. Sentences with fewer than :data:`SHORTEST` words, such
    as stray fragments, are considered only if all sentences are this short. If no sentence fits, the most probable one
    is selected. ``lengths`` are the numbers of words in the sentences.
    """
    if sum(lengths) <= budget:
        return [number for number, length in enumerate(lengths) if length]
    usable = [number for number, length in enumerate(lengths) if length >= SHORTEST]
    usable = usable or [number for number, length in enumerate(lengths) if length]
    scores = [-math.inf if probability is None else probability for probability in probabilities]
    order = sorted(usable, key=lambda number: -scores[number])
    taken: List[int] = []
    total = 0
    for number in order:
        if total + lengths[number] <= budget:
            taken.append(number)
            total += lengths[number]
        if total >= FULL * budget:
            break
    return sorted(taken) or order[:1]


def compute_probability_level_bounds(probabilities: Sequence[float]) -> Tuple[float, ...]:
    """Compute the lower bounds of the levels: QUANTILES of training sentences, rounded to four significant digits."""
    ordered = sorted(probabilities)
    if not ordered:
        raise InputError("there are no sentences from which to learn probability levels")
    places = (min(int(share * len(ordered)), len(ordered) - 1) for share in QUANTILES)
    return tuple(float(f"{ordered[place]:.4g}") for place in places)
