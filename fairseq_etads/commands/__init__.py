"""One module with the options and messages of each ``etads-*`` command. :mod:`fairseq_etads.jobs` does the work."""

from ..platform.interrupts import end_quietly_while_importing

end_quietly_while_importing()
