"""Content selection: labels, selectors, and decoding with a selection. These oracles try every possibility."""

import math

import torch

from .parts import gru_both_ways, is_run, lcs, sentences_of


def label_copied_words(x, y):
    """Copied words: longest match first, and only the first occurrence (Gehrmann et al. 2018, section 3)."""
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


def match_sentences(document, summary):
    """Chen and Bansal 2018: the arg max of ROUGE-L recall among the remaining sentences."""
    free, found = [j for j in range(len(document)) if document[j]], []
    for reference in summary:
        if free:
            recalls = [(lcs(document[j], reference) / len(reference), -j) for j in free]
            found.append(-max(recalls)[1])
            free.remove(found[-1])
    return found


def select_by_greedy_recall(document, summary, recall):
    """Hsu et al. 2018; ``recall(sentences, summary)`` is the summary-level ROUGE-L recall of another program."""
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
    """Gehrmann et al. 2018, section 4: a masked and scaled copy distribution, with everything divided by its sum.

    ``vocabulary``: probabilities of known words, by id. ``words``: the id at each position of the document, None where
    nothing can be copied. ``q``: of the selector, None where there is none. Returns id -> probability.
    """
    any_chosen = any(value is not None and value > threshold for value in q)
    found = {word: p_gen * probability for word, probability in enumerate(vocabulary)}
    for word, weight, value in zip(words, attention, q):
        if word is not None:
            kept = value is None or value > threshold or not any_chosen
            found[word] = found.get(word, 0) + (1 - p_gen) * factor * (weight if kept else 0)
    total = sum(found.values())
    return {word: probability / total for word, probability in found.items()}


def combined_attention(attention, selected):
    """Hsu et al. 2018: alpha of each word times beta of its sentence, divided by the sum; alpha if all are 0."""
    products = [a * b for a, b in zip(attention, selected)]
    return [product / sum(products) for product in products] if sum(products) > 0 else list(attention)


def inconsistency_loss(attentions, selected, top):
    """Hsu et al. 2018: the mean over words t of -log((1 / K) sum of alpha beta over the K largest alpha)."""
    total = 0.0
    for attention in attentions:
        places = sorted(range(len(attention)), key=lambda j: -attention[j])[:top]
        total -= math.log(sum(attention[j] * selected[j] for j in places) / top)
    return total / len(attentions)


def novel_sentences(states, w):
    """Hsu et al. 2018: logits from left to right, depending on earlier selections. states: h of each sentence."""
    d = torch.tanh(w["W_d"] @ (sum(states) / len(states)) + w["b_d"])
    taken, logits = torch.zeros_like(d), []
    for h in states:
        u = torch.tanh(w["W_u"] @ h + w["b_u"])
        logit = w["w_c"] @ u + u @ w["W_s"] @ d - u @ w["W_r"] @ torch.tanh(taken) + w["b"]
        logits.append(logit)
        taken = taken + torch.sigmoid(logit) * u
    return logits


def sentence_extractor(document, mark, w, limits, unk):
    """Hsu et al. 2018: beta of each token of a document and of its end symbol.

    ``w``: "E" has a row for each known word; "words" and "sentences" are the GRUs' two directions; the rest as for
    :func:`novel_sentences`. ``limits``: maximum numbers of sentences and of words per sentence; beta of others is 0.
    """

    sentences, numbers = sentences_of(document, mark)
    read = [n for n in range(min(len(sentences), limits[0])) if sentences[n]]
    if not read:
        return [1.0] * len(numbers)
    means = []
    for n in read:
        words = [document[place] for place in sentences[n][: limits[1]]]
        states = gru_both_ways([w["E"][word if word < len(w["E"]) else unk] for word in words], w["words"])
        means.append(sum(states) / len(states))
    logits = novel_sentences(gru_both_ways(means, w["sentences"]), w)
    beta = {n: torch.sigmoid(logit).item() for n, logit in zip(read, logits)}
    return [beta.get(n, 0.0) for n in numbers]
