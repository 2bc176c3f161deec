"""The command ``etads-shorten``: shorten long documents to their most probable sentences."""

import argparse
import sys
from pathlib import Path

from ..jobs.runs import silence_info_logs
from ..platform.console import Parser, check_positive_options, command
from ..platform.errors import InputError
from ..text.picking import FACTOR, WORDS


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-shorten",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Shorten the documents of a parallel corpus to their most probable sentences according to an "
        "extractor. The sentences keep their original order. The shortened corpus is input for etads-prepare.",
        epilog=f"""\
Files in OUT for each split of the data:
  SPLIT.source              the picked sentences of each document on one line, with <q> between them
  SPLIT.source.{FACTOR:<12} the probability of each picked sentence, as a level from 1 to 8
  SPLIT.target              the summaries of TEXT
File in RUN, which etads-export --extractor RUN reads:
  picking.json              the number of words to pick and the boundaries of the levels

examples:
  etads-prepare runs/mine/text full --source-sentence-marks --tokens word --size 20000 --words ptb
  etads-labels full --kind f1 --truncate-source 100000
  fairseq-train full/bin --arch pooled_extractor …
  etads-select runs/extractor --prepared full --subset train valid test
  etads-shorten runs/mine/text short --run runs/extractor --prepared full --words 200
  etads-prepare short prepared --factors {FACTOR}

  scripts/shorten.sh runs all of these commands except the last. docs/long.md describes them.""",
    )
    add = parser.add_argument
    add("text", metavar="TEXT", type=Path, help="folder containing {train,valid,test}.{source,target}")
    add("out", metavar="OUT", type=Path, help="output folder for the shortened text")
    add(
        "--run",
        metavar="RUN",
        type=Path,
        required=True,
        help="folder containing the probabilities written by etads-select",
    )
    add(
        "--prepared",
        metavar="DIR",
        type=Path,
        help="output folder of etads-prepare for TEXT, to which etads-select applied the extractor (default: "
        "RUN/prepared)",
    )
    add(
        "--words",
        metavar="N",
        type=int,
        default=WORDS,
        help="maximum total number of words in the picked sentences of a document (default: %(default)s)",
    )
    add("--subset", metavar="NAME", nargs="+", help="splits to shorten (default: train, valid and test, if present)")
    return parser


@command(_build_parser, ValueError)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-shorten``."""
    check_positive_options(words=args.words)
    args.prepared = args.prepared or args.run / "prepared"
    if not args.text.is_dir():
        raise InputError(f"TEXT {args.text}: there is no such folder")
    if args.out.resolve() == args.text.resolve():
        raise InputError(
            f"OUT {args.out}: is the same folder as TEXT, where its documents would be overwritten; name another folder"
        )
    from ..jobs.shorten import write_shortened_splits

    silence_info_logs()
    for said in write_shortened_splits(args):
        print(said)


if __name__ == "__main__":
    sys.exit(main())
