"""ABS: Rush, Chopra and Weston 2015, "A neural attention model for abstractive sentence summarization".

``options`` and ``model``  ``--arch abs``, a neural language model with attention
``features``               ``--extractive-weights``, search features that favour words from the document

Job: ``tuning/extractive_weights.py`` (``etads-tune --mert``). Command: ``commands/tune.py``.
Recipe: ``scripts/reproduce/abs_gigaword.sh``. Page: ``docs/abs.md``.
Tests: ``tests/unit/systems/abs``, ``tests/e2e/abs_checks.py``.
"""

from . import features as features
from . import model as model
from .options import PRESETS as PRESETS
from .options import TRAINING as TRAINING
