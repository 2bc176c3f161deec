"""Rewards of summaries by name, for ``--criterion summarization_rl``, with ROUGE fast enough for training.

A text is a list of sentences, and a sentence is a list of words as in the training data: nothing is stemmed,
lower-cased or omitted.
"""

import importlib
from collections import Counter
from types import MappingProxyType
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from ..text.subsequences import lcs_positions, ngrams, word_positions

Text = Sequence[Sequence[str]]
Weights = Sequence[Sequence[float]]
"""Weight of each word in each sentence of a text."""
Reward = Callable[[Sequence[Text], Sequence[Text], Sequence[Text]], Sequence[float]]
"""(hypotheses, references, documents) -> a number for each hypothesis; higher is better."""


def split_sentences(words: Sequence[str], mark: str) -> List[List[str]]:
    """Split a text into sentences at ``mark``, without empty sentences."""
    sentences: List[List[str]] = [[]]
    for word in words:
        if word == mark:
            sentences.append([])
        else:
            sentences[-1].append(word)
    return [sentence for sentence in sentences if sentence]


def f1(hits: int, hypothesis: int, reference: int) -> float:
    """Compute the F1 of ``hits`` among the n-grams or words of a hypothesis and a reference; 0 if one is empty."""
    return 2 * hits / (hypothesis + reference) if hits else 0.0


def rouge_n(hypothesis: Text, reference: Text, n: int) -> float:
    """Compute ROUGE-N F1 in [0, 1] (Lin 2004, section 2); n-grams extend across sentences, as in ``etads-rouge``."""
    grams = [Counter(ngrams([word for sentence in text for word in sentence], n)) for text in (hypothesis, reference)]
    return f1(sum((grams[0] & grams[1]).values()), sum(grams[0].values()), sum(grams[1].values()))


def rouge_l(hypothesis: Text, reference: Text) -> float:
    """Compute summary-level ROUGE-L F1 in [0, 1] (Lin 2004, section 3.2), with the same result as rouge-score.

    The hits of a reference sentence are its words in a longest common subsequence with any sentence of the hypothesis.
    Each word is counted at most as often as it occurs in the hypothesis.
    """
    sizes = [sum(map(len, text)) for text in (hypothesis, reference)]
    return f1(sum(1 for _ in _hits(hypothesis, reference)), *sizes)


def _hits(hypothesis: Text, reference: Text) -> Iterator[Tuple[int, int]]:
    """Yield the positions of the reference words that :func:`rouge_l` counts: sentence, and index in the sentence."""
    left = Counter(word for sentence in hypothesis for word in sentence)
    positions = [word_positions(sentence) for sentence in hypothesis]
    for number, sentence in enumerate(reference):
        union: Set[int] = set()
        for words, other in zip(positions, hypothesis):
            union.update(lcs_positions(sentence, other, words))
        for index in sorted(union):
            if left[sentence[index]]:
                left[sentence[index]] -= 1
                yield number, index


def rouge_sal(hypothesis: Text, reference: Text, hypothesis_weights: Weights, reference_weights: Weights) -> float:
    """Compute ROUGE-L F1 in [0, 1] with weighted words (Pasunuru and Bansal 2018, "ROUGESal").

    P and R are the weight of the hits of :func:`rouge_l` divided by the total weight of the hypothesis and of the
    reference. For a word with n hits, the weights of its first n occurrences in the hypothesis are used.

    Args:
        hypothesis_weights, reference_weights: weight of each word, at least 0; only proportions matter.
    """
    hits = list(_hits(hypothesis, reference))
    left = Counter(reference[number][index] for number, index in hits)
    recalled = sum(reference_weights[number][index] for number, index in hits)
    precise = 0.0
    for sentence, weights in zip(hypothesis, hypothesis_weights):
        for word, weight in zip(sentence, weights):
            if left[word]:
                left[word] -= 1
                precise += weight
    shares = [
        part / total if total else 0.0
        for part, total in ((precise, _total(hypothesis_weights)), (recalled, _total(reference_weights)))
    ]
    return 2 * shares[0] * shares[1] / sum(shares) if all(shares) else 0.0


def _total(weights: Weights) -> float:
    return sum(map(sum, weights))


def _each(score: Callable[[Text, Text], float]) -> Reward:
    return lambda hypotheses, references, documents: [score(*pair) for pair in zip(hypotheses, references)]


REWARDS: Dict[str, Reward] = {
    "rouge1": _each(lambda hypothesis, reference: rouge_n(hypothesis, reference, 1)),
    "rouge2": _each(lambda hypothesis, reference: rouge_n(hypothesis, reference, 2)),
    "rougeL": _each(rouge_l),
}
"""F1 in [0, 1] against the reference."""


class RougeSal:
    """The reward ``rougesal``: :func:`rouge_sal` against the reference.

    Args:
        saliency: function from sentences to the weights of the words in each sentence, at least 0.
    """

    def __init__(self, saliency: Callable[[Text], Weights]):
        self.saliency = saliency

    def __call__(self, hypotheses: Sequence[Text], references: Sequence[Text], documents: Any) -> List[float]:
        """Return the reward of each hypothesis, in [0, 1]."""
        texts = [*hypotheses, *references]
        found = iter(self.saliency([sentence for text in texts for sentence in text]))
        weights = [[next(found) for _ in text] for text in texts]
        return [rouge_sal(*row) for row in zip(hypotheses, references, weights, weights[len(hypotheses) :])]


class Entailment:
    """The reward ``entail``: the probability that the reference entails a summary (Pasunuru and Bansal 2018).

    With the n sentences s_k of the summary, r = (1/n) Σ_k P(reference entails s_k) · min(cap, words of the summary /
    words of the reference). Without the length ratio, very short summaries would receive the highest rewards, because
    they are entailed completely. The reward of an empty summary is 0.

    Args:
        score: function from premises and hypotheses, as lists of words, to probabilities of entailment.
        length_cap: upper bound on the length ratio; None: no bound, so that length alone increases the reward.
    """

    def __init__(self, score: Callable[[Text, Text], Sequence[float]], length_cap: Optional[float] = 1.0):
        self.score, self.length_cap = score, length_cap

    def __call__(self, hypotheses: Sequence[Text], references: Sequence[Text], documents: Any) -> List[float]:
        """Return the reward of each hypothesis, at least 0."""
        premises = [[word for sentence in text for word in sentence] for text in references]
        pairs = [(premise, sentence) for premise, text in zip(premises, hypotheses) for sentence in text]
        found = iter(self.score([premise for premise, _ in pairs], [sentence for _, sentence in pairs]))
        values = []
        for premise, text in zip(premises, hypotheses):
            entailed = [float(next(found)) for _ in text]
            ratio = sum(map(len, text)) / len(premise) if premise else 0.0
            ratio = ratio if self.length_cap is None else min(ratio, self.length_cap)
            values.append(ratio * sum(entailed) / len(entailed) if entailed else 0.0)
        return values


def reward_by_name(name: str, makers: Mapping[str, Callable[[], Reward]] = MappingProxyType({})) -> Reward:
    """Find a reward in :data:`REWARDS` or ``makers``, or create it from a class given as ``module:Class``.

    Args:
        makers: name -> factory of a reward that needs more than texts.

    Raises:
        ValueError: there is no reward with this name.
    """
    if name in REWARDS:
        return REWARDS[name]
    if name in makers:
        return makers[name]()
    module, colon, member = name.partition(":")
    if not colon:
        names = ", ".join([*REWARDS, *makers])
        raise ValueError(f"--rewards {name}: choose from {names}, or name your own class as module:Class")
    try:
        made: Any = getattr(importlib.import_module(module), member)()
    except (ImportError, AttributeError) as error:
        raise ValueError(f"--rewards {name}: {error}") from None
    reward: Reward = made
    return reward
