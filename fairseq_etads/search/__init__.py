"""Beam search: settings, scores, hypotheses, ensembles and copies of models for inference."""
