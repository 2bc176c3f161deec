"""Sentence rewriting: Chen and Bansal 2018, "Fast abstractive summarization with … sentence rewriting".

``model``, ``pointer_network``  ``--arch pointer_extractor``: selects sentences one by one
``criterion``, ``returns``      ``--criterion extractor_rl``: trains the extractor with rewards for rewritten sentences
``abstractor``                  the model that rewrites each selected sentence

Command: ``commands/rewrite.py`` (``etads-rewrite``).
Recipes: ``scripts/reproduce/rewrite_cnndm.sh``, ``sumpubmed_rewrite.sh``. Page: ``docs/rewrite.md``.
Tests: ``tests/unit/systems/rewriting``, ``tests/e2e/test_rewriting_commands.py``.
The architecture ``sentence_rewriter`` is a preset of the core's recurrent family.
"""

from . import criterion as criterion
from . import model as model
from .abstractor import TRAINING_NEEDS as TRAINING_NEEDS
from .abstractor import TRAININGS as TRAININGS
