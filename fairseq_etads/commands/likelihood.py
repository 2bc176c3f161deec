"""The command ``etads-likelihood``: compute each reference summary's likelihood under a trained model."""

import argparse
import sys
from pathlib import Path

from ..evaluation.likelihood_file import CHECKPOINTS, likelihood_file
from ..jobs.runs import checkpoint_and_data, only_warnings
from ..platform.console import Parser, check_positive, command


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-likelihood",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Score the reference summaries of a prepared data set by their log-likelihood under a trained "
        "model, for etads-compare --likelihood.",
        epilog="""\
examples:
  etads-likelihood runs/etads                    # the test split, by checkpoint_best.pt
  etads-likelihood runs/etads --subset valid --checkpoint last

  The figures are written to RUN/likelihood-SUBSET-CHECKPOINT.json and reused while the checkpoint and the data are
  unchanged. They are natural logarithms; the end symbol counts as a token of the summary.""",
    )
    add = parser.add_argument
    add("run", metavar="RUN", type=Path, help="folder made by scripts/train.sh or scripts/quickstart.sh")
    add("--subset", metavar="NAME", default="test", help="data set: train, valid or test (default: %(default)s)")
    add(
        "--checkpoint",
        choices=CHECKPOINTS,
        default="best",
        help="checkpoint_best.pt or checkpoint_last.pt of RUN (default: %(default)s)",
    )
    add(
        "--prepared",
        metavar="DIR",
        type=Path,
        help="prepared data (default: RUN/prepared, or the data used in training)",
    )
    add("--max-tokens", metavar="N", type=int, default=8000, help="source tokens per batch (default: %(default)s)")
    add("--device", help="device, such as cpu or cuda:0 (default: the GPU if there is one)")
    return parser


@command(_parser, ValueError, RuntimeError)
def main(args: argparse.Namespace) -> None:
    """Run ``etads-likelihood``."""
    checkpoint, data = checkpoint_and_data(args)
    check_positive(max_tokens=args.max_tokens)
    from ..jobs.likelihood import score_subset

    only_warnings()

    path = likelihood_file(args.run, args.subset, args.checkpoint)
    found, is_new = score_subset(checkpoint, data, args.subset, path, args.max_tokens, args.device)
    print(f"{path}: {found.summary()}" + ("" if is_new else " (scored before)"))


if __name__ == "__main__":
    sys.exit(main())
