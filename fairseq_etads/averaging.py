"""The command etads-average: one checkpoint whose weights are the mean of several.

fairseq has this as a script of its repository, which is not part of the installed package and loads files unsafely.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

import torch
from fairseq import checkpoint_utils
from torch import Tensor


def average_checkpoints(paths: List[str]) -> Dict[str, Any]:
    """The first checkpoint with the mean of all of their weights, without the optimiser's state.

    Floating-point weights are added in float64 and keep their format; of other numbers all must have the same.

    Raises:
        ValueError: no files, or weights of other names or shapes in some file.
    """
    if not paths:
        raise ValueError("no checkpoints to average")
    result: Dict[str, Any] = {}
    sums: Dict[str, Tensor] = {}
    for path in paths:
        checkpoint = checkpoint_utils.load_checkpoint_to_cpu(path)
        model: Dict[str, Tensor] = checkpoint["model"]
        if not result:
            result = checkpoint
            sums = {name: value.double() for name, value in model.items() if value.is_floating_point()}
            continue
        different = sorted(set(result["model"]) ^ set(model))
        different = different or [n for n in model if model[n].shape != result["model"][n].shape]
        if different:
            raise ValueError(f"{path} is of another model than {paths[0]}: they differ in {different[0]}")
        for name, value in model.items():
            if name in sums:
                sums[name] += value
            elif not torch.equal(value, result["model"][name]):
                raise ValueError(f"{path}: {name} is not a floating-point number and differs from that in {paths[0]}")
    for name, total in sums.items():
        result["model"][name] = (total / len(paths)).to(result["model"][name].dtype)
    result.pop("last_optimizer_state", None)
    return result


def main(argv: Optional[List[str]] = None) -> int:
    """The command; returns its exit code, 2 after an error, which is one line on stderr."""
    parser = argparse.ArgumentParser(
        prog="etads-average",
        description="Write a checkpoint whose weights are the mean of several of one training (or of several seeds).",
        epilog="example:  etads-average runs/a/average.pt runs/a/checkpoints/checkpoint_1_*.pt",
    )
    parser.add_argument("output", metavar="OUT", type=Path, help="checkpoint to write; must not exist")
    parser.add_argument("checkpoints", metavar="CHECKPOINT", nargs="+", help="checkpoints of fairseq-train")
    args = parser.parse_args(argv)
    try:
        if args.output.exists():
            raise ValueError(f"OUT {args.output} exists")
        result = average_checkpoints(args.checkpoints)
        partial = args.output.with_name(args.output.name + ".partial")
        torch.save(result, partial)
        os.replace(partial, args.output)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        said = f"no {error} in a checkpoint" if isinstance(error, KeyError) else error
        print(f"etads-average: error: {said}", file=sys.stderr)
        return 2
    print(f"mean of {len(args.checkpoints)} checkpoints: {args.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
