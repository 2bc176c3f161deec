"""The command ``etads-tune`` (use a trained model): find good decoding options for a model folder."""

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from ..platform.command_options import (
    NOT_NEGATIVE,
    SIZE,
    DeviceOption,
    MaxTokensOption,
    argument,
    option,
    options_command,
)
from ..platform.console import escape_unprintable
from ..platform.errors import InputError
from ..summarizer.folder.config import find_folder
from ..text.records import SOURCE, guess_input_format, read_texts
from ..tuning import MERT_METRICS, MERT_ROUNDS, METRICS, MOST_DOCUMENTS, NBEST, STARTING_POINTS, TRIALS
from .shared_options import load_summarizer

EXAMPLES = """\
examples:
  etads-tune model valid.source valid.target                   run 20 trials, and print a table and conclusions
  etads-tune model valid.jsonl --trials 50 --metric rougeL --write
  etads-tune model valid.source valid.target --search lenpen,beam --range lenpen=0.5:1.5 --range beam=2,5,10
  etads-tune model valid.source valid.target --mert --write    tune --extractive-weights with MERT

To continue after an interruption or with more --trials, run the command again with the same --out. Trial 0 uses the
folder's current defaults. The page etads docs tuning describes the search and its default options.
"""


def _column_option(what: str) -> Any:
    text = f"name of the JSON field or CSV column that contains the {what} (default: detected automatically)"
    return option("", text, metavar="NAME")


@dataclass
class TuneOptions(DeviceOption, MaxTokensOption):
    """Options of ``etads-tune``."""

    folder: Path = argument("FOLDER", "model folder to tune")
    source: Path = argument(
        "DOCUMENTS", "text file with a document per line, or JSON Lines or CSV file, which may also hold the references"
    )
    target: Optional[Path] = argument(
        "REFERENCES", "file containing the reference summaries, in the same order as the documents", nargs="?"
    )
    source_column: str = _column_option("documents")
    target_column: str = _column_option("references")
    trials: int = option(
        None,
        f"total number of decoding settings to try (default: {TRIALS}); with --mert, maximum number of decoding "
        f"rounds (default: {MERT_ROUNDS})",
        bounds=SIZE,
    )
    metric: str = option(
        None,
        f"metric to maximise: the F1 of ROUGE-1, 2 or L, or the mean of the three (default: {METRICS[0]}). With "
        f"--mert, recall in the first 75 bytes is also available (default: {MERT_METRICS[0]})",
        choices=MERT_METRICS,
    )
    documents: int = option(
        MOST_DOCUMENTS, "maximum number of documents; if there are more, all trials use a random sample", bounds=SIZE
    )
    search: str = option(
        "", "comma-separated decoding options to tune (default: see below)", metavar="LIST", excludes={"--mert": ""}
    )
    range: List[str] = option(
        [],
        "values to try for a decoding option, as LOW:HIGH, LOW:HIGH:STEP or A,B,C; may be repeated",
        metavar="NAME=VALUES",
        excludes={"--mert": ""},
    )
    mert: bool = option(
        False, "tune --extractive-weights by minimum-error-rate training on n-best lists, not decoding options"
    )
    nbest: Optional[int] = option(
        None, f"beam size and hypotheses per document with --mert (default: {NBEST})", bounds=SIZE, needs=("--mert",)
    )
    starting_points: Optional[int] = option(
        None,
        "number of starting points for the search with --mert; all except the first are random (default: "
        f"{STARTING_POINTS})",
        bounds=SIZE,
        needs=("--mert",),
    )
    out: Optional[Path] = option(
        None, "output folder for the trials, tables and the plot (default: FOLDER-tuning)", metavar="DIR"
    )
    seed: int = option(1, "random seed for the search and for sampling documents", bounds=NOT_NEGATIVE)
    write: bool = option(False, "store the best options as the decoding defaults of FOLDER")
    encoder_memory: int = option(
        1024, "memory in MiB for encoder states of all trials; 0: encode in each", metavar="MIB", bounds=NOT_NEGATIVE
    )
    quiet: bool = option(False, "print only results and errors")


def _search(args: TuneOptions, common: Dict[str, Any]) -> Tuple[str, Any, str]:
    """Search for the best options, given the arguments of both kinds of tuning, and write tables and plots.

    Returns a name for the best options, the options (None: the folder's), and a note for the model card.
    """
    from ..tuning.tune import tune

    names = [name for name in args.search.split(",") if name.strip()]
    ranges = {name: values for name, _, values in (text.partition("=") for text in args.range)}
    common.update(trials=args.trials or TRIALS, metric=args.metric or METRICS[0])
    out, tuning = common["out"], tune(search=names, ranges=ranges, **common)
    tuning.write_tables(out)
    draws = importlib.util.find_spec("matplotlib") is not None
    if draws:
        tuning.draw_plots(out)
    print(f"{tuning.format_markdown_table()}\n\n{tuning.signature}\n\n{tuning.format_conclusion()}")
    print(f"\ntables{' and plots' if draws else ''}: {escape_unprintable(str(out))}")
    best, note = tuning.best, tuning.make_card_note(args.source.name)
    return f"options of trial {best.number}", best.decoding if best.number else None, note


def _tune_weights(args: TuneOptions, common: Dict[str, Any]) -> Tuple[str, Any, str]:
    """Run minimum-error-rate training. See :func:`_search` for the results."""
    from ..tuning.extractive_weights import OPTION, format_weights, tune_weights
    from ..tuning.study import TuningStudy

    study = TuningStudy(metric=args.metric or MERT_METRICS[0], metrics=MERT_METRICS, **common)
    nbest, points = args.nbest or NBEST, args.starting_points or STARTING_POINTS
    tuning = tune_weights(study, args.trials or MERT_ROUNDS, nbest, points)
    tuning.write(study.out)
    best, weights = tuning.best, format_weights(tuning.best.weights)
    print(f"{tuning.format_markdown_table()}\n\n{tuning.signature}\n")
    print(f"Round {best.number} is the best. Its score is optimistic, because the round was chosen on these documents.")
    print(f"--extractive-weights {weights}\n\nreport: {escape_unprintable(str(study.out))}")
    decoding = {**study.summarizer.config.decoding, OPTION: weights}
    note = tuning.make_card_note(args.source.name)
    return f"weights of round {best.number}", decoding if best.number else None, note


@options_command(
    "etads-tune",
    TuneOptions,
    description="Find good decoding options for a model folder, using documents with reference summaries.",
    epilog=EXAMPLES,
)
def main(args: TuneOptions) -> None:
    """Run the command ``etads-tune``."""
    bundled = find_folder(args.folder)
    if bundled != args.folder:
        copy = f"cp -r {bundled} my-{args.folder}"
        raise InputError(f"FOLDER {args.folder} comes with the package; tune a copy instead: {copy}")
    if args.target is None and guess_input_format([args.source], text="lines") == "lines":
        raise InputError(f"REFERENCES are missing: {args.source} has plain lines, without fields for both texts")
    from ..evaluation.summaries import read_lines
    from ..summarizer.folder.model_card import check_writable, set_decoding_defaults

    if args.write:
        check_writable(args.folder)
    common = {
        "documents": read_texts(args.source, SOURCE, args.source_column),
        "references": read_lines(str(args.target or args.source), args.target_column),
        "summarizer": load_summarizer(args.folder, args.device, args.quiet),
        "out": args.out or Path(os.path.abspath(args.folder) + "-tuning"),
        "most_documents": args.documents,
        "seed": args.seed,
        "max_tokens": args.max_tokens,
        "state_bytes": args.encoder_memory << 20,
        "quiet": args.quiet,
    }
    what, decoding, note = (_tune_weights if args.mert else _search)(args, common)
    if args.write and decoding is None:
        print("--write: the folder's defaults are already the best, so nothing is written")
    elif args.write:
        set_decoding_defaults(args.folder, decoding, note)
        print(f"--write: the {what} are now the defaults of {escape_unprintable(str(args.folder))}")
