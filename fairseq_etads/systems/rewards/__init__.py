"""Training with rewards: Paulus et al. 2018, Pasunuru and Bansal 2018, Norouzi et al. 2016.

``self_critical``  ``--criterion summarization_rl``: increases the probability of sampled summaries that have a higher
                   reward than the greedy summary
``augmented``      ``--criterion summarization_raml``: trains on randomly edited reference summaries
``trained``        the rewards ``rougesal`` and ``entail``; the other rewards are in ``evaluation/rewards.py``

This system has no job or command.
Recipes: ``scripts/reproduce/rougesal_cnndm.sh``, ``debian_rewards.sh``, ``debian_headlines.sh``.
Page: ``docs/rewards.md``. Tests: ``tests/unit/systems/rewards``, ``tests/e2e/test_reward_training.py``.
"""

from . import augmented as augmented
from . import self_critical as self_critical
