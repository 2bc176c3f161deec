"""Choose decoding options on a validation set: the work behind ``etads-tune``.

This module does not import torch, so that ``etads-tune --help`` starts quickly.
"""

import time
from typing import Any, Optional, Sequence

from tqdm import tqdm

from ..platform.console import print_message
from ..platform.errors import InputError

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


def check_options(metric: str, metrics: Sequence[str] = METRICS, **numbers: int) -> None:
    """Raise InputError if ``metric`` is not in ``metrics``, or if one of the numbers is below 1."""
    if metric not in metrics:
        raise InputError(f"--metric {metric}: choose {', '.join(metrics)}")
    for name, number in numbers.items():
        if number < 1:
            raise InputError(f"--{name.replace('_', '-')} {number}: choose 1 or more")


class TuningListener:
    """Listener that shows the progress of a search on standard error: a bar and a line for each trial or round."""

    first: Optional[int] = None

    def __init__(self, metric: str = METRICS[0], quiet: bool = True):
        self.metric, self.quiet = metric, quiet

    def on_message(self, text: str) -> None:
        """Show a message to the user."""
        print_message(text, self.quiet)

    def on_trial_start(self, number: int, trials: int, documents: int) -> None:
        """Called when a trial starts."""
        if self.first is None:
            self.started, self.first = time.monotonic(), number
        self.trials = trials
        self.bar = tqdm(None, f"trial {number}", documents, False, unit=" documents", disable=self.quiet or None)

    def on_documents_summarised(self, documents: int) -> None:
        """Called when ``documents`` more documents have been summarised."""
        self.bar.update(documents)

    def on_trial_end(self, trial: Any, best: Any) -> None:
        """Called at the end of a trial, or of a round in weight tuning. ``best`` is the best trial or round so far."""
        self.bar.close()
        each = (time.monotonic() - self.started) / (trial.number + 1 - (self.first or 0))
        left = each * (self.trials - 1 - trial.number)
        about = f"; about {left / 60:.0f} min left" if left >= 90 else f"; about {left:.0f} s left" if left else ""
        scores = f"{trial.score(self.metric):.2f}, best {best.score(self.metric):.2f} (trial {best.number})"
        self.on_message(f"trial {trial.number}/{self.trials - 1}: {scores}{about}")
