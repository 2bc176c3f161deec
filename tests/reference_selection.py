"""Oracles of content selection, slow and literal: every possibility is tried. Beside reference.py, in plain Python."""

import itertools
import math


def is_run(words, text):
    """Whether ``words`` stand side by side in ``text``."""
    return any(text[i : i + len(words)] == words for i in range(len(text) - len(words) + 1))


def copy_labels(x, y):
    """COMPARED: longest match first, the first occurrence only; Gehrmann et al. 2018, section 3."""
    i, seen, z = 0, [], [0] * len(x)
    while i < len(x):
        n = max([n for n in range(1, len(x) - i + 1) if is_run(x[i : i + n], y)], default=0)
        if n == 0:
            i += 1
            continue
        if x[i : i + n] not in seen:
            for k in range(i, i + n):
                z[k] = 1
            seen.append(x[i : i + n])
        i += n
    return z


def lcs(a, b):
    """The length of the longest common subsequence, by trying all subsequences of ``a``, longest first."""
    for size in range(len(a), 0, -1):
        for chosen in itertools.combinations(a, size):
            rest = iter(b)
            if all(any(word == other for other in rest) for word in chosen):
                return size
    return 0


def match_sentences(document, summary):
    """Chen and Bansal 2018: the arg max of ROUGE-L recall among the sentences that are left."""
    free, found = [j for j in range(len(document)) if document[j]], []
    for reference in summary:
        if free:
            recalls = [(lcs(document[j], reference) / len(reference), -j) for j in free]
            found.append(-max(recalls)[1])
            free.remove(found[-1])
    return found


def greedy_extract(document, summary, recall):
    """Hsu et al. 2018; ``recall(sentences, summary)`` is the summary-level ROUGE-L recall, of another program."""
    numbers = [j for j in range(len(document)) if document[j]]
    order = sorted(numbers, key=lambda j: (-recall([document[j]], summary), j))
    best, kept = 0, []
    for j in order:
        together = recall([document[k] for k in sorted([*kept, j])], summary)
        if together > best:
            best, kept = together, [*kept, j]
    return sorted(kept) or numbers[:1]


def cosines(document, summary, documents, content):
    """Li et al. 2018: cosine of tf times idf, divided by the row's sum. ``content`` says whether a word counts."""

    def idf(word):
        return math.log((1 + len(documents)) / (1 + sum(word in words for words in documents))) + 1

    rows = []
    for reference in summary:
        row = []
        for sentence in document:
            words = [word for word in sorted({*sentence, *reference}) if content(word)]
            a = [sentence.count(word) * idf(word) for word in words]
            b = [reference.count(word) * idf(word) for word in words]
            norms = math.sqrt(sum(v * v for v in a)) * math.sqrt(sum(v * v for v in b))
            row.append(sum(v * w for v, w in zip(a, b)) / norms if norms else 0)
        rows.append([v / sum(row) if sum(row) else 0 for v in row])
    return rows


def bottom_up(p_gen, vocabulary, attention, words, q, threshold, factor):
    """Gehrmann et al. 2018, section 4: a masked and scaled copy distribution, and everything divided by its sum.

    ``vocabulary``: probabilities of known words, by id. ``words``: the id at each position of the document, None where
    nothing can be copied. ``q``: of the selector, None where it says nothing. Returns id -> probability.
    """
    any_chosen = any(value is not None and value > threshold for value in q)
    found = {word: p_gen * probability for word, probability in enumerate(vocabulary)}
    for word, weight, value in zip(words, attention, q):
        if word is not None:
            kept = value is None or value > threshold or not any_chosen
            found[word] = found.get(word, 0) + (1 - p_gen) * factor * (weight if kept else 0)
    total = sum(found.values())
    return {word: probability / total for word, probability in found.items()}
