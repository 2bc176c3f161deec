"""The command ``etads-plot`` (train): plot training curves.

A log of fairseq is read for its metrics, such as the loss and the learning rate after each logged update. Each metric
has a panel, and each run a colour.
"""

import contextlib
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ..evaluation.analysis import PLOT_SUFFIXES, add_legend, check_matplotlib, make_plots_reproducible, save_figure
from ..files.inputs import get_display_name, read_lines
from ..files.outputs import check_output_paths
from ..platform.command_options import argument, option, options_command
from ..platform.console import escape_unprintable
from ..platform.errors import InputError
from .shared_options import parse_file_name, print_warnings

DEFAULT_NAME = "curves.png"
LOG_NAMES = ("train.log", "hydra_train.log")
"""Names of the log files that ``etads-train`` and ``fairseq-hydra-train`` write to run folders."""

TRAIN = "train"
"""Name of the series of means over ``--log-interval`` batches. A validation series is named like its split."""
_EPOCH = "train (epoch)"
# The greedy pattern skips a record that was cut off by an interruption and reads the next record on the same line.
_PREFIX = re.compile(
    r".*(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| [A-Z]+ \| [\w.]+ \| |\[[\d:,. -]+\]\[[\w.]+\]\[[A-Z]+\] - )"
)
_INNER = re.compile(r"epoch \d+: +\d+ / \d+ (.+=.+)$")
_MEANS = re.compile(r"epoch \d+ (?:\| valid on '([^']+)' subset )?\| (.+)$")
_LOADED = re.compile(r"Loaded checkpoint .* @ (\d+) updates\)")

FIRST = ("loss", "nll_loss", "ppl", "lr", "gnorm")
"""Metrics that are plotted first, in the order of their panels."""
CLOCKS_AND_SIZES = frozenset({"wps", "ups", "wpb", "bsz", "wall", "train_wall", "epoch", "update", "gb_free"})
"""Metrics about the machine and the batches, which are plotted only on request."""
TITLES = {
    "nll_loss": "negative log-likelihood (bits per word)",
    "nll_per_summary": "negative log-likelihood (bits per summary)",
    "ppl": "perplexity",
    "lr": "learning rate",
    "gnorm": "gradient norm",
    "clip": "updates with a clipped gradient (%)",
    "p_gen": "probability of generating",
    "copied": "share of copied words",
}
"""Mapping from metric names in the log to panel titles. The title of any other metric is its name."""
MOST_POINTS = 300
"""Points in a curve from which neighbouring points are averaged, so that the curve remains legible in print."""
_LOGARITHMIC = ("ppl",)
_LEAST_RANGE = 4.0
"""Minimum ratio of the largest value to the smallest value for which a logarithmic axis is used."""
_COLUMNS = 3
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")  # Okabe and Ito (2008)
_MARKERS = "osD^vPX*"

Series = Dict[int, float]
"""Mapping from the number of completed updates to the value of a metric."""


@dataclass
class PlotOptions:
    """Options of ``etads-plot``."""

    runs: List[str] = argument("RUN", "run folder or log file", nargs="+")
    out: Optional[str] = option(
        None,
        f"output file for the plot, ending in .png, .svg or .pdf (default: {DEFAULT_NAME} next to the first log)",
        metavar="FILE",
        parse=parse_file_name(*PLOT_SUFFIXES),
    )
    figures: Optional[List[str]] = option(
        None,
        "comma-separated names of the logged values to plot, including values omitted by default, such as wps or "
        "wall (default: all values that describe the model)",
        metavar="LIST",
        parse=lambda text: list(dict.fromkeys(text.split(","))),
    )


class TrainingLog:
    """Finite values of all metrics in a training log.

    If training is resumed from a checkpoint, the updates after this checkpoint are repeated, and their values replace
    the earlier values.
    """

    def __init__(self) -> None:
        # by metric, such as "loss", and name of the series: TRAIN, or the name of a validation set
        self.figures: Dict[str, Dict[str, Series]] = {}
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
                    self.figures.setdefault(name, {}).setdefault(kind, {})[int(updates)] = value

    def _delete_values_after(self, updates: int) -> None:
        self._last = min(self._last, updates)
        for kinds in self.figures.values():
            for kind, series in kinds.items():
                kinds[kind] = {update: value for update, value in series.items() if update <= updates}

    def sort_values(self) -> "TrainingLog":
        """Sort all values by update after the last line. Means over each epoch serve metrics without other means."""
        for kinds in self.figures.values():
            epochs = kinds.pop(_EPOCH, {})
            if epochs and not kinds.get(TRAIN):
                kinds[TRAIN] = epochs
        self.figures = {
            name: {kind: dict(sorted(series.items())) for kind, series in kinds.items() if series}
            for name, kinds in self.figures.items()
            if any(kinds.values())
        }
        return self

    @property
    def validations(self) -> Dict[str, int]:
        """Number of validations on each validation set, by the name of the set."""
        found: Dict[str, int] = {}
        for kind, series in (item for kinds in self.figures.values() for item in kinds.items() if item[0] != TRAIN):
            found[kind] = max(found.get(kind, 0), len(series))
        return found


def _parse_message(text: str) -> Iterator[Tuple[str, Dict[str, float]]]:
    """Yield the series name and the metric values in a log message, with the number of updates, if it contains any."""
    inner, means = _INNER.match(text), _MEANS.match(text)
    if inner:
        yield TRAIN, _parse_metric_values(part.partition("=") for part in inner.group(1).split(", "))
    elif means:
        values = _parse_metric_values(part.partition(" ") for part in means.group(2).split(" | "))
        yield means.group(1) or _EPOCH, values
    elif text.startswith('{"epoch"'):  # --log-format json
        try:
            found = json.loads(text)
        except ValueError:
            return
        tag = next((name[: -len("num_updates")] for name in found if name.endswith("num_updates")), "")
        tagged = ((name[len(tag) :], "", str(value)) for name, value in found.items() if name.startswith(tag))
        yield {"": TRAIN, "train_": _EPOCH}.get(tag, tag[:-1]), _parse_metric_values(tagged)


def _parse_metric_values(parts: Iterator[Tuple[str, str, str]]) -> Dict[str, float]:
    """Return the numeric values by name. Parts (name, separator, value) without a number are ignored."""
    found = {}
    for name, _, value in parts:
        with contextlib.suppress(ValueError):
            found[name.strip()] = float(value)
    return found


def read_log(path: Path) -> TrainingLog:
    """Read a log. An incomplete last line is ignored. Raises InputError if it contains no metrics."""
    log, lines = TrainingLog(), 0
    for line in read_lines(path, fallback="replace", ends=True):
        lines += bool(line.strip())
        if line.endswith("\n"):
            log.read_line(line.rstrip("\r\n"))
    if not log.sort_values().figures:
        doubt = "is it a log of fairseq-train, and did training reach its first --log-interval?"
        reason = f"no training figures in it: {doubt}" if lines else "empty"
        raise InputError(f"{get_display_name(path)}: {reason}")
    return log


def _draw_panel(axes: Any, name: str, logs: Dict[str, TrainingLog]) -> Dict[str, Any]:
    """Plot one metric for all runs, each in its colour. Returns the lines by their labels."""
    labelled: Dict[str, Any] = {}
    values: List[float] = []
    for number, (run, log) in enumerate(logs.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        for kind, series in log.figures.get(name, {}).items():
            values += series.values()
            points, label = np.array(list(series.items())), f"{run}: {'training' if kind == TRAIN else kind}"
            style: Dict[str, Any] = {"linewidth": 0.9, "marker": "." if len(points) == 1 else ""}
            if kind != TRAIN:
                place = list(log.validations).index(kind)
                style = {"linewidth": 1.4, "marker": _MARKERS[place % len(_MARKERS)], "markersize": 4}
                style.update(linestyle="--", markerfacecolor="white", markevery=math.ceil(len(points) / 40))
            elif len(points) > MOST_POINTS:
                points = np.array([part.mean(axis=0) for part in np.array_split(points, MOST_POINTS)])
            (labelled[label],) = axes.plot(*points.T, color=colour, label=label, **style)
    axes.set_title(TITLES.get(name, name.replace("_", " ")), fontsize=10)
    axes.grid(color="0.9", linewidth=0.6)
    if name in _LOGARITHMIC and min(values) > 0 and max(values) >= _LEAST_RANGE * min(values):
        axes.set_yscale("log", subs=(2, 5))
        for axis in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            axis("{x:g}")  # plain numbers instead of powers of ten
    axes.tick_params(which="both", labelsize=8)
    return labelled


def draw_curves(logs: Dict[str, TrainingLog], path: str, names: Sequence[str]) -> None:
    """Plot each metric in ``names`` against the number of updates, in a panel of its own, for logs by names of runs."""
    columns = min(_COLUMNS, len(names))
    rows = math.ceil(len(names) / columns)
    with make_plots_reproducible():
        # pyplot is not used, because it has global state and may open windows.
        from matplotlib.figure import Figure

        figure = Figure(figsize=(4.2 * columns + 0.4, 2.7 * rows + 0.6), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True).flatten()
        labelled: Dict[str, Any] = {}
        for axes, name in zip(grid, names):
            labelled = {**_draw_panel(axes, name, logs), **labelled}
        for axes in grid[len(names) :]:
            axes.set_visible(False)
        for axes in grid[max(len(names) - columns, 0) : len(names)]:
            axes.set_xlabel("updates")
            axes.tick_params(labelbottom=True)
        labelled = {label: labelled[label] for label in sorted(labelled)}
        add_legend(figure, labelled, ncols=min(len(labelled), 4), fontsize=9, frameon=False)
        save_figure(figure, path)


def _read_logs(runs: Sequence[str]) -> Dict[str, TrainingLog]:
    """Read the log of each run. If several are given, runs without values to plot are left out with a warning."""
    logs: Dict[str, TrainingLog] = {}
    for run in runs:
        found = [path for path in (Path(run) / name for name in LOG_NAMES) if path.is_file()]
        if Path(run).is_dir() and not found:
            raise InputError(f"RUN {run}: no {' or '.join(LOG_NAMES)} in this folder; name the log file itself")
        try:
            logs[escape_unprintable(run)] = read_log(found[0] if found else Path(run))
        except InputError as error:
            if len(runs) == 1:
                raise
            print_warnings("etads-plot", [f"{error}; left out"])
    if not logs:
        raise InputError(f"none of the {len(runs)} logs contains training figures")
    return logs


def _describe_run(name: str, log: TrainingLog) -> str:
    """Describe a run in one line, with the number of updates and validations and the lowest validation loss."""
    last = max(max(series) for kinds in log.figures.values() for series in kinds.values())
    said = [f"{last:,} updates"]
    for kind, count in log.validations.items():
        losses = log.figures.get("loss", {}).get(kind, {})
        best = min(losses, key=losses.__getitem__, default=None)
        lowest = "" if best is None else f", lowest loss {losses[best]:g} after update {best:,}"
        said.append(f"{count:,} validation{'s' if count > 1 else ''} on {kind}{lowest}")
    return f"{name}: {'; '.join(said)}"


@options_command(
    "etads-plot",
    PlotOptions,
    ValueError,
    description="Plot the values in training logs as curves. Examples of such values are the loss, the perplexity, "
    "the learning rate and the gradient norm.",
    epilog=f"""\
examples:
  etads-plot runs/etads                                    # writes runs/etads/{DEFAULT_NAME}
  etads-plot runs/etads runs/basic --out comparison.pdf    # two runs in the same panels
  etads-plot train.log --figures loss,ppl,rouge2 --out few.png

  RUN is a run folder of etads-train or fairseq-hydra-train, or a log file of fairseq-train (--log-file, or its
  output; --log-format simple or json), plain or compressed; - is standard input. Each value has its own panel, with a
  line for training and marked points for each validation set. If training was resumed, later values replace earlier
  ones. In curves with more than {MOST_POINTS} points, neighbouring points are averaged. The command needs matplotlib
  (pip install matplotlib).""",
)
def main(args: PlotOptions) -> None:
    """Run the command ``etads-plot``."""
    first = Path(args.runs[0])
    out = args.out or str((first if first.is_dir() else first.parent) / DEFAULT_NAME)
    check_output_paths({"--out": out}, {"RUN": args.runs})
    check_matplotlib("--out")
    logs = _read_logs(args.runs)
    known = dict.fromkeys(name for log in logs.values() for name in log.figures)
    shown = [name for name in known if name not in CLOCKS_AND_SIZES and not name.startswith("best_")]
    names = args.figures or sorted(shown, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    for name in names:
        if name not in known:
            raise InputError(f'--figures "{name}": not in the log; choose from {", ".join(known)}')
    draw_curves(logs, out, names)
    for name, log in logs.items():
        print(_describe_run(name, log))
    print(f"curves: {escape_unprintable(out)}")
