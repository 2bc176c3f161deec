"""The command ``etads-extract``: summaries that are sentences of their documents."""

import argparse
import sys
from pathlib import Path

from ..jobs.runs import only_warnings
from ..platform.console import Parser, check_positive, command
from ..platform.errors import InputError
from .labels import binarised

WAYS = ("lead", "oracle", "labels", "selector", "tagger", "phrases")
"""Values of ``--by``."""
BY_PROBABILITIES = {"selector": "sentences", "tagger": "words", "phrases": "words"}
"""Values of ``--by`` that need probabilities -> the unit of the probabilities."""


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-extract",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Extract sentences of prepared documents as summaries, one a line, which etads-rouge scores like "
        "any other.",
        epilog="""\
ways:
  lead       the first sentences
  oracle     the sentences that together recall the reference, chosen greedily: what extraction could reach at best
  labels     the same as etads-labels --kind extract has written them down, or those of --kind match
  selector   the sentences that etads-select finds likeliest (--arch sentence_extractor); with --threshold all that it
             finds likelier than that, but at least --at-least and at most --sentences
  tagger     the sentences whose words etads-select finds likeliest on average (--arch word_tagger)
  phrases    all words that it finds likelier than --threshold

examples:
  etads-extract runs/mine/prepared lead.txt --by lead
  etads-extract runs/mine/prepared tagger.txt --by tagger --selection runs/tagger --sentences 3
  etads-rouge tagger.txt runs/mine/text/test.target
  etads-extract runs/mine/prepared hard.txt --by selector --selection runs/extractor --threshold 0.5 --at-least 5 \
      --sentences 30

  Sentences are those of the documents' marks (etads-prepare --source-sentence-marks), in the documents' order.""",
    )
    add = parser.add_argument
    add("data", metavar="DATA", type=Path, help="what etads-prepare made, or its folder bin")
    add("output", metavar="OUTPUT", type=Path, help="where the summaries go, with <q> between sentences")
    add("--by", choices=WAYS, required=True, help="see below")
    add("--subset", metavar="NAME", default="test", help="split (default: %(default)s)")
    add("--selection", metavar="DIR", type=Path, help="what etads-select wrote, for selector, tagger and phrases")
    add("--labels", metavar="DIR", type=Path, help="where the labels are (default: beside the data)")
    add(
        "--sentences",
        metavar="N",
        type=int,
        help="how many sentences (default: 3; oracle, labels and selector with --threshold: as many as it takes)",
    )
    add("--threshold", metavar="P", type=float, help="of phrases (default: 0.15) and of the selector (default: none)")
    add(
        "--at-least",
        metavar="N",
        type=int,
        help="of the selector with --threshold: the N likeliest in any case (default: 1)",
    )
    add(
        "--truncate-source",
        metavar="N",
        type=int,
        default=400,
        help="read the first N tokens of a document (default: %(default)s)",
    )
    return parser


def _check(args: argparse.Namespace) -> None:
    """Raise InputError for options that have impossible values or no effect, or are missing."""
    check_positive(sentences=args.sentences, at_least=args.at_least, truncate_source=args.truncate_source)
    needs = args.by in BY_PROBABILITIES
    if needs and args.selection is None:
        raise InputError(f"--by {args.by}: needs --selection, the folder with what etads-select wrote")
    for option, has_effect in (
        ("selection", needs),
        ("labels", args.by == "labels"),
        ("threshold", args.by in ("phrases", "selector")),
        ("sentences", args.by not in ("oracle", "labels", "phrases")),
        ("at_least", args.by == "selector"),
    ):
        value = getattr(args, option)
        if value is not None and not has_effect:
            raise InputError(f"--{option.replace('_', '-')} {value}: has no effect with --by {args.by}")
    if args.at_least is not None and args.threshold is None:
        raise InputError(f"--at-least {args.at_least}: has no effect without --threshold")
    if args.at_least is not None and args.sentences is not None and args.at_least > args.sentences:
        raise InputError(f"--at-least {args.at_least}: is more than --sentences {args.sentences}")


@command(_parser, ValueError)
def main(args: argparse.Namespace) -> None:
    """Run ``etads-extract``."""
    _check(args)
    folder = binarised(args.data)
    from ..jobs.extract import write_extracts

    only_warnings()
    print(f"{args.output}: {write_extracts(folder, args, BY_PROBABILITIES.get(args.by))}")


if __name__ == "__main__":
    sys.exit(main())
