"""Create the plots of ``etads-analyse`` with matplotlib (extra ``plots``), and define functions for other plots."""

import contextlib
import logging
from pathlib import Path
from typing import Any, Dict, Iterator

from ..files.outputs import make_temporary_output
from .analysis import NGRAM_ORDERS, TENTHS

# The log level is set here, because another library may have lowered the level of the root logger.
logging.getLogger("matplotlib").setLevel(logging.WARNING)
PLOT_SUFFIXES = (".png", ".svg", ".pdf")


def check_matplotlib(what: str) -> None:
    """Raise ValueError if matplotlib is missing. ``what`` is the name of the option that requires it."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ValueError(f"{what}: matplotlib is missing: pip install matplotlib") from None


@contextlib.contextmanager
def make_plots_reproducible() -> Iterator[None]:
    """Context manager that makes plots reproducible and prevents matplotlib from interpreting names as formulas."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "etads", "text.parse_math": False}):
        yield


def save_figure(figure: Any, path: str) -> None:
    """Write a figure to a file, whose suffix determines the format, without a timestamp and only when complete."""
    metadata = {"Date": None} if path.endswith(".svg") else {"CreationDate": None} if path.endswith(".pdf") else {}
    with make_temporary_output(path) as partial:
        figure.savefig(partial, format=Path(path).suffix[1:], metadata=metadata, dpi=150)


def add_legend(figure: Any, labelled: Dict[str, Any], **style: Any) -> None:
    """Add a legend below the panels of a figure, with labels and their lines. ``style`` is for matplotlib."""
    # Some versions of matplotlib omit labels that begin with an underscore, so the labels are inserted afterwards.
    legend = figure.legend(list(labelled.values()), ["label"] * len(labelled), loc="outside lower center", **style)
    for text, label in zip(legend.get_texts(), labelled):
        text.set_text(label)


def _draw_bars(axes: Any, systems: Dict[str, Any], names: Dict[str, str], title: str) -> None:
    """Draw a group of bars for each metric in ``names``, with one bar per system."""
    width = 0.8 / len(systems)
    for number, (system, values) in enumerate(systems.items()):
        places = [place + width * (number - (len(systems) - 1) / 2) for place in range(len(names))]
        axes.bar(places, [values["figures"][name] or 0 for name in names], width, label=system)
    axes.set_xticks(range(len(names)), list(names.values()))
    axes.set_title(title)
    axes.set_ylabel("per cent")


def draw_summary_analysis(systems: Dict[str, Any], path: str) -> None:
    """Plot novel n-grams and sentences (Aggregation Transformer, figure 5), repetition, and origins of copied bigrams.

    Identical values produce identical files. ``systems`` maps names to dictionaries with "figures" and "positions", as
    in :class:`.analysis.Analysis`. The suffix of ``path`` determines the file format.
    """
    # pyplot is not used, because it has global state and may open windows.
    from matplotlib.figure import Figure

    novel = {**{f"novel {n}-grams": f"{n}-grams" for n in NGRAM_ORDERS}, "novel sentences": "sentences"}
    repeated = {f"repeated {n}-grams": f"{n}-grams" for n in NGRAM_ORDERS}
    with make_plots_reproducible():
        figure = Figure(figsize=(15, 4.2), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        _draw_bars(left, systems, novel, "not in the document")
        _draw_bars(middle, systems, repeated, "repeated in the summary")
        labelled = {}
        for name, values in systems.items():
            (labelled[name],) = right.plot(
                range(1, TENTHS + 1), values["positions"], marker="o", markersize=3, label=name
            )
        right.set_title("origin of copied bigrams")
        right.set_xlabel("tenth of the document")
        right.set_ylim(bottom=0)
        add_legend(figure, labelled, ncols=min(len(labelled), 6))
        save_figure(figure, path)
