"""The command ``etads-select``: compute a trained selector's probability of each word or sentence of the documents."""

import argparse
import sys
from pathlib import Path

from ..jobs.runs import add_run_options, checkpoint_and_data, only_warnings
from ..platform.console import Parser, check_positive, command


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-select",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Compute the probability that a trained content selector (--arch word_tagger, sentence_extractor) "
        "gives to each word or sentence of prepared documents, and write probabilities.words.SPLIT or "
        "probabilities.sentences.SPLIT.",
        epilog="""\
examples:
  etads-select runs/tagger                              # valid and test, by checkpoint_best.pt, into runs/tagger
  etads-select runs/tagger --subset train --report report.json

  fairseq-generate and etads-extract read these files with --selection. If labels of the same split exist
  (etads-labels), it reports how well the selector finds them: the area under the ROC curve, F1 at --threshold, and the
  best F1 of any threshold. docs/selection.md describes all this.""",
    )
    add = parser.add_argument
    add("run", metavar="RUN", type=Path, help="folder made by scripts/train.sh, with checkpoints/")
    add("--subset", metavar="NAME", nargs="+", default=["valid", "test"], help="splits (default: valid test)")
    add("--out", metavar="DIR", type=Path, help="folder for the files (default: RUN)")
    add(
        "--truncate-source",
        metavar="N",
        type=int,
        help="read the first N tokens of a document (default: as in training); later ones are not selected",
    )
    add("--labels", metavar="DIR", type=Path, help="folder with the labels (default: with the data)")
    add(
        "--threshold",
        metavar="P",
        type=float,
        default=0.15,
        help="a unit is selected if its probability is above P (default: %(default)s)",
    )
    add("--report", metavar="FILE", type=Path, help="also write the figures as JSON")
    add_run_options(add)
    return parser


@command(_parser, ValueError, RuntimeError)
def main(args: argparse.Namespace) -> None:
    """Run ``etads-select``."""
    check_positive(max_tokens=args.max_tokens, truncate_source=args.truncate_source)
    checkpoint, data = checkpoint_and_data(args)
    from ..jobs.select import select

    only_warnings()
    select(checkpoint, data, args)


if __name__ == "__main__":
    sys.exit(main())
