"""Data preparation for fairseq_etads. The package is installed under the name ``etads_preprocess``."""

from fairseq_etads.platform.interrupts import end_quietly_while_importing

end_quietly_while_importing()
