"""Data preparation for fairseq_etads, installed under the name ``etads_preprocess``."""
