"""The command ``etads-extract``: summarise documents by their own sentences."""

import argparse
import sys
from pathlib import Path

from ..jobs.runs import only_warnings
from ..platform.console import Parser, check_positive, command
from ..platform.errors import InputError
from .labels import binarised

WAYS = ("lead", "oracle", "labels", "selector", "content", "tagger", "phrases")
"""Values of ``--by``."""
BY_PROBABILITIES = {"selector": "sentences", "content": "sentences", "tagger": "words", "phrases": "words"}
"""Values of ``--by`` that need probabilities -> the unit of the probabilities."""


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-extract",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Extract sentences of prepared documents as summaries, one per line, for etads-rouge.",
        epilog="""\
ways:
  lead       the first sentences
  oracle     the sentences that together recall the reference, chosen greedily: an upper bound for extraction
  labels     the sentences in the labels of etads-labels --kind extract or --kind match
  selector   the most probable sentences according to etads-select (--arch sentence_extractor); with --threshold, all
             sentences above it, but at least --at-least and at most --sentences
  content    the sentences with the largest ROUGE that the content model of etads-content expects; with --hypotheses,
             sentences that a summariser wrote are candidates, too
  tagger     the sentences with the most probable words on average, according to etads-select (--arch word_tagger)
  phrases    all words with a probability above --threshold

examples:
  etads-extract runs/mine/prepared lead.txt --by lead
  etads-extract runs/mine/prepared tagger.txt --by tagger --selection runs/tagger --sentences 3
  etads-rouge tagger.txt runs/mine/text/test.target
  etads-extract runs/mine/prepared hard.txt --by selector --selection runs/extractor --threshold 0.5 --at-least 5 \
      --sentences 30

  Sentences are separated by the documents' marks (etads-prepare --source-sentence-marks), and keep their order.""",
    )
    add = parser.add_argument
    add("data", metavar="DATA", type=Path, help="folder made by etads-prepare, or its bin folder")
    add("output", metavar="OUTPUT", type=Path, help="file for the summaries, with <q> between sentences")
    add("--by", choices=WAYS, required=True, help="see below")
    add("--subset", metavar="NAME", default="test", help="split (default: %(default)s)")
    add(
        "--selection",
        metavar="DIR",
        type=Path,
        help="output folder of etads-select, for selector, content, tagger and phrases",
    )
    add("--labels", metavar="DIR", type=Path, help="folder with the labels (default: with the data)")
    add(
        "--sentences",
        metavar="N",
        type=int,
        help="number of sentences (default: 3; oracle, labels and selector with --threshold: no limit)",
    )
    add(
        "--words",
        metavar="N",
        type=int,
        help="for selector and tagger, instead of --sentences: the most probable sentences with N words in total; "
        "for content: largest number of words of a summary (default: 1.15 times the mean of training)",
    )
    add(
        "--hypotheses",
        metavar="FILE",
        type=Path,
        help="for content: output of fairseq-generate for the same documents, with --nbest, or the log of "
        "scripts/generate.sh; its sentences are candidates next to the documents'",
    )
    add(
        "--threshold",
        metavar="P",
        type=float,
        help="threshold of phrases (default: 0.15) and of the selector (default: none)",
    )
    add(
        "--at-least",
        metavar="N",
        type=int,
        help="for the selector with --threshold: always take the N most probable (default: 1)",
    )
    add(
        "--truncate-source",
        metavar="N",
        type=int,
        help="read the first N tokens of a document (default: 400; content: the whole document)",
    )
    return parser


def _check(args: argparse.Namespace) -> None:
    """Raise InputError for options that have impossible values or no effect, or are missing."""
    check_positive(
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
        ("hypotheses", args.by == "content"),
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


@command(_parser, ValueError)
def main(args: argparse.Namespace) -> None:
    """Run ``etads-extract``."""
    _check(args)
    if args.truncate_source is None and args.by != "content":
        args.truncate_source = 400
    folder = binarised(args.data)
    from ..jobs.extract import write_extracts

    only_warnings()
    print(f"{args.output}: {write_extracts(folder, args, BY_PROBABILITIES.get(args.by))}")


if __name__ == "__main__":
    sys.exit(main())
