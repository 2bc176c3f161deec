"""Beam search: settings, scores, hypotheses, ensembles and inference copies of models."""
