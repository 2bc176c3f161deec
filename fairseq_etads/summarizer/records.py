"""Summarise batches of records in a distributed data processing engine, such as Ray Data or Spark."""

from typing import Any, Dict, Mapping, Optional

import numpy as np

from .summarizer import Summarizer


class RecordSummarizer:
    """Callable for ``ray.data.Dataset.map_batches`` that summarises batches of records (see docs/scale.md).

    The engine creates one instance in each worker, so each worker loads the model only once. The engine also
    distributes the records. If a worker stops, the engine restarts it and reassigns its batches.

    Args:
        folder: path of a model folder that all workers can read, or the name of a bundled model.
        column: name of the column that contains the texts.
        device: name of a device, such as "cuda". By default, a GPU is used if one is visible to the worker.
        options: decoding options and ``max_tokens``, as in :meth:`Summarizer.stream`.

    Raises:
        InputError: the model folder or an option is invalid.
    """

    def __init__(self, folder: str, column: str = "text", device: Optional[str] = None, **options: Any):
        self.column, self.options = column, options
        self.summarizer = Summarizer.load(folder, device)
        self.summarizer.stream([], **options)  # raise an error about an invalid option before the first batch

    def __call__(self, batch: Mapping[str, Any]) -> Dict[str, Any]:
        """Summarise the texts in a batch, columns of equal length in a dictionary of arrays or a pandas DataFrame.

        Returns ``batch`` with the additional columns "summary", "score" and "problem", the reason if a text cannot be
        summarised, or an empty string. A problem with one text does not affect other texts. Raises KeyError if the
        batch does not contain the column of texts.
        """
        if self.column not in batch:
            raise KeyError(f"no column {self.column!r} with texts; choose from: {', '.join(map(repr, batch))}")
        found = list(self.summarizer.stream(list(batch[self.column]), errors="keep", **self.options))
        return {
            **{name: batch[name] for name in batch},
            "summary": np.array([summary.text for summary in found], dtype=object),
            "score": np.array([summary.score for summary in found]),
            "problem": np.array([summary.problem for summary in found], dtype=object),
        }
