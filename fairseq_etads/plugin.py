"""Register all components with fairseq, and ensure that checkpoints are loaded safely.

``--user-dir fairseq_etads`` imports this module.
"""

from .fairseq_fixes import compat, distributed
from .platform.interrupts import hide_expected_tracebacks

hide_expected_tracebacks()
compat.install_patches()
distributed.install_patches()

from . import systems  # noqa: E402
from .models import rnn, selector, transformer  # noqa: E402
from .training import lazy_optimisers, losses, muon, schedulers, selection, task  # noqa: E402

systems.register_systems()

__all__ = [
    "compat",
    "distributed",
    "lazy_optimisers",
    "losses",
    "muon",
    "rnn",
    "schedulers",
    "selection",
    "selector",
    "systems",
    "task",
    "transformer",
]
