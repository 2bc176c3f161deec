"""Rewards of selecting sentences, discounted returns, and their standardisation; without torch and fairseq."""

import math
from typing import List, Sequence

from ...evaluation.rewards import Text, rouge_l, rouge_n

DISCOUNT = 0.95
_SMALLEST = 1e-7
"""Constant added to a deviation before division, so that equal returns become 0."""


def step_rewards(rewritten: Text, reference: Text) -> List[float]:
    """Compute the reward of each step of an episode that ends with a stop (Chen and Bansal 2018, section 3.1).

    Args:
        rewritten: the selected sentences in order, after rewriting.
        reference: the sentences of the summary.

    Returns:
        For sentence t, the ROUGE-L F1 with sentence t of the summary, or 0 if the summary has fewer sentences. For the
        stop, the ROUGE-1 F1 of all rewritten sentences with the whole summary.
    """
    rewards = [rouge_l([words], [reference[t]]) if t < len(reference) else 0.0 for t, words in enumerate(rewritten)]
    return [*rewards, rouge_n(rewritten, reference, 1)]


def discounted(rewards: Sequence[float], discount: float) -> List[float]:
    """Compute the return R_t = r_t + discount R_{t+1} of each step of an episode."""
    returns: List[float] = []
    for reward in reversed(rewards):
        returns.append(reward + discount * (returns[-1] if returns else 0.0))
    return returns[::-1]


def standardised(episodes: Sequence[Sequence[float]]) -> List[List[float]]:
    """Standardise the returns of several episodes to mean 0 and standard deviation 1 over all steps.

    The sample standard deviation is used (divided by the number of steps minus 1). A single return becomes 0.
    """
    values = [value for episode in episodes for value in episode]
    mean = sum(values) / max(len(values), 1)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / max(len(values) - 1, 1))
    return [[(value - mean) / (deviation + _SMALLEST) for value in episode] for episode in episodes]
