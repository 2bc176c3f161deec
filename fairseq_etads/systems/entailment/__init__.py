"""Entailment: Li et al. 2018, "Ensure the correctness of the summary", and the reward of Pasunuru and Bansal 2018.

``auxiliary``  ``--auxiliary-task entailment``: also train the encoder to recognise entailment
``model``      entailment models (Parikh et al. 2016) for the reward ``entail``
"""

from . import auxiliary as auxiliary
