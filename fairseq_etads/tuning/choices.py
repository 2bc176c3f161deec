"""What ``etads-tune`` lets one choose, and its defaults; without torch and fairseq."""

from ..console import check_positive
from ..text.files import InputError

METRICS = ("mean", "rouge1", "rouge2", "rougeL")
"""F1 of a ROUGE metric, or the mean of the three."""
METRIC_NAMES = {"mean": "the mean of ROUGE-1, 2 and L", "rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
TRIALS = 20
MOST_DOCUMENTS = 500
TRIALS_FILE = "trials.jsonl"


def check_options(metric: str, **numbers: int) -> None:
    """Raise InputError for an unknown metric or a number below 1."""
    if metric not in METRICS:
        raise InputError(f"--metric {metric}: choose {', '.join(METRICS)}")
    check_positive(**numbers)
