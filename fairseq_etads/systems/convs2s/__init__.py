"""ConvS2S: Gehring et al. 2017, "Convolutional sequence to sequence learning"; a baseline of Narayan et al. 2018.

``options`` and ``model``  ``--arch convs2s``, ``convs2s_gigaword`` and ``convs2s_cnndm``: fairseq's ``fconv`` with the
                           pointer and the search of this project

This system has no job or command.
Recipes: ``scripts/reproduce/convs2s_cnndm.sh``, ``convs2s_gigaword.sh``, ``convs2s_xsum.sh``.
Page: ``docs/convs2s.md``. Tests: ``tests/unit/systems/convs2s``, ``tests/e2e/test_convs2s_commands.py``.
"""

from . import model as model
from .options import PRESETS as PRESETS
from .options import TRAINING as TRAINING
from .options import TRAININGS as TRAININGS
