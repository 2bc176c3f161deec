"""The ``etads-*`` commands. Each module defines the options and messages of a command.

:mod:`fairseq_etads.jobs` contains the underlying implementations.
"""

from ..platform.interrupts import end_quietly_while_importing

end_quietly_while_importing()
