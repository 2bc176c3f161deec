"""The ``etads-*`` commands. Each module defines the options and messages of one command.

The work of a command stands in its module, or in the package of its subject if others use it too.
"""

from ..platform.processes import hide_expected_tracebacks

hide_expected_tracebacks()
