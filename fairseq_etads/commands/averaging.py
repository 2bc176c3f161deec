"""The command etads-average: one checkpoint whose weights are the mean of several.

fairseq has this as a script of its repository, which is not part of the installed package and loads files unsafely.
"""

import argparse
import contextlib
import os
import re
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

import torch
from fairseq import checkpoint_utils
from torch import Tensor

_NOT_THE_MODEL = re.compile(r"dropout|layerdrop|quant_noise|activations|embed_path|min_params|^data$")
"""Options of a model that change how it is trained and not what its weights mean."""


def _load(path: str) -> Dict[str, Any]:
    """A checkpoint of fairseq-train; ValueError if it is something else."""
    if not os.path.isfile(path):
        raise ValueError(f"{path}: no such file")
    try:
        checkpoint = checkpoint_utils.load_checkpoint_to_cpu(path)
        weights = checkpoint["model"].values()
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a checkpoint of fairseq-train ({type(error).__name__}: {error})") from None
    if not all(isinstance(value, Tensor) for value in weights):
        raise ValueError(f"{path}: not a checkpoint of fairseq-train (its model holds other things than tensors)")
    for name, value in checkpoint["model"].items():
        if value.is_floating_point() and not value.isfinite().all():
            raise ValueError(f"{path}: {name} has weights that are not finite numbers")
    return dict(checkpoint)


def _description(checkpoint: Dict[str, Any]) -> Dict[str, Any]:
    """All that two checkpoints must have in common: options of the model, dictionaries, weights and their shapes."""
    cfg = checkpoint.get("cfg") or {}
    options = {name: value for name, value in dict(cfg.get("model") or {}).items() if not _NOT_THE_MODEL.search(name)}
    task = checkpoint.get("task_state") or {}
    dictionaries = {name: value for name, value in task.items() if name.endswith("_dictionary")}
    weights = {name: (tuple(x.shape), x.is_floating_point()) for name, x in checkpoint["model"].items()}
    return {**options, **dictionaries, **weights}


def average_checkpoints(paths: List[str]) -> Dict[str, Any]:
    """The first checkpoint with the mean of all of their weights, without the states of optimiser and EMA.

    Floating-point weights are added in float64 and keep their format; of other numbers all must have the same.

    Raises:
        ValueError: no files, what is no checkpoint, or another model, by its options, dictionaries or weights.
    """
    if not paths:
        raise ValueError("no checkpoints to average")
    result = _load(paths[0])
    described, model = _description(result), result["model"]
    sums = {name: value.double() for name, value in model.items() if value.is_floating_point()}
    for path in paths[1:]:
        checkpoint = _load(path)
        other = _description(checkpoint)
        different = sorted(name for name in {*described, *other} if described.get(name) != other.get(name))
        if different:
            raise ValueError(f"{path} is of another model than {paths[0]}: they differ in {different[0]}")
        for name, value in checkpoint["model"].items():
            if name in sums:
                sums[name] += value
            elif not torch.equal(value, model[name]):
                raise ValueError(f"{path}: {name} is not a floating-point number and differs from that in {paths[0]}")
    for name, total in sums.items():
        model[name] = (total / len(paths)).to(model[name].dtype)
    result.pop("last_optimizer_state", None)
    for name in ("ema", "ema_fp32_params"):
        result.get("extra_state", {}).pop(name, None)
    return result


def main(argv: Optional[List[str]] = None) -> int:
    """The command; returns its exit code, 2 after an error, which is one line on stderr."""
    parser = argparse.ArgumentParser(
        prog="etads-average",
        description="Write a checkpoint whose weights are the mean of several of one training.",
        epilog="example:  etads-average runs/a/average.pt runs/a/checkpoints/checkpoint_1_*.pt",
    )
    parser.add_argument("output", metavar="OUT", type=Path, help="checkpoint to write; must not exist")
    parser.add_argument("checkpoints", metavar="CHECKPOINT", nargs="+", help="checkpoints of fairseq-train")
    args = parser.parse_args(argv)
    partial = args.output.with_name(args.output.name + ".partial")
    try:
        if args.output.exists():
            raise ValueError(f"OUT {args.output} exists")
        torch.save(average_checkpoints(args.checkpoints), partial)
        os.replace(partial, args.output)
    except (OSError, ValueError, RuntimeError) as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        print(f"etads-average: error: {error}", file=sys.stderr)
        return 2
    print(f"mean of {len(args.checkpoints)} checkpoints: {args.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
