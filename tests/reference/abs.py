"""ABS (Rush et al. 2015) in loops over words, close to the paper: the model, and the features of its search."""

import math
from typing import Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor


def next_word(w: Dict[str, Tensor], document: Sequence[int], last: Sequence[int]) -> Tuple[List[float], List[float]]:
    """Compute log p of each possible next word, and the attention π to each place of the document.

    ``w``: "E", "F", "G" with a row for each word, "U", "b_U", "P", "b_P", "V", "W", "b"; ``last``: ids of C last words.
    """
    h = torch.tanh(w["U"] @ torch.cat([w["E"][word] for word in last]) + w["b_U"])
    asked = w["P"] @ torch.cat([w["G"][word] for word in last]) + w["b_P"]
    scores = [math.exp(float(w["F"][word] @ asked)) for word in document]
    weights = [score / sum(scores) for score in scores]
    enc = torch.zeros_like(w["F"][0])
    for j, weight in enumerate(weights):
        mean = torch.zeros_like(enc)
        for q in range(j - 2, j + 3):
            if 0 <= q < len(document):
                mean = mean + w["F"][document[q]] / 5
        enc = enc + weight * mean
    logits = [float(w["V"][i] @ h + w["W"][i] @ enc + w["b"][i]) for i in range(len(w["b"]))]
    total = math.log(sum(math.exp(logit) for logit in logits))
    return [logit - total for logit in logits], weights


def extractive_features(document, before, word):
    """A word's contribution to the unigram, bigram, trigram and reordering features (Rush et al. 2015, section 5).

    ``before``: the words of the summary so far. None stands for an unknown word or a token that is not a word.
    """
    if word is None or word not in document:
        return [0, 0, 0, 0]
    bigram = trigram = reordering = 0
    for i in range(len(document)):
        if document[i] != word or not before or before[-1] is None:
            continue
        if i >= 1 and document[i - 1] == before[-1]:
            bigram = 1
            if i >= 2 and len(before) >= 2 and before[-2] is not None and document[i - 2] == before[-2]:
                trigram = 1
        if any(document[j] == before[-1] for j in range(i + 1, len(document))):
            reordering = 1
    return [1, bigram, trigram, reordering]


def released_features(document: Sequence[int], before: Sequence[int], word: int) -> List[int]:
    """:func:`extractive_features` from the tables that the authors' code fills while it reads the document.

    The code's history has four words, ending with the previous one; n-grams are made from the third and the second.
    """
    history: List[Optional[int]] = [None] * 4
    bigrams, trigrams, ordered, unordered = set(), set(), set(), set()
    for place, now in enumerate(document):
        for earlier in document[: place + 1]:
            ordered.add((earlier, now))
            if (now, earlier) not in ordered:
                unordered.add((now, earlier))
        bigrams.add((history[2], now))
        trigrams.add((history[1], history[2], now))
        history = [*history[1:], now]
    last, second = ([None, None, *before])[-1], ([None, None, *before])[-2]
    return [
        int(word in document),
        int(last is not None and (last, word) in bigrams),
        int(None not in (last, second) and (second, last, word) in trigrams),
        int((last, word) in unordered),
    ]
