"""Register all components with fairseq, and ensure that checkpoints are loaded safely.

``--user-dir fairseq_etads`` imports this module.
"""

from . import systems
from .fairseq_fixes import checkpoints, distributed, extend_commands, generation, trainer
from .models import rnn, selector, transformer
from .platform.processes import hide_expected_tracebacks
from .training import losses, optimisers, task

hide_expected_tracebacks()
extend_commands()

systems.register_systems()

__all__ = [
    "checkpoints",
    "distributed",
    "generation",
    "losses",
    "optimisers",
    "rnn",
    "selector",
    "systems",
    "task",
    "trainer",
    "transformer",
]
