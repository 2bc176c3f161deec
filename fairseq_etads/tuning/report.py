"""Report the trials of a search as tables and plots, and state whether the best trial is better than the defaults."""

import csv
import datetime
import warnings
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
from tabulate import tabulate

from ..evaluation.plots import make_plots_reproducible, save_figure
from ..evaluation.rouge import METRICS as ROUGE_METRICS
from ..files.outputs import open_output, write_json
from ..summarizer.folder.model_card import format_command_line_options
from . import METRIC_NAMES
from .tune import Trial, Tuning

LEVEL = 0.05
"""Significance level for p-values, before it is divided by the number of compared trials."""
FIGURES = {"words": "words", "novel 2-grams": "new 2", "repeated 3-grams": "rep. 3", "copy rate": "copied"}
"""Statistics in the terminal table, with their column headings. The files contain all statistics."""


def _compute_rouge_f1(trial: Trial) -> Dict[str, float]:
    means = trial.scores.mean(axis=0).tolist()
    return {"mean": float(np.mean(means)), **dict(zip(ROUGE_METRICS, means))}


def format_markdown_table(tuning: Tuning) -> str:
    """Format the table for a terminal, with the index of the best trial in bold."""
    shown: List[List[Any]] = []
    for trial in tuning.trials:
        number = f"**{trial.number}**" if trial is tuning.best else str(trial.number)
        settings = [f"{value:g}" if isinstance(value, float) else str(value) for value in trial.settings.values()]
        figures = [trial.figures[name] for name in FIGURES]
        shown.append([number, *settings, *_compute_rouge_f1(trial).values(), *figures])
    names = ["trial", *(parameter.name.replace("_", "-") for parameter in tuning.space)]
    heads = [*names, "mean", *(f"R-{metric[5:]}" for metric in ROUGE_METRICS), *FIGURES.values()]
    columns = ["right"] * len(heads)
    texts = [*range(len(names))]
    return tabulate(shown, heads, "pipe", ".2f", missingval="-", disable_numparse=texts, colalign=columns)


def _format_comparison(tuning: Tuning) -> Dict[str, Any]:
    found = tuning.compare_best_with_defaults()
    level = LEVEL / max(len(tuning.trials) - 1, 1)
    return {
        "difference": float(found["difference"]),
        "interval": None if found["interval"] is None else found["interval"].tolist(),
        "p_bootstrap": float(found["p_bootstrap"]),
        "p_randomisation": float(found["p_randomisation"]),
        "level": level,
        "significant": bool(found["p_randomisation"] < level),
    }


def format_conclusion(tuning: Tuning) -> str:
    """Return sentences that state whether the best trial is better than the defaults."""
    best, first, metric = tuning.best, tuning.trials[0], METRIC_NAMES[tuning.metric]
    others = len(tuning.trials) - 1
    low, high = tuning.compute_confidence_interval(best)
    about = f"{best.score(tuning.metric):.2f} [{low:.2f}, {high:.2f}]"
    if best.number == 0:
        return f"The folder's defaults (trial 0) are the best by {metric}: {about}. None of {others} others is better."
    compared = _format_comparison(tuning)
    interval = " [{:+.2f}, {:+.2f}]".format(*compared["interval"]) if compared["interval"] else ""
    text = (
        f"Trial {best.number} is the best by {metric}: {about}. The folder's defaults (trial 0) have "
        f"{first.score(tuning.metric):.2f}; the difference is {compared['difference']:+.2f}{interval}, "
        f"p = {compared['p_randomisation']:.4f} (paired randomisation).\n"
    )
    if compared["significant"]:
        text += f"That is significant even for the best of {others} (p below {compared['level']:.2g})."
    else:
        text += (
            f"That is not significant for the best of {others} (p is not below {compared['level']:.2g}): on other "
            "documents the defaults may be as good or better."
        )
    return text + (
        f"\nIt was chosen on these {tuning.documents:,} documents, so its score on them is optimistic. Report scores "
        "on documents that took no part."
    )


def make_card_note(tuning: Tuning, source: str) -> str:
    """Return a note about the best trial for the model card. ``source`` describes the documents."""
    best, first = tuning.best, tuning.trials[0]
    scores = [trial.score(tuning.metric) for trial in (best, first)]
    return (
        f"Chosen by etads-tune on {datetime.date.today().isoformat()}: trial {best.number} of {len(tuning.trials)} "
        f"(seed {tuning.seed}), the best by {METRIC_NAMES[tuning.metric]} on {tuning.documents:,} of {tuning.given:,} "
        f"documents of `{remove_markdown(source)}` (SHA-256 {tuning.fingerprint[:16]}…): {scores[0]:.2f}, and "
        f"{scores[1]:.2f} with the defaults before, `{format_command_line_options(first.decoding)}`. The first score "
        "is optimistic, because it was chosen on these documents. Scores in other sections were made before.\n\n"
        f"`{tuning.signature}`"
    )


def remove_markdown(text: str) -> str:
    """Remove Markdown and unprintable characters from a text, and truncate it to 100 characters."""
    return "".join(character for character in text if character.isprintable() and character not in "`|<>")[:100]


def write_tables(tuning: Tuning, out: Path) -> None:
    """Write trials.csv and tuning.json, which contain all results except the summaries, to a folder."""
    best = tuning.best
    table = [{"trial": t.number, **t.settings, **_compute_rouge_f1(t), **t.figures} for t in tuning.trials]
    with open_output(out / "trials.csv", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    report = {
        "metric": tuning.metric,
        "seed": tuning.seed,
        "documents": tuning.documents,
        "given": tuning.given,
        "signature": tuning.signature,
        "space": {parameter.name: list(parameter.values) for parameter in tuning.space},
        "best": {
            "trial": best.number,
            "decoding": best.decoding,
            "score": best.score(tuning.metric),
            "interval": list(tuning.compute_confidence_interval(best)),
            "against_defaults": _format_comparison(tuning) if best.number else None,
        },
        "trials": [
            {**row, "decoding": trial.decoding, "seconds": trial.seconds} for row, trial in zip(table, tuning.trials)
        ],
    }
    write_json(out / "tuning.json", report)


def draw_plots(tuning: Tuning, out: Path) -> None:
    """Write Optuna's plots to a folder: the metric by trial (history.png), and by parameter value (tuning.png)."""
    import matplotlib
    import optuna

    matplotlib.use("Agg")  # Optuna draws with pyplot, which may otherwise need a display
    # A study in which each parameter has its values in order, and those that only the defaults have.
    study = optuna.create_study(direction="maximize")
    spaces: Dict[str, optuna.distributions.BaseDistribution] = {}
    for parameter in tuning.space:
        values = dict.fromkeys([*parameter.values, tuning.trials[0].settings[parameter.name]])
        kind = optuna.distributions.CategoricalDistribution
        spaces[parameter.name] = kind(sorted(values) if parameter.is_ordered else list(values))
    for trial in tuning.trials:
        score = trial.score(tuning.metric)
        study.add_trial(optuna.create_trial(params=trial.settings, distributions=spaces, value=score))
    plots = optuna.visualization.matplotlib
    with warnings.catch_warnings(), make_plots_reproducible(), matplotlib.rc_context({"savefig.bbox": "tight"}):
        warnings.simplefilter("ignore")  # the plots are experimental
        for draw, name in ((plots.plot_optimization_history, "history.png"), (plots.plot_slice, "tuning.png")):
            axes: Any = np.atleast_1d(draw(study, target_name=METRIC_NAMES[tuning.metric]))  # type: ignore[arg-type]
            if draw is plots.plot_slice:
                for panel in axes:
                    panel.tick_params(axis="x", labelrotation=90, labelsize=8)
            save_figure(axes[0].figure, str(out / name))
            matplotlib.pyplot.close(axes[0].figure)
