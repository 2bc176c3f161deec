"""Plot training curves with matplotlib, with one panel for each metric and one colour for each run."""

import math
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .plots import add_legend, make_plots_reproducible, save_figure
from .training_log import TRAIN, Series, TrainingLog

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
    "coverage_loss": "coverage loss",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
}
"""Mapping from metric names in the log to panel titles. The title of any other metric is its name."""
MOST_POINTS = 300
"""Maximum number of points in a curve.

If there are more, neighbouring points are averaged so that the curve remains legible in print.
"""

_LOGARITHMIC = ("ppl",)
_LEAST_RANGE = 4.0
"""Minimum ratio of the largest value to the smallest value for which a logarithmic axis is used."""
_COLUMNS = 3
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")  # Okabe and Ito (2008)
_MARKERS = "osD^vPX*"
_DASHES: Tuple[Any, ...] = ("--", ":", "-.", (0, (1, 1)))


def choose_metrics_to_plot(logs: Sequence[TrainingLog]) -> List[str]:
    """Return the names of the metrics to plot by default, in the order of their panels."""
    found = dict.fromkeys(name for log in logs for name in log.figures)
    shown = [name for name in found if name not in CLOCKS_AND_SIZES and not name.startswith("best_")]
    return [*(name for name in FIRST if name in shown), *(name for name in shown if name not in FIRST)]


def thin_out_curve_points(series: Series, most: int = MOST_POINTS) -> Tuple[List[float], List[float]]:
    """Return the update numbers and the values of the points of a curve.

    If there are more than ``most`` points, neighbouring points are averaged.
    """
    points = list(series.items())
    size = math.ceil(len(points) / most)
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    updates, values = ([sum(point[axis] for point in group) / len(group) for group in groups] for axis in (0, 1))
    return updates, values


def _draw_panel(axes: Any, name: str, logs: Dict[str, TrainingLog], kinds: Dict[str, int]) -> Dict[str, Any]:
    """Plot one metric for all runs; ``kinds`` numbers the validation sets. Returns the lines by their labels."""
    labelled: Dict[str, Any] = {}
    values: List[float] = []
    for number, (run, log) in enumerate(logs.items()):
        for kind, series in log.figures.get(name, {}).items():
            values += series.values()
            label = f"{run}: {'training' if kind == TRAIN else kind}"
            style: Dict[str, Any]
            points, style = thin_out_curve_points(series), {"linewidth": 0.9, "marker": "." if len(series) == 1 else ""}
            if kind != TRAIN:
                points = list(series), list(series.values())
                style = {"linewidth": 1.4, "marker": _MARKERS[number % len(_MARKERS)], "markersize": 4}
                style.update({"linestyle": _DASHES[kinds[kind] % len(_DASHES)], "markerfacecolor": "white"})
                style.update({"markevery": math.ceil(len(series) / 40)})
            (labelled[label],) = axes.plot(*points, color=_COLOURS[number % len(_COLOURS)], label=label, **style)
    axes.set_title(TITLES.get(name, name), fontsize=10)
    axes.grid(color="0.9", linewidth=0.6)
    if name in _LOGARITHMIC and min(values) > 0 and max(values) >= _LEAST_RANGE * min(values):
        axes.set_yscale("log", subs=(2, 5))
        for axis in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            axis("{x:g}")  # plain numbers instead of powers of ten
    axes.tick_params(which="both", labelsize=8)
    return labelled


def draw_curves(logs: Dict[str, TrainingLog], path: str, figures: Optional[Sequence[str]] = None) -> None:
    """Plot metrics against the number of updates. Identical logs produce identical files.

    Args:
        logs: mapping from run names to training logs.
        path: path of the output file. Its suffix determines the file format.
        figures: names of the metrics to plot, each in a separate panel. If None, the metrics returned by
            :func:`choose_metrics_to_plot` are plotted.
    """
    names = list(choose_metrics_to_plot(list(logs.values())) if figures is None else figures)
    kinds = {
        kind: number for number, kind in enumerate(dict.fromkeys(k for log in logs.values() for k in log.validations))
    }
    columns = min(_COLUMNS, len(names))
    rows = math.ceil(len(names) / columns)
    with make_plots_reproducible():
        # pyplot is not used, because it has global state and may open windows.
        from matplotlib.figure import Figure

        figure = Figure(figsize=(4.2 * columns + 0.4, 2.7 * rows + 0.6), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True).flatten()
        labelled: Dict[str, Any] = {}
        for axes, name in zip(grid, names):
            for label, line in _draw_panel(axes, name, logs, kinds).items():
                labelled.setdefault(label, line)
        for axes in grid[len(names) :]:
            axes.set_visible(False)
        for axes in grid[max(len(names) - columns, 0) : len(names)]:
            axes.set_xlabel("updates")
            axes.tick_params(labelbottom=True)
        order = sorted(labelled, key=lambda label: list(logs).index(label.rpartition(": ")[0]))
        columns = min(len(order), 4)
        add_legend(figure, {label: labelled[label] for label in order}, ncols=columns, fontsize=9, frameon=False)
        save_figure(figure, path)
