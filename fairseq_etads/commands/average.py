"""The command ``etads-average``: average the weights of several checkpoints."""

import argparse
import os
import sys
from pathlib import Path

from ..platform.console import Parser, command
from ..platform.errors import InputError
from ..platform.outputs import make_temporary_output


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-average",
        description="Average the weights of several checkpoints of one training run.",
        epilog="example:  etads-average runs/a/average.pt runs/a/checkpoints/checkpoint_1_*.pt",
    )
    parser.add_argument(
        "output", metavar="OUT", type=Path, help="output file for the averaged checkpoint; the file must not exist yet"
    )
    parser.add_argument("checkpoints", metavar="CHECKPOINT", nargs="+", help="fairseq-train checkpoints to average")
    return parser


@command(_build_parser, ValueError, RuntimeError)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-average``."""
    if args.output.exists():
        raise InputError(f"OUT {args.output} exists")
    for path in args.checkpoints:
        if not os.path.isfile(path):
            raise InputError(f"{path}: no such file")
    import torch

    from ..jobs.average import average_checkpoints

    with make_temporary_output(args.output) as partial:
        torch.save(average_checkpoints(args.checkpoints), partial)
    print(f"mean of {len(args.checkpoints)} checkpoints: {args.output}")


if __name__ == "__main__":
    sys.exit(main())
