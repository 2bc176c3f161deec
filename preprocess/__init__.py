"""Data preparation for fairseq_etads. The package is installed under the name ``etads_preprocess``."""

from fairseq_etads.platform.processes import hide_expected_tracebacks

hide_expected_tracebacks()
