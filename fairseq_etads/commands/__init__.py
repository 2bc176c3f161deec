"""One module per ``etads-*`` command: options and messages. The work is in :mod:`fairseq_etads.jobs` and below."""

from ..platform.interrupts import end_quietly_while_importing

end_quietly_while_importing()
