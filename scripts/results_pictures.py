#!/usr/bin/env python3
"""Draw the pictures of docs/results.md from the records in results/.

    python scripts/results_pictures.py

The script writes docs/pictures/results/claims.svg (the difference and interval behind each claim) and
attention_CORPUS.svg (the centres of focus-attention and the shares of attention that pass the saliency gate, for the
first training run of etads on each corpus). The same records always result in the same files. The script requires
matplotlib.
"""

from pathlib import Path
from typing import Any, Dict, List

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from results_comparisons import CORPORA, Comparison, Records, compare_systems, get_rouge_scores, read_records
from results_page import ROOT, get_attention_statistics

from fairseq_etads.evaluation.plots import make_plots_reproducible, save_figure

TENTHS = [0.05 + 0.1 * part for part in range(10)]
"""Middle of each tenth of a document."""


def draw_focus_centers(axes: Any, figures: Dict[str, List[List[float]]], title: str) -> None:
    """Draw mu / m as a function of the query's position, with one line per head."""
    axes.plot([0, 1], [0, 1], color="grey", linestyle=":", linewidth=1, label="the query itself")
    for head, (center, scope) in enumerate(zip(figures["center"], figures["scope"]), 1):
        axes.plot(TENTHS, center, label=f"head {head}, scope {sum(scope) / len(scope):.2f}")
    axes.set(title=title, xlim=(0, 1), ylim=(0, 1), xlabel="place of the query in its document")
    axes.set_ylabel("centre of the focus")
    axes.legend(fontsize="small", framealpha=0.6)


def draw_gates(axes: Any, attention: Dict[str, Dict[str, Dict[str, List[float]]]]) -> None:
    """Draw the share of the attention that passes the gate in each head, before and after training, as points."""
    gates = {module: figures["gate"] for module, figures in attention["after"].items() if "gate" in figures}
    labels = []
    for number, module in enumerate(gates):
        for side, figures in enumerate(attention.values()):
            place = 2 * number + side
            axes.scatter([place] * len(figures[module]["gate"]), figures[module]["gate"], color=f"C{side}", s=22)
            labels.append(f"layer {number + 1}\n{'before' if side == 0 else 'after'}")
    axes.set_xticks(range(len(labels)), labels)
    axes.set(title="saliency gate: share let through", ylim=(0, 1))


def draw_attention(attention: Dict[str, Dict[str, Any]], path: Path) -> None:
    """Draw the focus in each encoder layer, before training (first row) and after it, and the gates of the decoder."""
    modules = [module for module, figures in attention["after"].items() if "center" in figures]
    with make_plots_reproducible():
        figure, grid = plt.subplots(2, len(modules) + 1, figsize=(4.2 * (len(modules) + 1), 7), constrained_layout=True)
        for row, (when, found) in zip(grid, attention.items()):
            for number, (axes, module) in enumerate(zip(row, modules), 1):
                draw_focus_centers(axes, found[module], f"encoder layer {number}, {when} training")
        draw_gates(grid[0][-1], attention)
        grid[1][-1].axis("off")
        save_figure(figure, str(path))
        plt.close(figure)


def estimate_seed_noise_threshold(systems: Records) -> float:
    """Estimate the difference in mean ROUGE that two training runs of a system exceed in only 5 % of cases."""
    levels = [get_rouge_scores(records)[:, :, 3].mean(axis=1) for records in systems.values() if len(records) > 1]
    freedom = sum(len(level) - 1 for level in levels)
    variance = sum(level.var(ddof=1) * (len(level) - 1) for level in levels) / freedom
    return float(1.96 * np.sqrt(2 * variance))


def draw_claims(found: List[Comparison], records: Dict[str, Records], path: Path) -> None:
    """Draw a forest plot with a panel for each corpus and a row for each claim.

    A point is filled if there are enough training runs for a verdict.
    """
    with make_plots_reproducible():
        figure, panels = plt.subplots(1, len(records), figsize=(7.5 * len(records), 8.5), constrained_layout=True)
        for axes, (corpus, systems) in zip(panels, records.items()):
            rows = [comparison for comparison in found if comparison.corpus == corpus]
            band = estimate_seed_noise_threshold(systems)
            axes.axvspan(-band, band, color="0.9", label="two trainings of one system (95 %)")
            axes.axvline(0, color="0.5", linewidth=1)
            for place, comparison in enumerate(rows):
                mean = comparison.scores[3]
                fill = "C0" if comparison.is_decidable else "white"
                axes.plot([mean.low, mean.high], [place, place], color="C0", zorder=2)
                axes.scatter(mean.value, place, color=fill, edgecolor="C0", zorder=3)
                if comparison.claim.published is not None:
                    axes.scatter(comparison.claim.published, place, marker="D", color="C3", zorder=3)
            axes.scatter([], [], color="C0", label="three trainings or more a side")
            axes.scatter([], [], color="white", edgecolor="C0", label="a single training a side: no verdict")
            axes.scatter([], [], marker="D", color="C3", label="published size")
            axes.set_yticks(
                range(len(rows)), [f"{row.claim.paper}: {row.claim.text}" for row in rows], fontsize="small"
            )
            axes.set(title=CORPORA[corpus], xlabel="difference in mean ROUGE, with 95 % interval", ylim=(len(rows), -1))
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize="small")
        save_figure(figure, str(path))
        plt.close(figure)


def main() -> None:
    """Draw all pictures."""
    records = {corpus: read_records(ROOT / "results" / corpus) for corpus in CORPORA}
    pictures = ROOT / "docs" / "pictures" / "results"
    draw_claims(compare_systems(ROOT / "results", records), records, pictures / "claims.svg")
    for corpus, systems in records.items():
        attention = get_attention_statistics(systems, "etads")
        if attention:
            draw_attention(attention, pictures / f"attention_{corpus}.svg")


if __name__ == "__main__":
    main()
