"""Choices and defaults for the options of ``etads-tune``.

Importing this module does not import torch or fairseq.
"""

from typing import Sequence

from ...platform.console import check_positive_options
from ...platform.errors import InputError

METRICS = ("mean", "rouge1", "rouge2", "rougeL")
"""Metrics that can be maximised: the F1 score of a ROUGE metric, or the mean of all three F1 scores."""
METRIC_NAMES = {"mean": "the mean of ROUGE-1, 2 and L", "rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
MERT_METRICS = ("rouge1-recall75", "rouge2-recall75", "rougeL-recall75", *METRICS)
"""Metrics that can be maximised with ``--mert``.

These are the recall of a ROUGE metric in the first 75 bytes (as in DUC-2004), and the F1 scores of whole summaries.
"""
MERT_ROUNDS = 10
MERT_FILE, MERT_REPORT = "mert.jsonl", "mert.json"
STARTING_POINTS = 20
TRIALS = 20
MOST_DOCUMENTS = 500
TRIALS_FILE = "trials.jsonl"


def check_options(metric: str, metrics: Sequence[str] = METRICS, **numbers: int) -> None:
    """Raise InputError if ``metric`` is not in ``metrics``, or if one of the numbers is below 1."""
    if metric not in metrics:
        raise InputError(f"--metric {metric}: choose {', '.join(metrics)}")
    check_positive_options(**numbers)
