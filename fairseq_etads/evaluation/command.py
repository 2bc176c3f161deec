"""The commands ``etads-rouge`` and ``etads-compare``."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Dict, Optional, Sequence

import numpy as np

from .. import __version__
from ..console import Parser
from . import other_scores
from .command_line import add_scoring_options, check_writable, read_summaries, run, settings_of, warn
from .resampling import compare_pairs
from .rouge import FIGURES, RESAMPLES, check_at_least, make_report, pair_scores
from .summaries import find_leftovers, find_swap

COMPARE_RESAMPLES = 10_000


def write_examples(
    path: str, scores: np.ndarray, metrics: Sequence[str], heads: Sequence[str], figures: np.ndarray
) -> None:
    """Write the scores of every line as JSON Lines, or as a tab-separated table if ``path`` ends in .tsv.

    Args:
        scores: (n, metrics, 3), F1, precision and recall in [0, 100].
        heads, figures: names and values (n, heads) of the scores that are not ROUGE.
    """
    lines = []
    if path.endswith(".tsv"):
        lines.append("\t".join(["line", *(f"{metric}_{figure}" for metric in metrics for figure in FIGURES), *heads]))
    for number, (rows, others) in enumerate(zip(scores, figures), 1):
        if path.endswith(".tsv"):
            lines.append("\t".join([str(number), *(f"{value:.4f}" for value in [*rows.reshape(-1), *others])]))
        else:
            values = {m: dict(zip(FIGURES, [round(x, 4) for x in row])) for m, row in zip(metrics, rows.tolist())}
            more = {head: round(value, 4) for head, value in zip(heads, others.tolist())}
            lines.append(json.dumps({"line": number, **values, **more}))
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _rouge_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-rouge",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="ROUGE-1, ROUGE-2 and summary-level ROUGE-L, with 95 % confidence intervals.",
        epilog="""\
examples:
  etads-rouge output.txt test.target
  etads-rouge output.txt reference1.txt reference2.txt --json scores.json
  etads-rouge headlines.txt task1_ref*.txt --duc75

  The first file is the system's output. Each line is one summary; line i of one file belongs to line i
  of the others. With several reference files, the reference with the highest F1 counts, for each line and
  metric. "First sentence . <q> second one ." has two sentences; sentences matter to ROUGE-L only. A line
  without a mark is cut after . ! ? before white space, as in "a b . c d ."; as that also cuts after
  abbreviations, prefer the mark. Publish the signature with the scores: it names all that they depend on.
  - as a file is standard input; any file may be compressed (.gz, .xz, .bz2, .zst).""",
    )
    add = parser.add_argument
    add("hypothesis", metavar="HYP", help="the system's summaries, one per line")
    add("references", metavar="REF", nargs="+", help="reference summaries, one per line")
    add("--duc75", action="store_true", help="as in DUC-2004: --bytes 75 --multi average, and the interval of recall")
    add_scoring_options(parser, RESAMPLES)
    other_scores.add_options(parser)
    add("--per-example", metavar="FILE", help="write the scores of every line to FILE (.jsonl or .tsv)")
    add("--format", choices=["table", "json"], default="table", help="form of what is printed (default: %(default)s)")
    return parser


def _score(args: argparse.Namespace) -> None:
    if args.duc75:
        if args.bytes not in (None, 75):
            raise ValueError(f"--duc75 and --bytes {args.bytes} exclude one another")
        args.bytes, args.multi = 75, args.multi or "average"
    check_writable("--per-example", args.per_example, ".jsonl", ".tsv")
    check_writable("--json", args.json)
    settings = settings_of(args)
    check_at_least(1, bootstrap=args.bootstrap, jobs=args.jobs)
    check_at_least(0, seed=args.seed)
    other_scores.check_options(args)
    names = [args.hypothesis, *args.references]
    texts = read_summaries(names)
    if not args.quiet:
        warn("etads-rouge", find_swap(args.hypothesis, args.references, texts))
        for name, lines in zip(names, texts):
            warn("etads-rouge", find_leftovers(name, lines))
    others = other_scores.scorers(args)
    scores = pair_scores(texts[0], texts[1:], settings, args.jobs, progress=True)
    heads, figures, signatures = other_scores.score_texts(others, texts[0], texts[1:], settings)
    report = make_report(scores, texts[0], len(texts) - 1, settings, args.bootstrap, args.seed)
    if args.per_example:
        write_examples(args.per_example, scores, settings.metrics, heads, figures)
    also = other_scores.describe(heads, figures, signatures, args.bootstrap, args.seed) if others else None
    files = {"hypothesis_file": names[0], "reference_files": names[1:]}
    as_json = json.dumps({**files, **report.to_dict(), **({"also": also} if also else {})}, indent=2)
    heading = "\n".join([f"hypothesis: {names[0]}", *(f"reference:  {name}" for name in names[1:])])
    table = report.format_table("recall" if args.duc75 else "f1")
    table += f"\n\n{other_scores.format_table(also)}" if also else ""
    print(as_json if args.format == "json" else f"{heading}\n\n{table}")
    if args.json:
        Path(args.json).write_text(as_json + "\n", encoding="utf-8")


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run ``etads-rouge`` and return its exit code, 2 after an error, which is one line on stderr."""
    args = _rouge_parser().parse_args(argv)
    return run("etads-rouge", lambda: _score(args))


def _compare_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-compare",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Is one system really better than another? Paired tests on the ROUGE scores of the same documents.",
        epilog="""\
example:
  etads-compare new.txt old.txt test.target

  Prints the difference of the means, A minus B, with its 95 % interval by paired bootstrap, and two two-sided
  p-values: by the same bootstrap, and by approximate randomisation (random exchanges of the two systems' scores,
  document by document). If you test several metrics or systems, divide your significance level by their number.
  - as a file is standard input; any file may be compressed (.gz, .xz, .bz2, .zst).""",
    )
    add = parser.add_argument
    add("first", metavar="A", help="one system's summaries, one per line")
    add("second", metavar="B", help="the other system's summaries")
    add("references", metavar="REF", nargs="+", help="reference summaries, one per line")
    add("--figure", choices=list(FIGURES), default="f1", help="figure to compare (default: %(default)s)")
    add_scoring_options(parser, COMPARE_RESAMPLES)
    other_scores.add_options(parser)
    return parser


def compare_files(args: argparse.Namespace) -> Dict[str, Any]:
    """The report of ``etads-compare``, in types that JSON has."""
    check_writable("--json", args.json)
    settings = settings_of(args)
    check_at_least(1, bootstrap=args.bootstrap, jobs=args.jobs)
    check_at_least(0, seed=args.seed)
    other_scores.check_options(args)
    names = [args.first, args.second, *args.references]
    texts = read_summaries(names)
    if not args.quiet:
        for name, lines in zip(names, texts):
            warn("etads-compare", find_leftovers(name, lines))
    figure = list(FIGURES).index(args.figure)
    others = other_scores.scorers(args)
    rouges = [pair_scores(t, texts[2:], settings, args.jobs, progress=True)[:, :, figure] for t in texts[:2]]
    scored = [other_scores.score_texts(others, t, texts[2:], settings) for t in texts[:2]]
    first, second = (np.concatenate([one, more[1]], axis=1) for one, more in zip(rouges, scored))
    found = {name: values.tolist() for name, values in compare_pairs(first, second, args.bootstrap, args.seed).items()}
    rows = {
        metric: {
            "first": float(first[:, m].mean()),
            "second": float(second[:, m].mean()),
            "difference": found["difference"][m],
            "interval": [found["interval"][0][m], found["interval"][1][m]],
            "p_bootstrap": found["p_bootstrap"][m],
            "p_randomisation": found["p_randomisation"][m],
        }
        for m, metric in enumerate([*settings.metrics, *scored[0][0]])
    }
    tests = f"figure:{args.figure}|tests:paired-bootstrap,approximate-randomisation|resamples:{args.bootstrap}"
    made = f"n:{len(first)}|{tests}|seed:{args.seed}|v:{__version__}"
    more = {"also_signatures": [f"{signature}|{made}" for signature in scored[0][2]]} if others else {}
    return {
        "first_file": names[0],
        "second_file": names[1],
        "reference_files": names[2:],
        "scores": rows,
        "signature": f"ROUGE|{settings.signature(len(texts) - 2)}|{made}",
        **more,
    }


def _compare(args: argparse.Namespace) -> None:
    report = compare_files(args)
    print(f"A: {report['first_file']}\nB: {report['second_file']}")
    print("\n".join(f"reference: {name}" for name in report["reference_files"]) + "\n")
    width = max(9, *map(len, report["scores"]))
    head = f"{'metric':<{width}} {FIGURES[args.figure] + ' of A':>8} {'of B':>8} {'A - B':>8}"
    print(f"{head}   {'95 % interval':<17} {'p boot.':>8} {'p rand.':>8}")
    for name, row in report["scores"].items():
        means = f"{row['first']:8.2f} {row['second']:8.2f} {row['difference']:+8.2f}"
        interval = "[{:+.2f}, {:+.2f}]".format(*row["interval"])
        p_values = f"{row['p_bootstrap']:8.4f} {row['p_randomisation']:8.4f}"
        print(f"{name.replace('rouge', 'ROUGE-'):<{width}} {means}   {interval:<17} {p_values}")
    print("\n".join([report["signature"], *report.get("also_signatures", [])]))
    if args.json:
        Path(args.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def compare_main(argv: Optional[Sequence[str]] = None) -> int:
    """Run ``etads-compare`` and return its exit code, 2 after an error, which is one line on stderr."""
    args = _compare_parser().parse_args(argv)
    return run("etads-compare", lambda: _compare(args))


if __name__ == "__main__":
    sys.exit(main())
