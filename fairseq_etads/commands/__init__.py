"""The ``etads-*`` commands. Each module defines the options and messages of one command.

The work of the commands is implemented in :mod:`fairseq_etads.jobs`.
"""

from ..platform.interrupts import hide_expected_tracebacks

hide_expected_tracebacks()
