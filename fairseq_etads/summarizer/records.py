"""Summarise batches of records inside an engine that distributes data, such as Ray Data or Spark."""

from typing import Any, Dict, Mapping, Optional

import numpy as np

from .summarizer import Summarizer


class RecordSummarizer:
    """Summariser for batches of records, for ``ray.data.Dataset.map_batches`` (docs/scale.md).

    The engine creates an instance in each worker, which loads the model once. The engine also distributes the records,
    restarts workers that have stopped, and passes their batches to other workers.

    Args:
        folder: model folder that every worker can read, or name of a model that comes with the package.
        column: name of the column with the texts.
        device: name of a device such as "cuda"; None: a GPU if one is visible to the worker.
        options: options of :meth:`Summarizer.stream`: decoding options and ``max_tokens``.

    Raises:
        InputError: the folder or an option is invalid.
    """

    def __init__(self, folder: str, column: str = "text", device: Optional[str] = None, **options: Any):
        self.column, self.options = column, options
        self.summarizer = Summarizer.load(folder, device)
        self.summarizer.stream([], **options)  # raise the error for an invalid option before the first batch

    def __call__(self, batch: Mapping[str, Any]) -> Dict[str, Any]:
        """Add three columns to a batch.

        Args:
            batch: columns of the same length, as a dictionary from names to arrays or as a data frame of pandas.

        Returns:
            ``batch`` with the columns "summary", "score" and "problem". The last explains why there is no summary;
            otherwise it is empty. A text that cannot be summarised does not affect other texts.

        Raises:
            KeyError: there is no such column.
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
