"""Data preparation for fairseq_etads. The package is installed under the name ``etads_preprocess``."""
