"""Read metrics, such as the loss and the learning rate after each logged update, from a fairseq training log."""

import json
import math
import re
from collections import defaultdict
from pathlib import Path
from typing import DefaultDict, Dict, Iterator, Optional, Tuple

from ..platform.errors import InputError
from ..text.files import get_display_name, read_lines

LOG_NAMES = ("train.log", "hydra_train.log")
"""Names of the log files that ``etads-train`` and ``fairseq-hydra-train`` write to run folders."""

TRAIN = "train"
"""Name of the training series, which contains means over ``--log-interval`` batches.

The name of each validation series is the name of its split.
"""

_EPOCH = "train (epoch)"
# The greedy pattern skips a record that was cut off by an interruption and reads the next record on the same line.
_PREFIX = re.compile(
    r".*(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| [A-Z]+ \| [\w.]+ \| |\[[\d:,. -]+\]\[[\w.]+\]\[[A-Z]+\] - )"
)
_INNER = re.compile(r"epoch \d+: +\d+ / \d+ (.+=.+)$")
_MEANS = re.compile(r"epoch \d+ (?:\| valid on '([^']+)' subset )?\| (.+)$")
_LOADED = re.compile(r"Loaded checkpoint .* @ (\d+) updates\)")

Series = Dict[int, float]
"""Mapping from the number of completed updates to the value of a metric."""


class TrainingLog:
    """Values of all metrics in a training log.

    If training is resumed from a checkpoint, the updates after this checkpoint are repeated. The values from repeated
    updates replace the earlier values.

    Attributes:
        figures: mapping from metric names, such as "loss", to mappings from series names to series. The name of a
            series is TRAIN or the name of a validation set. Values that are not finite are omitted.
    """

    def __init__(self) -> None:
        self.figures: Dict[str, Dict[str, Series]] = {}
        self._found: DefaultDict[str, DefaultDict[str, Series]] = defaultdict(lambda: defaultdict(dict))
        self._last = 0

    def read_line(self, line: str) -> None:
        """Process one line of the log."""
        text = _PREFIX.sub("", line, count=1).strip()
        loaded = _LOADED.match(text)
        if loaded or text.startswith("No existing checkpoint found"):
            self._delete_values_after(int(loaded.group(1)) if loaded else 0)
            return
        for kind, values in _parse_message(text):
            updates = values.pop("num_updates", math.nan)
            if not math.isfinite(updates):
                continue
            if updates < self._last:
                self._delete_values_after(int(updates) - 1)
            self._last = int(updates)
            for name, value in values.items():
                if math.isfinite(value):
                    self._found[name][kind][int(updates)] = value

    def _delete_values_after(self, updates: int) -> None:
        self._last = min(self._last, updates)
        for kinds in self._found.values():
            for kind, series in kinds.items():
                kinds[kind] = {update: value for update, value in series.items() if update <= updates}

    def sort_values(self) -> "TrainingLog":
        """Sort all values by update. Call this method after the last line.

        If a metric is logged only as a mean over each epoch, these means are used.
        """
        for name, kinds in self._found.items():
            epochs = kinds.pop(_EPOCH, {})
            if epochs and not kinds.get(TRAIN):
                kinds[TRAIN] = epochs
            if any(kinds.values()):
                self.figures[name] = {kind: dict(sorted(kinds[kind].items())) for kind in kinds if kinds[kind]}
        return self

    @property
    def validations(self) -> Dict[str, int]:
        """Number of validations on each validation set, keyed by the name of the set."""
        found: Dict[str, int] = {}
        for kinds in self.figures.values():
            for kind, series in kinds.items():
                if kind != TRAIN:
                    found[kind] = max(found.get(kind, 0), len(series))
        return found

    @property
    def updates(self) -> int:
        """Number of the last update for which the log contains values."""
        return max((max(series) for kinds in self.figures.values() for series in kinds.values()), default=0)


def _parse_message(text: str) -> Iterator[Tuple[str, Dict[str, float]]]:
    """Yield the series name and the metric values in a log message, if it contains any.

    The values include the number of updates.
    """
    inner, means = _INNER.match(text), _MEANS.match(text)
    if inner:
        yield TRAIN, _parse_metric_values(part.partition("=") for part in inner.group(1).split(", "))
    elif means:
        yield (
            means.group(1) or _EPOCH,
            _parse_metric_values(part.partition(" ") for part in means.group(2).split(" | ")),
        )
    elif text.startswith('{"epoch"'):  # --log-format json
        try:
            values = json.loads(text)
        except ValueError:
            return
        tag = next((name[: -len("num_updates")] for name in values if name.endswith("num_updates")), "")
        numbers = _parse_metric_values(
            (name[len(tag) :], "", str(values[name])) for name in values if name.startswith(tag)
        )
        yield {"": TRAIN, "train_": _EPOCH}.get(tag, tag[:-1]), numbers


def _parse_metric_values(parts: Iterator[Tuple[str, str, str]]) -> Dict[str, float]:
    """Return a dictionary that maps names to numeric values.

    Parts (name, separator, value) without a number are ignored.
    """
    found = {}
    for name, _, value in parts:
        try:
            found[name.strip()] = float(value)
        except ValueError:
            continue
    return found


def find_log(run: str) -> Path:
    """Return the path of a run's log, given the path of the run folder or of the log itself.

    Raises InputError if the run folder contains no log.
    """
    path = Path(run)
    if not path.is_dir():
        return path
    found: Optional[Path] = next((path / name for name in LOG_NAMES if (path / name).is_file()), None)
    if found is None:
        raise InputError(f"RUN {run}: no {' or '.join(LOG_NAMES)} in this folder; name the log file itself")
    return found


def read_log(path: Path) -> TrainingLog:
    """Read a plain or compressed log, or standard input if ``path`` is ``-``. An incomplete last line is ignored.

    Raises:
        InputError: the file cannot be read or contains no metrics.
    """
    log, lines = TrainingLog(), 0
    for line in read_lines(path, fallback="replace", ends=True):
        lines += bool(line.strip())
        if line.endswith("\n"):
            log.read_line(line.rstrip("\r\n"))
    if not log.sort_values().figures:
        reason = (
            "empty"
            if not lines
            else (
                "no training figures in it: is it a log of fairseq-train, and did training reach its first "
                "--log-interval?"
            )
        )
        raise InputError(f"{get_display_name(path)}: {reason}")
    return log
