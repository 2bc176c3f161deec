"""Rewards for summaries, which are used by ``--criterion summarization_rl``.

The implementation of ROUGE in this module is fast enough for training. A text is a list of sentences, and a sentence is
a list of words. Words are compared as they occur in the training data, without stemming or lower-casing, and no words
are ignored.
"""

import importlib
from collections import Counter
from types import MappingProxyType
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from ..text.subsequences import Text, iterate_matches, rouge_l, rouge_n

Weights = Sequence[Sequence[float]]
"""Weights of the words in each sentence of a text."""
Reward = Callable[[Sequence[Text], Sequence[Text], Sequence[Text]], Sequence[float]]
"""Function that returns a reward for each hypothesis, given the hypotheses, references and documents.

Higher values are better.
"""


def rouge_sal(hypothesis: Text, reference: Text, hypothesis_weights: Weights, reference_weights: Weights) -> float:
    """Compute the F1 score of ROUGE-L with word weights, in [0, 1] (Pasunuru and Bansal 2018, "ROUGESal").

    Words are matched as in :func:`rouge_l`. Precision is the total weight of the matched words in the hypothesis,
    divided by the total weight of all its words. Recall is the same ratio in the reference. If a word is matched n
    times, the weights of its first n occurrences in the hypothesis are used. Weights are non-negative, and their scale
    in a text has no effect.
    """
    hits = list(iterate_matches(hypothesis, reference))
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
        for part, total in ((precise, _sum_weights(hypothesis_weights)), (recalled, _sum_weights(reference_weights)))
    ]
    return 2 * shares[0] * shares[1] / sum(shares) if all(shares) else 0.0


def _sum_weights(weights: Weights) -> float:
    return sum(map(sum, weights))


def _make_pairwise_reward(score: Callable[[Text, Text], float]) -> Reward:
    return lambda hypotheses, references, documents: [score(*pair) for pair in zip(hypotheses, references)]


REWARDS: Dict[str, Reward] = {
    "rouge1": _make_pairwise_reward(lambda hypothesis, reference: rouge_n(hypothesis, reference, 1)),
    "rouge2": _make_pairwise_reward(lambda hypothesis, reference: rouge_n(hypothesis, reference, 2)),
    "rougeL": _make_pairwise_reward(rouge_l),
}
"""Mapping from reward names to functions that compute F1 scores against the reference, in [0, 1]."""


class RougeSalReward:
    """Reward ``rougesal``, the score of :func:`rouge_sal` against the reference.

    Args:
        saliency: function that returns non-negative word weights for a list of sentences.
    """

    def __init__(self, saliency: Callable[[Text], Weights]):
        self.saliency = saliency

    def __call__(self, hypotheses: Sequence[Text], references: Sequence[Text], documents: Any) -> List[float]:
        """Compute the reward of each hypothesis, in [0, 1]."""
        texts = [*hypotheses, *references]
        found = iter(self.saliency([sentence for text in texts for sentence in text]))
        weights = [[next(found) for _ in text] for text in texts]
        return [rouge_sal(*row) for row in zip(hypotheses, references, weights, weights[len(hypotheses) :])]


class EntailmentReward:
    """Reward ``entail``, which measures whether the reference entails the summary (Pasunuru and Bansal 2018).

    For a summary of n sentences s_k, the reward is r = (1/n) Σ_k P(reference entails s_k) · min(cap, words of the
    summary / words of the reference). Without the length ratio, very short summaries would receive the highest rewards,
    because all of their sentences are entailed. The reward of an empty summary is 0.

    Args:
        score: function that returns the probability of entailment for each pair of a premise and a hypothesis, which
            are lists of words.
        length_cap: upper bound of the length ratio, or None for no bound. Without a bound, the reward increases with
            the length of the summary.
    """

    def __init__(self, score: Callable[[Text, Text], Sequence[float]], length_cap: Optional[float] = 1.0):
        self.score, self.length_cap = score, length_cap

    def __call__(self, hypotheses: Sequence[Text], references: Sequence[Text], documents: Any) -> List[float]:
        """Compute the non-negative reward of each hypothesis."""
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


def create_reward(name: str, makers: Mapping[str, Callable[[], Reward]] = MappingProxyType({})) -> Reward:
    """Return the reward with a name of :data:`REWARDS` or ``makers``, or an instance of a class ``module:Class``.

    ``makers`` creates rewards that require additional resources. Raises ValueError if no reward has this name.
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
