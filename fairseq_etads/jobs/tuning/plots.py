"""Plot the results of tuning: the metric in each trial, and the metric as a function of each parameter."""

import math
from typing import Any, List

from ...evaluation.plots import make_plots_reproducible, save_figure
from .choices import METRIC_NAMES
from .search_space import Parameter
from .tune import Tuning

_COLUMNS = 3
_ALL, _DEFAULTS, _BEST = "#56b4e9", "#000000", "#d55e00"  # Okabe and Ito (2008)


def _draw_trials(axes: Any, places: List[float], scores: List[float], best: int) -> None:
    """Draw a point for each trial. The trial with the folder's defaults and the best trial are marked."""
    axes.plot(places, scores, "o", color=_ALL, markersize=4, label="trials")
    axes.plot(places[0], scores[0], "D", color=_DEFAULTS, markersize=6, label="folder's defaults (trial 0)")
    if best:
        axes.plot(places[best], scores[best], "*", color=_BEST, markersize=11, label=f"best (trial {best})")
    axes.grid(color="0.9", linewidth=0.6)
    axes.tick_params(labelsize=8)


def _draw_scores_by_parameter(axes: Any, parameter: Parameter, tuning: Tuning, scores: List[float]) -> None:
    found = [trial.settings[parameter.name] for trial in tuning.trials]
    # Plot the values in order and evenly spaced, because the values of some parameters have no numeric scale.
    values = [*parameter.values, *(value for value in dict.fromkeys(found) if value not in parameter.values)]
    values = sorted(values) if parameter.is_ordered else values
    _draw_trials(axes, [values.index(value) for value in found], scores, tuning.best.number)
    step = math.ceil(len(values) / 11)
    shown = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
    axes.set_xticks(range(0, len(values), step), shown[::step])
    axes.set_title(parameter.name.replace("_", "-"), fontsize=10)


def plot_tuning_results(tuning: Tuning, path: str) -> None:
    """Plot the metric of all trials. Identical trials produce identical files.

    Args:
        path: path of the output file. Its suffix determines the file format.
    """
    scores = [trial.score(tuning.metric) for trial in tuning.trials]
    panels = len(tuning.space) + 1
    columns = min(_COLUMNS, panels)
    rows = math.ceil(panels / columns)
    with make_plots_reproducible():
        # pyplot is not used, because it has global state and may open windows.
        from matplotlib.figure import Figure

        figure = Figure(figsize=(4.2 * columns, 2.9 * rows + 0.5), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, sharey=True).flatten()
        numbers = [float(trial.number) for trial in tuning.trials]
        so_far = [max(scores[: number + 1]) for number in range(len(scores))]
        grid[0].step(numbers, so_far, where="post", color="0.6", linewidth=1, label="best so far")
        _draw_trials(grid[0], numbers, scores, tuning.best.number)
        grid[0].set_title("trial", fontsize=10)
        for axes, parameter in zip(grid[1:], tuning.space):
            _draw_scores_by_parameter(axes, parameter, tuning, scores)
        for axes in grid[panels:]:
            axes.set_visible(False)
        for axes in grid[::columns]:
            axes.set_ylabel(METRIC_NAMES[tuning.metric], fontsize=9)
        figure.legend(
            *grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=9, frameon=False
        )
        save_figure(figure, path)
