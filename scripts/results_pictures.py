#!/usr/bin/env python3
"""Draw the centres of focus-attention and the saliency gates, from the records in results/.

    python scripts/results_pictures.py

It writes docs/pictures/results/attention_CORPUS.svg for docs/results.md, for the first training of etads on each
corpus; the same records give the same file. It needs matplotlib.
"""

from pathlib import Path
from typing import Any, Dict, List

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from results_page import CORPORA, ROOT, attention_of, read_records

from fairseq_etads.evaluation.plots import repeatable, save

TENTHS = [0.05 + 0.1 * part for part in range(10)]
"""Middle of each tenth of a document."""


def draw_focus(axes: Any, figures: Dict[str, List[List[float]]], title: str) -> None:
    """Draw lines for mu / m of each head, over the query's position."""
    axes.plot([0, 1], [0, 1], color="grey", linestyle=":", linewidth=1, label="the query itself")
    for head, (center, scope) in enumerate(zip(figures["center"], figures["scope"]), 1):
        axes.plot(TENTHS, center, label=f"head {head}, scope {sum(scope) / len(scope):.2f}")
    axes.set(title=title, xlim=(0, 1), ylim=(0, 1), xlabel="place of the query in its document")
    axes.set_ylabel("centre of the focus")
    axes.legend(fontsize="small", framealpha=0.6)


def draw_gates(axes: Any, attention: Dict[str, Dict[str, Dict[str, List[float]]]]) -> None:
    """Draw points for the share that each head's gate lets through, before and after."""
    gates = {module: figures["gate"] for module, figures in attention["after"].items() if "gate" in figures}
    labels = []
    for number, module in enumerate(gates):
        for side, figures in enumerate(attention.values()):
            place = 2 * number + side
            axes.scatter([place] * len(figures[module]["gate"]), figures[module]["gate"], color=f"C{side}", s=22)
            labels.append(f"layer {number + 1}\n{'before' if side == 0 else 'after'}")
    axes.set_xticks(range(len(labels)), labels)
    axes.set(title="saliency gate: share let through", ylim=(0, 1))


def draw(attention: Dict[str, Dict[str, Any]], path: Path) -> None:
    """Draw one row before and one after training: the encoder's layers, and next to them the decoder's gates."""
    modules = [module for module, figures in attention["after"].items() if "center" in figures]
    with repeatable():
        figure, grid = plt.subplots(2, len(modules) + 1, figsize=(4.2 * (len(modules) + 1), 7), constrained_layout=True)
        for row, (when, found) in zip(grid, attention.items()):
            for number, (axes, module) in enumerate(zip(row, modules), 1):
                draw_focus(axes, found[module], f"encoder layer {number}, {when} training")
        draw_gates(grid[0][-1], attention)
        grid[1][-1].axis("off")
        save(figure, str(path))
        plt.close(figure)


def main() -> None:
    """Draw all."""
    for corpus in CORPORA:
        attention = attention_of(read_records(ROOT / "results" / corpus), "etads")
        if attention:
            draw(attention, ROOT / "docs" / "pictures" / "results" / f"attention_{corpus}.svg")


if __name__ == "__main__":
    main()
