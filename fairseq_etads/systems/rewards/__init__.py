"""Training with rewards: Paulus et al. 2018, Pasunuru and Bansal 2018, Norouzi et al. 2016.

``self_critical``  ``--criterion summarization_rl``: makes samples with higher rewards than greedy summaries probable;
                   the rewards ``rougesal`` and ``entail`` (the other rewards are in ``evaluation/rewards.py``)
``augmented``      ``--criterion summarization_raml``: trains on randomly edited reference summaries
"""

from . import augmented as augmented
from . import self_critical as self_critical
