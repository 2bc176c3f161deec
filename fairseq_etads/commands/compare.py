"""The command ``etads-compare`` (evaluate): test whether one system is better than another."""

import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..data.run_record import CHECKPOINTS
from ..evaluation import other_scores
from ..evaluation.other_scores import ScoreOptions
from ..evaluation.resampling import (
    assign_family_indices,
    compare_pairs,
    compare_systems_over_runs,
    count_resampling_units,
)
from ..evaluation.rouge import FIGURES, align_columns, format_interval, score_pairs
from ..files.inputs import STANDARD_INPUT, read_lines
from ..files.outputs import check_output_paths, write_json
from ..platform.command_options import SIZE, argument, option, options_command
from ..platform.errors import InputError
from ..version import get_version
from . import shared_options
from .likelihood import LikelihoodOptions, check_comparable, compute_split_likelihoods
from .shared_options import ScoringOptions, prepared_option

RESAMPLES = 10_000
LIKELIHOOD = "log-likelihood"
FEW = 10
"""Number of documents or families below which the bootstrap's intervals are much too narrow."""
Scores = Tuple[List[str], np.ndarray, List[str]]
"""Metrics, scores of the training runs of both systems, shape (runs, documents, metrics), and their signatures."""


@dataclass
class CompareOptions(ScoringOptions, ScoreOptions):
    """Options of ``etads-compare``."""

    files: List[str] = argument(
        "FILE",
        "files containing the summaries of the first system (A), the summaries of the second system (B) and the "
        "reference summaries (REF), one per line",
        nargs="*",
    )
    a: List[str] = option(
        [],
        "files containing the summaries of the first system, one file per training run; with --likelihood, the run "
        "folders of this system",
        metavar="A",
        nargs="+",
        requires={"--b": "give both or neither"},
    )
    b: List[str] = option(
        [],
        "files containing the summaries of the second system, one file per training run; with --likelihood, the run "
        "folders of this system",
        metavar="B",
        nargs="+",
        requires={"--a": "give both or neither"},
    )
    figure: str = option("f1", "type of ROUGE score to compare", choices=tuple(FIGURES))
    families: Optional[str] = option(
        None, "file containing the family of each document, one per line; text after a tab is ignored", metavar="FILE"
    )
    likelihood: bool = option(
        False,
        "compare run folders of etads-train by the likelihood of the references rather than by scores of summaries; "
        "likelihoods that are missing are computed first, as by etads-likelihood",
        group="likelihoods",
    )
    subset: str = option(
        "test", "split that contains the references", metavar="NAME", group="likelihoods", needs=("--likelihood",)
    )
    checkpoint: str = option(
        "best", "checkpoint of each run to evaluate", choices=CHECKPOINTS, group="likelihoods", needs=("--likelihood",)
    )
    prepared: Optional[Path] = prepared_option(
        "the prepared data of each run", group="likelihoods", needs=("--likelihood",)
    )
    bootstrap: int = option(RESAMPLES, "number of bootstrap resamples", bounds=SIZE)


def _assign_files_to_systems(args: CompareOptions) -> None:
    """Divide the arguments into files of system A (--a), of system B (--b), and of references (FILE)."""
    if not args.a:
        args.a, args.b, args.files = args.files[:1], args.files[1:2], args.files[2:]
    if not args.b:
        missing = "RUN_A, RUN_B" if args.likelihood else "A, B, REF"
        raise InputError(f"the following arguments are required: {missing}")
    for flag, names in (("--a", args.a), ("--b", args.b)):
        paths = [os.path.realpath(name) for name in names]
        for name, path in zip(names, paths):
            if name != STANDARD_INPUT and paths.count(path) > 1:
                raise InputError(f"{flag} {name} is given twice, but would count as two training runs")
    if args.likelihood and args.files:
        raise InputError(f"--likelihood expects two runs, which include the references; {args.files[0]} is not needed")
    if not args.likelihood and not args.files:
        raise InputError("the following arguments are required: REF")


def _make_score_rows(
    metrics: Sequence[str], first: np.ndarray, second: np.ndarray, families: Optional[np.ndarray], args: CompareOptions
) -> Dict[str, Any]:
    """Create the report's entry "scores" from scores (runs, n, metrics) and family indices (n,) of the documents."""
    several = len(first) > 1 or len(second) > 1
    units = count_resampling_units(first.shape[1], families)
    if units < FEW and not args.quiet:
        what = f"families in {args.families}" if args.families else "documents"
        doubt = "the intervals are too narrow, and the bootstrap's p-values are too small"
        shared_options.print_warnings("etads-compare", [f"fewer than {FEW} {what}: {doubt}"])
    tests = (
        compare_systems_over_runs(first, second, args.bootstrap, args.seed, families)
        if several
        else compare_pairs(first[0], second[0], args.bootstrap, args.seed, families)
    )
    found = {name: values.tolist() for name, values in tests.items() if values is not None}
    rows: Dict[str, Dict[str, Any]] = {}
    for m, metric in enumerate(metrics):
        trainings = [scores[:, :, m].mean(axis=1).tolist() for scores in (first, second)]
        rows[metric] = {
            "first": float(np.mean(trainings[0])),
            "second": float(np.mean(trainings[1])),
            **(dict(zip(("first_trainings", "second_trainings"), trainings)) if several else {}),
            "difference": found["difference"][m],
            "interval": [found["interval"][0][m], found["interval"][1][m]] if "interval" in found else None,
            **{name: found[name][m] for name in ("p_bootstrap", "p_randomisation") if name in found},
        }
    return rows


def _score_summaries(args: CompareOptions) -> Scores:
    """Score the summaries of both systems with ROUGE and other metrics."""
    settings = shared_options.make_rouge_settings(args)
    other_scores.check_score_options(args)
    names = [*args.a, *args.b, *args.files]
    texts = shared_options.read_summaries(names, args.target_column)
    systems = len(args.a) + len(args.b)
    shared_options.print_text_warnings("etads-compare", args, settings, names, texts, systems)
    figure, others = list(FIGURES).index(args.figure), shared_options.load_scorers(args)
    outputs, references = texts[:systems], texts[systems:]
    rouge = [score_pairs(text, references, settings, args.jobs, progress=True)[:, :, figure] for text in outputs]
    # All systems are scored in one call, so that a scorer that needs a model loads it only once.
    heads, more, signatures = other_scores.compute_scores(
        others, list(itertools.chain(*outputs)), [lines * systems for lines in references], settings
    )
    values = np.concatenate([np.stack(rouge), np.stack(np.split(more, systems))], axis=2)
    return [*settings.metrics, *heads], values, [f"ROUGE|{settings.signature(len(references))}", *signatures]


def _score_by_likelihood(args: CompareOptions) -> Scores:
    """Compute the likelihoods of both systems. Raises InputError if they cannot be computed or compared."""
    names = [*args.a, *args.b]
    common: Dict[str, Any] = {"subset": args.subset, "checkpoint": args.checkpoint, "prepared": args.prepared}
    found = [compute_split_likelihoods(LikelihoodOptions(run=Path(name), **common))[0] for name in names]
    for name, likelihoods in zip(names[1:], found[1:]):
        check_comparable(found[0], likelihoods, [names[0], name])
    values = np.stack([likelihoods.compute_per_token_means() for likelihoods in found])[:, :, None]
    return [LIKELIHOOD], values, [f"{LIKELIHOOD}|per:token|log:e|mean:documents|subset:{args.subset}"]


def make_comparison(args: CompareOptions) -> Dict[str, Any]:
    """Compare two systems, and return the report as a dictionary of JSON types."""
    metrics, values, signatures = (_score_by_likelihood if args.likelihood else _score_summaries)(args)
    first, second = np.split(values, [len(args.a)])
    documents, families = first.shape[1], None
    if args.families:
        lines = list(read_lines(Path(args.families)))
        if len(lines) != documents:
            raise InputError(f"--families {args.families} has {len(lines)} lines, but there are {documents} documents")
        families = assign_family_indices([line.split("\t")[0] for line in lines])
    report: Dict[str, Any] = {"first_file": args.a[0], "second_file": args.b[0]}
    tests = "paired-bootstrap,approximate-randomisation"
    if len(first) > 1 or len(second) > 1:
        report = {"first_files": args.a, "second_files": args.b}
        tests = f"paired-bootstrap-and-t-of-trainings|trainings:{len(first)},{len(second)}"
    if families is not None:
        tests += f"|families:{count_resampling_units(documents, families)}"
    figure = "" if args.likelihood else f"figure:{args.figure}|"
    made = f"n:{documents}|{figure}tests:{tests}|resamples:{args.bootstrap}|seed:{args.seed}|v:{get_version()}"
    report.update({"subset": args.subset} if args.likelihood else {"reference_files": args.files})
    report["scores"] = _make_score_rows(metrics, first, second, families, args)
    report["signature"], *also = (f"{signature}|{made}" for signature in signatures)
    return {**report, **({"also_signatures": also} if also else {})}


def _format_table(report: Dict[str, Any], figure: str) -> str:
    """Format the table that is printed below the names of the files."""
    scores, rows, lines = report["scores"], [], []
    digits = 4 if LIKELIHOOD in scores else 2
    for name, row in scores.items():
        metric = name.replace("rouge", "ROUGE-")
        means = [f"{row['first']:.{digits}f}", f"{row['second']:.{digits}f}", f"{row['difference']:+.{digits}f}"]
        p_values = [f"{row[test]:.4f}" if test in row else "-" for test in ("p_bootstrap", "p_randomisation")]
        rows.append([metric, *means, format_interval(row["interval"], f"+.{digits}f"), *p_values])
        if "p_randomisation" not in row:
            first, second = (
                ", ".join(f"{mean:.{digits}f}" for mean in row[f"{which}_trainings"]) for which in ("first", "second")
            )
            lines.append(f"{metric} of each training run: A {first}; B {second}")
    heads = ["metric", f"{figure} of A", "of B", "A - B", "95 % interval", "p boot.", "p rand."]
    return "\n".join([align_columns(heads, rows), *([""] * bool(lines)), *lines])


@options_command(
    "etads-compare",
    CompareOptions,
    ValueError,
    RuntimeError,
    usage="etads-compare [options] A B REF [REF ...]\n"
    "       etads-compare [options] REF [REF ...] --a A [A ...] --b B [B ...]\n"
    "       etads-compare --likelihood [options] RUN_A RUN_B",
    description="Test whether one system is significantly better than another. The tests are paired: for each "
    "document, they compare the ROUGE scores of the two systems' summaries, or the likelihoods of the references "
    "under the two systems' models.",
    epilog="""\
examples:
  etads-compare new.txt old.txt test.target
  etads-compare test.target --a new-1.txt new-2.txt new-3.txt --b old-1.txt old-2.txt old-3.txt
  etads-compare --likelihood runs/new runs/old
  etads-compare --likelihood --a runs/new-1 runs/new-2 --b runs/old-1 runs/old-2

  The command prints the difference between the means, A minus B, with a 95 % confidence interval from a paired
  bootstrap, and two two-sided p-values. If each system was trained only once, the result says nothing about other
  training runs, as a lucky seed may be mistaken for a better system: give several with --a and --b. Correct for the
  number of metrics that you test; for several systems, etads-rouge REF --system NAME=FILE corrects. The page etads docs
  evaluation describes the tests. Use - as FILE to read standard input. Files may be .gz, .xz, .bz2 or .zst.""",
)
def main(args: CompareOptions) -> None:
    """Run the command ``etads-compare``."""
    _assign_files_to_systems(args)
    inputs = {"A": args.a, "B": args.b, "REF": args.files, "--families": args.families}
    check_output_paths({"--json": args.json}, {**inputs, **other_scores.list_score_inputs(args)})
    report = make_comparison(args)
    print(f"A: {', '.join(args.a)}\nB: {', '.join(args.b)}")
    print("".join(f"reference: {name}\n" for name in args.files))
    print(_format_table(report, "mean" if args.likelihood else FIGURES[args.figure]))
    print("\n".join([report["signature"], *report.get("also_signatures", [])]))
    if args.json:
        write_json(args.json, report)
