"""Create labels for content selection from a document and its reference summary, with pure functions of word lists.

Sentences are numbered from 0. The first of several equally good sentences is selected. Empty sentences of a document
(between adjacent marks) are numbered, but never selected.
"""

import math
from collections import Counter
from typing import Dict, Iterable, List, Mapping, Sequence, Set, Tuple

from .overlap import SummaryRecall, Words, sentence_recall

_STOP_WORDS = """\
a about after all also an and any are as at be because been before being between both but by can could did do
does down during each for from further had has have he her here hers him his how i if in into is it its just
me more most my no nor not now of off on once one only or other our ours out over own said same she should so
some such than that the their theirs them then there these they this those through to too under until up very
was we were what when where which while who whom why will with would you your yours n't 's 'm 're 've 'd 'll"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English function words, which do not indicate the topic of a sentence."""


def copy_labels(document: Words, summary: Words) -> List[int]:
    """Label the words of a document that its summary copies by 1, and others by 0 (Gehrmann et al. 2018, section 3).

    The document is read from left to right. At each position, the longest run of words that also occurs in the summary
    is labelled 1 if this is its first occurrence. The authors' program searches the summary as a string, so it finds
    "he" inside "the", and it never selects the last word of a document. This function compares whole words.
    """
    places: Dict[str, List[int]] = {}
    for place, word in enumerate(summary):
        places.setdefault(word, []).append(place)
    labels = [0] * len(document)
    seen: Set[Tuple[str, ...]] = set()
    start = 0
    while start < len(document):
        length = max((_run(document, start, summary, place) for place in places.get(document[start], ())), default=0)
        run = tuple(document[start : start + length])
        if length and run not in seen:
            labels[start : start + length] = [1] * length
            seen.add(run)
        start += max(length, 1)
    return labels


def _run(document: Words, start: int, summary: Words, place: int) -> int:
    """Count the equal words from ``start`` in the document and from ``place`` in the summary."""
    length, most = 0, min(len(document) - start, len(summary) - place)
    while length < most and document[start + length] == summary[place + length]:
        length += 1
    return length


def match_sentences(document: Sequence[Words], summary: Sequence[Words]) -> List[int]:
    """Find the most similar sentence of the document for each sentence of the summary (Chen and Bansal 2018, eq. 1).

    The most similar sentence is the one with the largest ROUGE-L recall. No sentence is selected twice. If the document
    has fewer sentences than the summary, the list is shorter than the summary.
    """
    free = [number for number, sentence in enumerate(document) if sentence]
    found: List[int] = []
    for reference in summary:
        if not free:
            break
        best = max(free, key=lambda number: sentence_recall(document[number], reference))
        free.remove(best)
        found.append(best)
    return found


def greedy_extract(document: Sequence[Words], summary: Sequence[Words]) -> List[int]:
    """Select sentences that together recall the summary, in the order of the document (Hsu et al. 2018).

    Sentences are tried in descending order of their own summary-level ROUGE-L recall. A sentence is kept if it raises
    the recall of the sentences kept so far. If no sentence contains a word of the summary, the first sentence is
    selected.
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


def greedy_f1(document: Sequence[Words], summary: Sequence[Words]) -> List[int]:
    """Select the set of sentences that together are most similar to the summary, in the order of the document.

    Each step adds the sentence that most increases the sum of the F1 of words and the F1 of bigrams, until no sentence
    increases it (Nallapati et al. 2017, section 3.3, with this sum instead of ROUGE-1). Each distinct word or bigram of
    the summary is counted once. The length of the extract is the number of distinct words, summed over its sentences.
    If no sentence contains a word of the summary, the first sentence is selected.
    """
    words: Dict[str, int] = {}
    bigrams: Dict[Tuple[str, str], int] = {}
    for sentence in summary:
        for word in sentence:
            words.setdefault(word, 1 << len(words))
        for pair in zip(sentence, sentence[1:]):
            bigrams.setdefault(pair, 1 << len(bigrams))
    # A free sentence has not been selected yet. Its entry consists of the bits of its words and of its bigrams in the
    # summary, and its number of distinct words.
    free = {}
    for number, sentence in enumerate(document):
        if sentence:
            of_words = of_bigrams = 0
            for word in sentence:
                of_words |= words.get(word, 0)
            for pair in zip(sentence, sentence[1:]):
                of_bigrams |= bigrams.get(pair, 0)
            free[number] = of_words, of_bigrams, len(set(sentence))
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


def selection_targets(
    document: Sequence[Words], summary: Sequence[Words], idf: Mapping[str, float], unseen: float = 1.0
) -> List[List[float]]:
    """Compute a distribution over the document's sentences for each sentence of the summary (Li et al. 2018).

    The probability of a sentence is the cosine of both sentences' TF-IDF vectors, divided by the sum over the document.

    Args:
        idf: inverse document frequencies of words, see :func:`inverse_frequencies`; stop words and punctuation are
            ignored.
        unseen: idf of other words.

    Returns:
        n rows of m numbers. A row sums to 1, or contains only 0 if the document has no word of the summary's sentence.
    """
    vectors = [_weights(sentence, idf, unseen) for sentence in document]
    rows = []
    for sentence in summary:
        vector = _weights(sentence, idf, unseen)
        row = [sum(weight * other.get(word, 0.0) for word, weight in vector.items()) for other in vectors]
        total = sum(row)
        rows.append([value / total if total else 0.0 for value in row])
    return rows


def _weights(sentence: Words, idf: Mapping[str, float], unseen: float) -> Dict[str, float]:
    """Compute the TF-IDF vector of a sentence, with length 1; empty if the sentence has no content words."""
    counts = Counter(word for word in sentence if is_content(word))
    weights = {word: count * idf.get(word, unseen) for word, count in counts.items()}
    length = math.sqrt(sum(weight**2 for weight in weights.values()))
    return {word: weight / length for word, weight in weights.items()} if length else {}


def is_content(word: str) -> bool:
    """Tell whether a word contains a letter or a digit and is not a stop word."""
    return word.lower() not in STOP_WORDS and any(character.isalnum() for character in word)


def inverse_frequencies(documents: Iterable[Words]) -> Tuple[Dict[str, float], float]:
    """Compute the idf of each word, ln((1 + D) / (1 + df)) + 1 for a word in df of D documents, and of unseen words."""
    count, frequencies = 0, Counter()  # type: int, Counter[str]
    for words in documents:
        count += 1
        frequencies.update(set(words))
    idf = {word: math.log((1 + count) / (1 + df)) + 1 for word, df in frequencies.items()}
    return idf, math.log(1 + count) + 1
