"""The command ``etads-likelihood``: compute the likelihood of reference summaries under a trained model."""

import argparse
import sys
from pathlib import Path

from ..evaluation.likelihood_file import make_likelihood_file_path
from ..platform.console import Parser, check_positive_options, command
from .run_options import add_run_options, find_checkpoint_and_data, silence_info_logs


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-likelihood",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Compute the log-likelihood of the reference summaries under a trained model. etads-compare "
        "--likelihood uses the results.",
        epilog="""\
examples:
  etads-likelihood runs/etads                    # score the test split with checkpoint_best.pt
  etads-likelihood runs/etads --subset valid --checkpoint last

  The log-likelihoods are written to RUN/likelihood-SUBSET-CHECKPOINT.json, and reused as long as the checkpoint and the
  data are unchanged. They are natural logarithms. The end symbol counts as a token of the summary.""",
    )
    add = parser.add_argument
    add("run", metavar="RUN", type=Path, help="run folder created by etads-train or scripts/quickstart.sh")
    add("--subset", metavar="NAME", default="test", help="split to score: train, valid or test (default: %(default)s)")
    add_run_options(add)
    return parser


@command(_build_parser, ValueError, RuntimeError)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-likelihood``."""
    checkpoint, data = find_checkpoint_and_data(args.run, args.checkpoint, args.prepared)
    check_positive_options(max_tokens=args.max_tokens)
    from ..jobs.likelihood import compute_split_likelihoods

    silence_info_logs()

    path = make_likelihood_file_path(args.run, args.subset, args.checkpoint)
    found, is_new = compute_split_likelihoods(checkpoint, data, args.subset, path, args.max_tokens, args.device)
    print(f"{path}: {found.format_mean_and_perplexity()}" + ("" if is_new else " (scored before)"))


if __name__ == "__main__":
    sys.exit(main())
