"""The command ``etads-select``: score the words or sentences of documents with a trained content selector."""

import argparse
import sys
from pathlib import Path

from ..platform.console import Parser, check_positive_options, command
from ..platform.outputs import check_output_paths
from .run_options import add_run_options, find_checkpoint_and_data, silence_info_logs


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-select",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Compute the selection probability of each word or sentence in prepared documents with a trained "
        "content selector (--arch word_tagger or sentence_extractor). The probabilities are written to "
        "probabilities.words.SPLIT or probabilities.sentences.SPLIT.",
        epilog="""\
examples:
  etads-select runs/tagger          # score valid and test with checkpoint_best.pt; write to runs/tagger
  etads-select runs/tagger --subset train --report report.json

  fairseq-generate and etads-extract read these files with --selection. If labels of the same split exist
  (etads-labels), the command reports how well the selector predicts them: the area under the ROC curve, the F1 at
  --threshold, and the best F1 at any threshold. See docs/selection.md for a description of selectors.""",
    )
    add = parser.add_argument
    add("run", metavar="RUN", type=Path, help="run folder created by etads-train, which contains checkpoints/")
    add(
        "--subset",
        metavar="NAME",
        nargs="+",
        default=["valid", "test"],
        help="splits for which to compute probabilities (default: valid test)",
    )
    add("--out", metavar="DIR", type=Path, help="output folder for the probabilities (default: RUN)")
    add(
        "--truncate-source",
        metavar="N",
        type=int,
        help="read only the first N tokens of each document; later tokens are never selected (default: the truncation "
        "length used for training)",
    )
    add("--labels", metavar="DIR", type=Path, help="folder containing the labels (default: the data folder)")
    add(
        "--threshold",
        metavar="P",
        type=float,
        default=0.15,
        help="probability above which a word or sentence counts as selected in the reported F1; the probability files "
        "do not depend on it (default: %(default)s)",
    )
    add("--report", metavar="FILE", type=Path, help="also write the evaluation results to FILE as JSON")
    add_run_options(add)
    return parser


@command(_build_parser, ValueError, RuntimeError)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-select``."""
    check_positive_options(max_tokens=args.max_tokens, truncate_source=args.truncate_source)
    check_output_paths({"--report": args.report}, {})
    checkpoint, data = find_checkpoint_and_data(args.run, args.checkpoint, args.prepared)
    from ..jobs.select import write_probabilities

    silence_info_logs()
    write_probabilities(checkpoint, data, args)


if __name__ == "__main__":
    sys.exit(main())
