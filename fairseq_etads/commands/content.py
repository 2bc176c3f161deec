"""The command ``etads-content``: train a content model for an extractor or a summariser."""

import argparse
import sys
from pathlib import Path

from ..data.run_record import find_prepared_folder
from ..platform.console import Parser, check_positive_options, command
from ..search.content.features import DOCUMENTS
from .run_options import get_binarised_folder, silence_info_logs


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-content",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Train a content model and write it to RUN/content.npz. A content model predicts the probability "
        "that a summary contains a given word or bigram of its document. During decoding, it chooses among the "
        "hypotheses in the beam or, with an extractor, chooses the sentences of a summary. If RUN is the run folder "
        "of an extractor, run etads-select on the train split first.",
        epilog="""\
examples:
  etads-content runs/mine
  etads-summarize runs/mine --split test --output summaries.txt
  etads-content runs/long/extractor
  etads-extract runs/long/extractor/prepared extract.txt --by content --selection runs/long/extractor
  etads-summarize runs/long --split test --output summaries.txt --content runs/long/extractor

  See docs/decoding.md and docs/long.md for descriptions of the model.""",
    )
    add = parser.add_argument
    add(
        "run",
        metavar="RUN",
        type=Path,
        help="run folder created by etads-train, or run folder of an extractor, such as OUT/extractor from "
        "scripts/shorten.sh",
    )
    add(
        "--prepared",
        metavar="DIR",
        type=Path,
        help="folder containing the prepared data (default: the data used for training, or RUN/prepared)",
    )
    add(
        "--documents",
        metavar="N",
        type=int,
        default=DOCUMENTS,
        help="number of training documents from which features are computed (default: %(default)s); word and bigram "
        "counts always come from all documents",
    )
    add("--seed", metavar="N", type=int, default=1, help="random seed (default: %(default)s)")
    return parser


@command(_build_parser, ValueError)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-content``."""
    check_positive_options(documents=args.documents)
    folder = get_binarised_folder(find_prepared_folder(args.run, args.prepared))
    from ..jobs.content import train_content_model

    silence_info_logs()
    for said in train_content_model(args.run, folder, args.documents, args.seed):
        print(said)


if __name__ == "__main__":
    sys.exit(main())
