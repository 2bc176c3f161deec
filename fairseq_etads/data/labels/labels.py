"""Create labels for content selection from a document and its reference summary.

Sentences are identified by their index, which starts at 0. If several sentences are equally good, the first of them is
selected. Empty sentences between adjacent sentence marks also have an index but are never selected.
"""

import functools
import math
import operator
from collections import Counter
from typing import Dict, Iterable, List, Mapping, Sequence, Set, Tuple

from ...text.subsequences import WordRuns, Words, compute_lcs_length, find_lcs_positions, iterate_matches

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
