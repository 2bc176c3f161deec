"""The command ``etads-content``: train a content model from the run of an extractor or of a summariser."""

import argparse
import sys
from pathlib import Path

from ..jobs.run_record import prepared_of
from ..jobs.runs import only_warnings
from ..platform.console import Parser, check_positive, command
from ..search.content.features import DOCUMENTS
from .labels import binarised


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-content",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Train a content model of the probability that a summary has a word or bigram of its document. "
        "By it, decoding chooses among the hypotheses of the beam or, with an extractor, the sentences of a summary. "
        "Of an extractor's run it reads the probabilities written by etads-select for the split train. It writes "
        "RUN/content.npz.",
        epilog="""\
examples:
  etads-content runs/mine
  scripts/generate.sh --run runs/mine --output summaries.txt --content runs/mine
  etads-content runs/long/extractor
  etads-extract runs/long/extractor/prepared extract.txt --by content --selection runs/long/extractor
  scripts/generate.sh --run runs/long --output summaries.txt --content runs/long/extractor

  docs/decoding.md and docs/long.md describe the model.""",
    )
    add = parser.add_argument
    add(
        "run",
        metavar="RUN",
        type=Path,
        help="run of scripts/train.sh, or of an extractor, such as OUT/extractor of scripts/shorten.sh",
    )
    add("--prepared", metavar="DIR", type=Path, help="prepared data (default: the training's, or RUN/prepared)")
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
    folder = binarised(prepared_of(args.run, args.prepared))
    from ..jobs.content import train_content

    only_warnings()
    for said in train_content(args.run, folder, args.documents, args.seed):
        print(said)


if __name__ == "__main__":
    sys.exit(main())
