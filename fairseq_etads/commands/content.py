"""The command ``etads-content``: train a content model from the run of an extractor."""

import argparse
import sys
from pathlib import Path

from ..evaluation.content.features import DOCUMENTS
from ..jobs.runs import only_warnings
from ..platform.console import Parser, check_positive, command
from .labels import binarised


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-content",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Train a content model of the probability that a summary has a word or bigram of its document. "
        "It reads the probabilities written by etads-select for the split train, and writes "
        "RUN/content.npz.",
        epilog="""\
examples:
  etads-content runs/long/extractor
  etads-extract runs/long/extractor/prepared extract.txt --by content --selection runs/long/extractor
  scripts/generate.sh --run runs/long --output summaries.txt --content runs/long/extractor

  docs/long.md describes the model.""",
    )
    add = parser.add_argument
    add("run", metavar="RUN", type=Path, help="run of an extractor, such as OUT/extractor of scripts/shorten.sh")
    add("--prepared", metavar="DIR", type=Path, help="prepared data of the extractor (default: RUN/prepared)")
    add(
        "--documents",
        metavar="N",
        type=int,
        default=DOCUMENTS,
        help="compute features for N training documents (default: %(default)s); words and bigrams are counted in all "
        "documents",
    )
    add("--seed", metavar="N", type=int, default=1, help="random seed (default: %(default)s)")
    return parser


@command(_parser, ValueError)
def main(args: argparse.Namespace) -> None:
    """Run ``etads-content``."""
    check_positive(documents=args.documents)
    folder = binarised(args.prepared or args.run / "prepared")
    from ..jobs.content import train_content

    only_warnings()
    for said in train_content(args.run, folder, args.documents, args.seed):
        print(said)


if __name__ == "__main__":
    sys.exit(main())
