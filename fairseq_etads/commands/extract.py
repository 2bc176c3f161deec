"""The command ``etads-extract``: summarise documents by extracting sentences."""

import argparse
import sys
from pathlib import Path

from ..jobs.runs import silence_info_logs
from ..platform.console import Parser, check_positive_options, command
from ..platform.errors import InputError
from ..platform.outputs import check_output_paths
from .labels import get_binarised_folder

WAYS = ("lead", "oracle", "labels", "selector", "content", "tagger", "phrases")
"""Valid values of the option ``--by``."""
BY_PROBABILITIES = {"selector": "sentences", "content": "sentences", "tagger": "words", "phrases": "words"}
"""Methods (values of ``--by``) that require probabilities, mapped to the unit to which the probabilities belong."""


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-extract",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Create extractive summaries of prepared documents, and write them one per line as input for "
        "etads-rouge.",
        epilog="""\
methods:
  lead       the first sentences
  oracle     sentences that together have a high ROUGE-L recall of the reference, chosen greedily; an estimate of the
             best result that extraction can achieve
  labels     the sentences labelled by etads-labels --kind extract, f1 or match
  selector   the most probable sentences according to etads-select (--arch sentence_extractor); with --threshold, all
             sentences above the threshold, but at least --at-least and at most --sentences
  content    the sentences with the highest expected ROUGE according to a content model trained by etads-content;
             etads-summarize also lets it choose sentences that a summariser has written
  tagger     the sentences with the highest mean word probability according to etads-select (--arch word_tagger)
  phrases    all words with a probability above --threshold

examples:
  etads-extract runs/mine/prepared lead.txt --by lead
  etads-extract runs/mine/prepared tagger.txt --by tagger --selection runs/tagger --sentences 3
  etads-rouge tagger.txt runs/mine/text/test.target
  etads-extract runs/mine/prepared hard.txt --by selector --selection runs/extractor --threshold 0.5 --at-least 5 \
      --sentences 30

  Sentence marks (etads-prepare --source-sentence-marks) separate the sentences of a document. The sentences of a
  summary keep their order in the document.""",
    )
    add = parser.add_argument
    add("data", metavar="DATA", type=Path, help="output folder of etads-prepare, or its bin folder")
    add("output", metavar="OUTPUT", type=Path, help="output file for the summaries, with <q> between sentences")
    add("--by", choices=WAYS, required=True, help="method for choosing the sentences; the methods are described below")
    add("--subset", metavar="NAME", default="test", help="split to summarise (default: %(default)s)")
    add(
        "--selection",
        metavar="DIR",
        type=Path,
        help="output folder of etads-select; required if --by is selector, content, tagger or phrases",
    )
    add("--labels", metavar="DIR", type=Path, help="folder containing the labels (default: the data folder)")
    add(
        "--sentences",
        metavar="N",
        type=int,
        help="number of sentences per summary with --by lead, selector or tagger (default: 3); with --by selector and "
        "--threshold, maximum number of sentences (default: no limit)",
    )
    add(
        "--words",
        metavar="N",
        type=int,
        help="maximum number of words per summary. With --by selector or tagger, this limit replaces --sentences; "
        "with --by content, the default is 1.15 times the mean length of the training summaries",
    )
    add(
        "--threshold",
        metavar="P",
        type=float,
        help="probability above which a word is selected with --by phrases (default: 0.15), or a sentence with --by "
        "selector (default: no threshold)",
    )
    add(
        "--at-least",
        metavar="N",
        type=int,
        help="minimum number of sentences per summary with --by selector and --threshold; the N most probable "
        "sentences are always chosen (default: 1)",
    )
    add(
        "--truncate-source",
        metavar="N",
        type=int,
        help="read only the first N tokens of each document (default: 400; with --by content, the whole document)",
    )
    return parser


def _check_options(args: argparse.Namespace) -> None:
    """Raise InputError if an option has an invalid value, has no effect or is missing."""
    check_positive_options(
        sentences=args.sentences, words=args.words, at_least=args.at_least, truncate_source=args.truncate_source
    )
    needs = args.by in BY_PROBABILITIES
    if needs and args.selection is None:
        raise InputError(f"--by {args.by}: needs --selection, the output folder of etads-select")
    for option, has_effect in (
        ("selection", needs),
        ("labels", args.by == "labels"),
        ("threshold", args.by in ("phrases", "selector")),
        ("sentences", args.by not in ("oracle", "labels", "phrases", "content")),
        ("at_least", args.by == "selector"),
        ("words", args.by in ("selector", "tagger", "content")),
    ):
        value = getattr(args, option)
        if value is not None and not has_effect:
            raise InputError(f"--{option.replace('_', '-')} {value}: has no effect with --by {args.by}")
    for option in ("sentences", "threshold"):
        if args.words is not None and getattr(args, option) is not None:
            raise InputError(f"--words {args.words} and --{option} {getattr(args, option)}: choose one of them")
    if args.at_least is not None and args.threshold is None:
        raise InputError(f"--at-least {args.at_least}: has no effect without --threshold")
    if args.at_least is not None and args.sentences is not None and args.at_least > args.sentences:
        raise InputError(f"--at-least {args.at_least}: is more than --sentences {args.sentences}")


@command(_build_parser, ValueError)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-extract``."""
    _check_options(args)
    if args.truncate_source is None and args.by != "content":
        args.truncate_source = 400
    folder = get_binarised_folder(args.data)
    selection, labels = (args.selection, "probabilities.*"), (args.labels, "labels.*")
    read = {"DATA": (folder, "*.bin"), "--selection": selection, "--labels": labels}
    files = {name: list(path.glob(pattern)) for name, (path, pattern) in read.items() if path is not None}
    check_output_paths({"OUTPUT": args.output}, files)
    from ..jobs.extract import write_extracts

    silence_info_logs()
    print(f"{args.output}: {write_extracts(folder, args, BY_PROBABILITIES.get(args.by))}")


if __name__ == "__main__":
    sys.exit(main())
