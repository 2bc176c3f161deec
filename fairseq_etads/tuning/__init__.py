"""Choose decoding options on a validation set: the work behind ``etads-tune``.

This module does not import torch, so that ``etads-tune --help`` starts quickly.
"""

METRICS = ("mean", "rouge1", "rouge2", "rougeL")
"""Metrics that can be maximised: the F1 score of a ROUGE metric, or the mean of all three F1 scores."""
METRIC_NAMES = {"mean": "the mean of ROUGE-1, 2 and L", "rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
MERT_METRICS = ("rouge1-recall75", "rouge2-recall75", "rougeL-recall75", *METRICS)
"""Metrics that can be maximised with ``--mert``.

These are the recall of a ROUGE metric in the first 75 bytes (as in DUC-2004), and the F1 scores of whole summaries.
"""
MERT_ROUNDS = 10
STARTING_POINTS = 20
NBEST = 100
TRIALS = 20
MOST_DOCUMENTS = 500
