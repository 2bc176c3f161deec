"""The command ``etads-average``: write a checkpoint whose weights are the mean of several checkpoints' weights."""

import argparse
import os
import sys
from pathlib import Path
from typing import List, Optional

from ..platform.console import Parser, run
from ..platform.errors import InputError
from ..platform.outputs import writing_by_name


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-average",
        description="Write a checkpoint whose weights are the mean of those of several checkpoints of one training.",
        epilog="example:  etads-average runs/a/average.pt runs/a/checkpoints/checkpoint_1_*.pt",
    )
    parser.add_argument("output", metavar="OUT", type=Path, help="checkpoint to write; must not exist")
    parser.add_argument("checkpoints", metavar="CHECKPOINT", nargs="+", help="checkpoints of fairseq-train")
    return parser


def _average(args: argparse.Namespace) -> None:
    if args.output.exists():
        raise InputError(f"OUT {args.output} exists")
    for path in args.checkpoints:
        if not os.path.isfile(path):
            raise InputError(f"{path}: no such file")
    # here, so that --help, --version and wrong options are answered without waiting for torch
    from .. import plugin  # noqa: F401  # first: it keeps fairseq quiet and makes checkpoints load safely

    import torch  # isort: skip
    from ..jobs.average import average_checkpoints  # isort: skip

    with writing_by_name(args.output) as partial:
        torch.save(average_checkpoints(args.checkpoints), partial)
    print(f"mean of {len(args.checkpoints)} checkpoints: {args.output}")


def main(argv: Optional[List[str]] = None) -> int:
    """Run ``etads-average`` and return its exit code, 2 after an error, which is one line on stderr."""
    args = _parser().parse_args(argv)
    return run("etads-average", lambda: _average(args), ValueError, RuntimeError)


if __name__ == "__main__":
    sys.exit(main())
