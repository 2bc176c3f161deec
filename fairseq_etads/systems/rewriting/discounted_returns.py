"""Functions that compute rewards for selected sentences, discounted returns and standardised returns.

This module does not import torch or fairseq.
"""

import math
from typing import List, Sequence

from ...evaluation.rewards import Text, rouge_l, rouge_n

DISCOUNT = 0.95
_SMALLEST = 1e-7
"""Constant that is added to the standard deviation before dividing by it, so that equal returns become 0."""


def compute_step_rewards(rewritten: Text, reference: Text) -> List[float]:
    """Compute the reward of each step in an episode that ends with the stop action (Chen and Bansal 2018, section 3.1).

    Args:
        rewritten: the rewritten sentences, in the order of their selection.
        reference: the sentences of the reference summary.

    Returns:
        One reward for each sentence, followed by the reward for the stop action. The reward for sentence t is its
        ROUGE-L F1 against sentence t of the reference summary, or 0 if the reference has fewer sentences. The reward
        for the stop action is the ROUGE-1 F1 of all rewritten sentences against the whole reference summary.
    """
    rewards = [rouge_l([words], [reference[t]]) if t < len(reference) else 0.0 for t, words in enumerate(rewritten)]
    return [*rewards, rouge_n(rewritten, reference, 1)]


def compute_discounted_returns(rewards: Sequence[float], discount: float) -> List[float]:
    """Compute the return R_t = r_t + discount R_{t+1} for each step of an episode."""
    returns: List[float] = []
    for reward in reversed(rewards):
        returns.append(reward + discount * (returns[-1] if returns else 0.0))
    return returns[::-1]


def standardise_returns(episodes: Sequence[Sequence[float]]) -> List[List[float]]:
    """Standardise returns to mean 0 and standard deviation 1 over all steps of all episodes.

    The standard deviation is the sample standard deviation, with the number of steps minus 1 in the denominator. A
    single return becomes 0.
    """
    values = [value for episode in episodes for value in episode]
    mean = sum(values) / max(len(values), 1)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / max(len(values) - 1, 1))
    return [[(value - mean) / (deviation + _SMALLEST) for value in episode] for episode in episodes]
