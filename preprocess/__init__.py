"""Data preparation for fairseq_etads. The package is installed under the name ``etads_preprocess``."""

from fairseq_etads.platform.interrupts import hide_interrupts_while_importing

hide_interrupts_while_importing()
