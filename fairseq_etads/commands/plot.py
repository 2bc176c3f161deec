"""The command ``etads-plot``: plot training curves from the logs of one or more runs."""

import argparse
import sys
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from ..evaluation.curves import MOST_POINTS, draw_curves
from ..evaluation.plots import PLOT_SUFFIXES, check_matplotlib
from ..evaluation.training_log import TRAIN, TrainingLog, find_log, read_log
from ..platform.console import Parser, command, escape_unprintable
from ..platform.errors import InputError
from ..platform.outputs import check_output_paths
from ..text.files import STANDARD_INPUT
from .scoring_options import check_writable, print_warnings

DEFAULT_NAME = "curves.png"


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-plot",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Plot the values in training logs as curves. Examples of such values are the loss, the perplexity, "
        "the learning rate and the gradient norm.",
        epilog=f"""\
examples:
  etads-plot runs/etads                                    # writes runs/etads/{DEFAULT_NAME}
  etads-plot runs/etads runs/basic --out comparison.pdf    # two runs in the same panels
  etads-plot train.log --figures loss,ppl,rouge2 --out few.png

  RUN is a run folder of etads-train or fairseq-hydra-train, or a log file of fairseq-train (--log-file, or its
  output; --log-format simple or json), plain or compressed; - is standard input. Each value is drawn in its own panel
  against the number of updates, with a line for training and marked points for each validation set. If training was
  resumed from a checkpoint, later values replace earlier ones. Neighbouring points are averaged in curves with more
  than {MOST_POINTS} points. The command needs matplotlib (pip install matplotlib).""",
    )
    add = parser.add_argument
    add("runs", metavar="RUN", nargs="+", help="run folder or log file")
    add(
        "--out",
        metavar="FILE",
        help=f"output file for the plot, ending in .png, .svg or .pdf (default: {DEFAULT_NAME} next to the first log)",
    )
    add(
        "--figures",
        metavar="LIST",
        help="comma-separated names of the logged values to plot, including values omitted by default, such as wps or "
        "wall (default: all values that describe the model)",
    )
    return parser


def make_legend_labels(runs: Sequence[str]) -> List[str]:
    """Return a unique legend label for each run. A label consists of the last components of the path."""
    parts = [Path(run).parts or (run,) for run in runs]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(runs):
            return names
    raise InputError(f"RUN {next(run for run, part in zip(runs, parts) if parts.count(part) > 1)} is given twice")


def _read_logs(runs: Sequence[str]) -> Dict[str, TrainingLog]:
    """Read the log of each run. If several are given, runs without values to plot are left out with a warning."""
    logs: Dict[str, TrainingLog] = {}
    for name, given in zip(make_legend_labels(runs), runs):
        path = find_log(given)
        if str(path) != STANDARD_INPUT and not path.is_file():
            raise InputError(f"RUN {given}: no such file or folder")
        try:
            logs[escape_unprintable(name)] = read_log(path)
        except InputError as error:
            if len(runs) == 1:
                raise
            print_warnings("etads-plot", [f"{error}; left out"])
    if not logs:
        raise InputError(f"none of the {len(runs)} logs contains training figures")
    return logs


def _parse_metric_names(text: Optional[str], logs: Dict[str, TrainingLog]) -> Optional[List[str]]:
    """Return the metric names in --figures. Raises InputError if a metric does not occur in any log."""
    if text is None:
        return None
    names = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    known = list(dict.fromkeys(name for log in logs.values() for name in log.figures))
    for name in names:
        if name not in known:
            raise InputError(f'--figures "{name}": not in the log; choose from {", ".join(known)}')
    if not names:
        raise InputError(f"--figures: choose from {', '.join(known)}")
    return names


def _describe_run(name: str, log: TrainingLog) -> str:
    """Describe a run in one line, with the number of updates and validations and the lowest validation loss."""
    said = [f"{log.updates:,} updates"]
    for kind, count in log.validations.items():
        about = f"{count:,} validation{'s' if count > 1 else ''} on {kind}"
        losses = log.figures.get("loss", {}).get(kind)
        if losses:
            best = min(losses, key=lambda update: losses[update])
            about += f", lowest loss {losses[best]:g} after update {best:,}"
        said.append(about)
    if not log.validations:
        said.append("no validation in the log: plotting training only")
    if not any(TRAIN in kinds for kinds in log.figures.values()):
        said.append("no training figures in the log: plotting validation only")
    return f"{name}: {'; '.join(said)}"


@command(_build_parser, ValueError)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-plot``."""
    first = Path(args.runs[0])
    beside = first if first.is_dir() else first.parent
    out = args.out or str(beside / DEFAULT_NAME)
    check_writable("--out", out, *PLOT_SUFFIXES)
    check_output_paths({"--out": out}, {"RUN": args.runs})
    check_matplotlib("--out")
    logs = _read_logs(args.runs)
    draw_curves(logs, out, _parse_metric_names(args.figures, logs))
    for name, log in logs.items():
        print(_describe_run(name, log))
    print(f"curves: {escape_unprintable(out)}")


if __name__ == "__main__":
    sys.exit(main())
