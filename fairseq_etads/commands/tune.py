"""The command ``etads-tune``: tune the decoding options of a model folder on documents with reference summaries."""

import argparse
import functools
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from tqdm import tqdm

from ..files.inputs import STANDARD_INPUT
from ..platform.console import (
    Parser,
    add_device_option,
    add_max_tokens_option,
    command,
    escape_unprintable,
    limit_matrix_kernel_caches,
)
from ..platform.errors import InputError
from ..summarizer.folder.config import find_folder, read_config
from ..text.input_records import ReadingOptions, guess_input_format, read_documents
from ..text.records import OPTIONS, SOURCE, TARGET
from ..text.words import SENTENCE_MARK
from ..tuning import (
    MERT_METRICS,
    MERT_ROUNDS,
    METRICS,
    MOST_DOCUMENTS,
    NBEST,
    STARTING_POINTS,
    TRIALS,
    TuningListener,
    check_options,
)

EXAMPLES = """\
examples:
  etads-tune model valid.source valid.target                   run 20 trials, and print a table and conclusions
  etads-tune model valid.jsonl --trials 50 --metric rougeL --write
  etads-tune model valid.source valid.target --search lenpen,beam --range lenpen=0.5:1.5 --range beam=2,5,10
  etads-tune model valid.source valid.target --mert --write    tune --extractive-weights with MERT

All decoding options (etads-summarize --help) can be tuned except --infer-dtype, --shortlist, --choose,
--ngram-ignore-tokens and --extractive-weights (which --mert tunes). The default for --search is lenpen,
coverage-penalty, no-repeat-ngram-size, min-len and max-len. For min-len and max-len, the values to try depend on the
lengths of the references. --range sets the values to try for an option, and adds the option to the search. Trial 0 uses
the folder's current defaults, so the best trial is never worse than the defaults on these documents.

To continue after an interruption or with more --trials, run the command again with the same --out. docs/tuning.md
describes the search.
"""


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-tune",
        description="Find good decoding options for a model folder, using documents with reference summaries.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("folder", metavar="FOLDER", type=Path, help="model folder to tune")
    add(
        "source",
        metavar="DOCUMENTS",
        type=Path,
        help="text file containing one document per line, or a JSON Lines or CSV file, which may also contain the "
        "references",
    )
    add(
        "target",
        metavar="REFERENCES",
        type=Path,
        nargs="?",
        help="file containing the reference summaries, in the same order as the documents",
    )
    add(
        "--source-column",
        metavar="NAME",
        default="",
        help="name of the JSON field or CSV column that contains the documents (default: detected automatically)",
    )
    add(
        "--target-column",
        metavar="NAME",
        default="",
        help="name of the JSON field or CSV column that contains the references (default: detected automatically)",
    )
    add(
        "--trials",
        metavar="N",
        type=int,
        help=f"total number of decoding settings to try (default: {TRIALS}); with --mert, maximum number of decoding "
        f"rounds (default: {MERT_ROUNDS})",
    )
    add(
        "--metric",
        choices=MERT_METRICS,
        help=f"metric to maximise: the F1 of ROUGE-1, 2 or L, or the mean of the three (default: {METRICS[0]}). With "
        f"--mert, recall in the first 75 bytes is also available (default: {MERT_METRICS[0]})",
    )
    add(
        "--documents",
        metavar="N",
        type=int,
        default=MOST_DOCUMENTS,
        dest="most_documents",
        help="maximum number of documents to use; if there are more, a random sample is used in all trials (default: "
        "%(default)s)",
    )
    add(
        "--search",
        metavar="LIST",
        default="",
        help="comma-separated decoding options to tune; the defaults are described below",
    )
    add(
        "--range",
        metavar="NAME=VALUES",
        action="append",
        default=[],
        dest="ranges",
        help="values to try for a decoding option, as LOW:HIGH, LOW:HIGH:STEP or A,B,C; may be repeated",
    )
    add(
        "--mert",
        action="store_true",
        help="tune --extractive-weights with minimum-error-rate training on n-best lists instead of searching for "
        "decoding options",
    )
    add(
        "--nbest",
        metavar="N",
        type=int,
        help=f"beam size, which is also the number of hypotheses per document; only with --mert (default: {NBEST})",
    )
    add(
        "--starting-points",
        metavar="N",
        type=int,
        help="number of starting points for the search with --mert; all except the first are random (default: "
        f"{STARTING_POINTS})",
    )
    add(
        "--out",
        metavar="DIR",
        type=Path,
        help="output folder for the trials, tables and the plot (default: FOLDER-tuning)",
    )
    add(
        "--seed",
        metavar="N",
        type=int,
        default=1,
        help="random seed for the search and for sampling documents (default: %(default)s)",
    )
    add("--write", action="store_true", help="store the best options as the decoding defaults of FOLDER")
    add_device_option(add)
    add_max_tokens_option(add)
    add(
        "--encoder-memory",
        metavar="MIB",
        type=int,
        default=1024,
        help="maximum memory in MiB for caching encoder states across trials; with 0, the documents are encoded again "
        "in each trial (default: %(default)s)",
    )
    add("--quiet", action="store_true", help="print only results and errors")
    return parser


def _read_texts(path: Path, option: str, asked: str, side: int) -> List[str]:
    """Read texts from a table or from a file with one text per line."""
    if str(path) == STANDARD_INPUT:
        raise InputError(f"{option} -: must be a file, because it is read again when tuning is resumed")
    if not path.is_file():
        raise InputError(f"{option} {path}: {'is a folder; give a file' if path.is_dir() else 'no such file'}")
    kind = guess_input_format([path], text="lines")
    if asked and kind == "lines":
        raise InputError(f"{OPTIONS[side]} {asked}: {path} has plain lines, without fields")
    texts = []
    for document in read_documents([path], kind, ReadingOptions("", asked, side=side)):
        if document.problem:
            raise InputError(document.problem)
        texts.append(document.text)
    if not texts:
        raise InputError(f"{option} {path}: empty")
    return texts


def _read_document_reference_pairs(args: argparse.Namespace) -> Tuple[List[str], List[str]]:
    """Read the documents and their reference summaries. The sentences of a reference are joined into one line."""
    target = args.target or args.source
    documents = _read_texts(args.source, "DOCUMENTS", args.source_column, SOURCE)
    if args.target is None and guess_input_format([args.source], text="lines") == "lines":
        raise InputError(
            f"REFERENCES are missing: {args.source} has plain lines without fields for documents and references"
        )
    references = _read_texts(target, "REFERENCES", args.target_column, TARGET)
    if len(documents) != len(references):
        raise InputError(f"{args.source} has {len(documents):,} documents and {target} {len(references):,} references")
    lines = ([line.strip() for line in reference.split("\n") if line.strip()] for reference in references)
    return documents, [f" {SENTENCE_MARK} ".join(sentences) for sentences in lines]


def _parse_ranges(given: List[str]) -> Dict[str, str]:
    """Parse the values of --range, and return a dictionary that maps option names to ranges."""
    ranges: Dict[str, str] = {}
    for text in given:
        name, equals, values = text.partition("=")
        if not (name.strip() and equals and values.strip()):
            raise InputError(f"--range {text}: must be NAME=LOW:HIGH, NAME=LOW:HIGH:STEP or NAME=A,B,C")
        if name in ranges:
            raise InputError(f"--range {text}: {name} is given twice")
        ranges[name] = values
    return ranges


class _ProgressListener(TuningListener):
    """Shows a progress bar on a terminal, and prints one line for each trial."""

    def __init__(self, metric: str, quiet: bool):
        self.metric, self.quiet = metric, quiet
        self.first: Optional[int] = None
        self.trials = 0
        self.started = 0.0

    def on_message(self, text: str) -> None:
        if not self.quiet:
            print(f"== {escape_unprintable(text)}", file=sys.stderr)

    def on_trial_start(self, number: int, trials: int, documents: int) -> None:
        if self.first is None:
            self.started, self.first = time.monotonic(), number
        self.trials = trials
        name = f"trial {number}"
        hidden = True if self.quiet else None
        self.bar = tqdm(total=documents, desc=name, unit=" documents", leave=False, disable=hidden, file=sys.stderr)

    def on_documents_summarised(self, documents: int) -> None:
        self.bar.update(documents)

    def on_trial_end(self, trial: Any, best: Any) -> None:
        self.bar.close()
        each = (time.monotonic() - self.started) / (trial.number + 1 - (self.first or 0))
        left = each * (self.trials - 1 - trial.number)
        about = f"; about {left / 60:.0f} min left" if left >= 90 else f"; about {left:.0f} s left" if left else ""
        scores = f"{trial.score(self.metric):.2f}, best {best.score(self.metric):.2f} (trial {best.number})"
        self.on_message(f"trial {trial.number}/{self.trials - 1}: {scores}{about}")


def _check_options(args: argparse.Namespace) -> None:
    """Check the options, and set default values that depend on --mert. Raises InputError if an option is invalid."""
    if args.encoder_memory < 0:
        raise InputError(
            f"--encoder-memory {args.encoder_memory}: choose 0 (encode the documents again in each trial) or more"
        )
    if args.seed < 0:
        raise InputError(f"--seed {args.seed}: choose 0 or more")
    for option, value, needs_mert in (
        ("--nbest", args.nbest, True),
        ("--starting-points", args.starting_points, True),
        ("--search", args.search or None, False),
        ("--range", " --range ".join(args.ranges) or None, False),
    ):
        if value is not None and needs_mert != args.mert:
            raise InputError(f"{option} {value} has no effect {'without' if needs_mert else 'with'} --mert")
    metrics, usual_trials = (MERT_METRICS, MERT_ROUNDS) if args.mert else (METRICS, TRIALS)
    args.metric = args.metric or metrics[0]
    args.trials = usual_trials if args.trials is None else args.trials
    numbers = {"trials": args.trials, "documents": args.most_documents, "max_tokens": args.max_tokens}
    given = {name: getattr(args, name) for name in ("nbest", "starting_points") if getattr(args, name) is not None}
    check_options(args.metric, metrics, **numbers, **given)
    bundled = find_folder(args.folder)
    if bundled != args.folder:
        raise InputError(
            f"FOLDER {args.folder} comes with the package; tune a copy instead: cp -r {bundled} my-{args.folder}"
        )
    read_config(args.folder)


@command(_build_parser)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-tune``."""
    _check_options(args)
    documents, references = _read_document_reference_pairs(args)
    out = args.out or Path(os.path.abspath(args.folder) + "-tuning")
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out}: is a file; name a folder")
    limit_matrix_kernel_caches()
    from ..summarizer import Summarizer
    from ..summarizer.folder.decoding_defaults import check_writable, set_decoding_defaults

    if args.write:
        check_writable(args.folder)
    logging.getLogger("fairseq_etads").setLevel(logging.ERROR if args.quiet else logging.WARNING)
    load = functools.partial(Summarizer.load, args.folder, args.device)
    common = {
        "metric": args.metric,
        "most_documents": args.most_documents,
        "seed": args.seed,
        "max_tokens": args.max_tokens,
        "state_bytes": args.encoder_memory << 20,
        "listener": _ProgressListener(args.metric, args.quiet),
    }
    run = _tune_weights if args.mert else _search
    what, decoding, note = run(args, load, (documents, references, out), common)
    if args.write and decoding is None:
        print("--write: the folder's defaults are already the best, so nothing is written")
    elif args.write:
        set_decoding_defaults(args.folder, decoding, note)
        print(f"--write: the {what} are now the defaults of {escape_unprintable(str(args.folder))}")


def _search(
    args: argparse.Namespace, load: Callable[[], Any], inputs: Any, common: Dict[str, Any]
) -> Tuple[str, Any, str]:
    """Search for the best options, and write tables and plots."""
    from ..evaluation.plots import check_matplotlib
    from ..tuning import report
    from ..tuning.tune import check_optuna_installed, tune

    check_optuna_installed()
    names, ranges = [name for name in args.search.split(",") if name.strip()], _parse_ranges(args.ranges)
    out, draws = inputs[2], True
    try:
        check_matplotlib("the plots")
    except ValueError as error:
        draws = False
        print(f"etads-tune: warning: {error}; continuing without it", file=sys.stderr)
    tuning = tune(load(), *inputs, trials=args.trials, search=names, ranges=ranges, **common)
    report.write_tables(tuning, out)
    if draws:
        report.draw_plots(tuning, out)
    print(f"{report.format_markdown_table(tuning)}\n\n{tuning.signature}\n\n{report.format_conclusion(tuning)}")
    print(f"\ntables{' and plots' if draws else ''}: {escape_unprintable(str(out))}")
    best = tuning.best
    note = report.make_card_note(tuning, args.source.name)
    return f"options of trial {best.number}", best.decoding if best.number else None, note


def _tune_weights(
    args: argparse.Namespace, load: Callable[[], Any], inputs: Any, common: Dict[str, Any]
) -> Tuple[str, Any, str]:
    """Run minimum-error-rate training. See :func:`_search` for the results."""
    from ..tuning.extractive_weights import OPTION, format_weights, tune_weights

    summarizer = load()
    nbest, points = args.nbest or NBEST, args.starting_points or STARTING_POINTS
    tuning = tune_weights(summarizer, *inputs, rounds=args.trials, nbest=nbest, points=points, **common)
    tuning.write(inputs[2])
    best, weights = tuning.best, format_weights(tuning.best.weights)
    print(f"{tuning.format_markdown_table()}\n\n{tuning.signature}\n")
    print(f"Round {best.number} is the best. Its score is optimistic, because the round was chosen on these documents.")
    print(f"--extractive-weights {weights}\n\nreport: {escape_unprintable(str(inputs[2]))}")
    decoding = {**summarizer.config.decoding, OPTION: weights}
    note = tuning.make_card_note(args.source.name)
    return f"weights of round {best.number}", decoding if best.number else None, note


if __name__ == "__main__":
    sys.exit(main())
