"""The command ``etads-content``: train a content model from the run of an extractor."""

import argparse
import sys
from pathlib import Path

from ..jobs.runs import only_warnings
from ..platform.console import Parser, check_positive, command
from .labels import binarised

DOCUMENTS = 4000


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-content",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Train a content model: the probability that a summary has a word or bigram of its document. It "
        "reads the probabilities that etads-select wrote for the split train, and writes RUN/content.npz.",
        epilog="""\
examples:
  etads-content runs/long/extractor
  etads-extract runs/long/extractor/prepared extract.txt --by content --selection runs/long/extractor
  scripts/generate.sh --run runs/long --output summaries.txt --content runs/long/extractor

  docs/long.md describes the model.""",
    )
    add = parser.add_argument
    add("run", metavar="RUN", type=Path, help="run of an extractor (scripts/shorten.sh: OUT/extractor)")
    add("--prepared", metavar="DIR", type=Path, help="data of the extractor (default: RUN/prepared)")
    add(
        "--documents",
        metavar="N",
        type=int,
        default=DOCUMENTS,
        help="number of training documents whose features are computed (default: %(default)s); words and bigrams are "
        "counted in all",
    )
    add("--seed", metavar="N", type=int, default=1, help="seed (default: %(default)s)")
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
