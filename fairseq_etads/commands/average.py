"""The command ``etads-average`` (train): average checkpoints."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List

from ..files.outputs import make_temporary_output
from ..platform.command_options import argument, format_option_name, options_command
from ..platform.errors import InputError


@dataclass
class AverageOptions:
    """Options of ``etads-average``."""

    output: Path = argument("OUT", "output file for the averaged checkpoint; the file must not exist yet")
    checkpoints: List[str] = argument("CHECKPOINT", "fairseq-train checkpoints to average", nargs="+")


_TRAINING_OPTION = re.compile(
    r"dropout|layerdrop|quant_noise|activations|embed_path|embed_from_text|output_bias_init|min_params|^data$"
)
"""Pattern for names of model options that affect training but not the meaning of the weights."""

_READING = ("truncate_source", "truncate_target", "no_end_if_cut")
"""Entries in the task state that describe how the training texts were truncated."""


def _load_checkpoint(path: str) -> Dict[str, Any]:
    """Load a checkpoint of fairseq-train with finite weights."""
    from fairseq import checkpoint_utils

    try:
        checkpoint = checkpoint_utils.load_checkpoint_to_cpu(path)
        infinite = [name for name, x in checkpoint["model"].items() if x.is_floating_point() and not x.isfinite().all()]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a checkpoint of fairseq-train ({type(error).__name__}: {error})") from None
    if infinite:
        raise ValueError(f"{path}: {infinite[0]} has weights that are not finite numbers")
    return dict(checkpoint)


def _get_model_identity(checkpoint: Dict[str, Any]) -> Dict[str, Any]:
    """Return options, dictionaries, truncation, names and shapes, which must be equal in checkpoints to average."""
    cfg = checkpoint.get("cfg") or {}
    options = {name: value for name, value in dict(cfg.get("model") or {}).items() if not _TRAINING_OPTION.search(name)}
    task = checkpoint.get("task_state") or {}
    data = {name: value for name, value in task.items() if name.endswith("_dictionary") or name in _READING}
    if "truncate_source" in data:
        data.setdefault("no_end_if_cut", False)  # earlier versions did not store this entry
    weights = {name: (tuple(x.shape), x.is_floating_point()) for name, x in checkpoint["model"].items()}
    return {**options, **data, **weights}


def average_checkpoints(paths: List[str]) -> Dict[str, Any]:
    """Average the weights of several checkpoints in float64. Other tensors must be equal in all checkpoints.

    Other entries are the first checkpoint's, without the states of the optimiser and of the exponential moving average.
    Raises ValueError if a file is not a checkpoint, or the models differ in what :func:`_get_model_identity` returns.
    """
    import torch

    result = _load_checkpoint(paths[0])
    identity, model = _get_model_identity(result), result["model"]
    sums = {name: value.double() for name, value in model.items() if value.is_floating_point()}
    for path in paths[1:]:
        checkpoint = _load_checkpoint(path)
        other = _get_model_identity(checkpoint)
        different = sorted(name for name in {*identity, *other} if identity.get(name) != other.get(name))
        if different and (name := different[0]) in _READING:
            values = f"{format_option_name(name)} was {other.get(name)} in {path} and {identity.get(name)}"
            raise ValueError(f"{values} in {paths[0]}: their models were trained on different text")
        weights = checkpoint["model"]
        others = [] if different else [name for name in model if name not in sums]
        different += [name for name in others if not torch.equal(weights[name], model[name])]
        if different:
            raise ValueError(f"{path} contains a different model from {paths[0]}: they differ in {different[0]}")
        for name in sums:
            sums[name] += weights[name]
    for name, total in sums.items():
        model[name] = (total / len(paths)).to(model[name].dtype)
    result.pop("last_optimizer_state", None)
    for name in ("ema", "ema_fp32_params"):
        result.get("extra_state", {}).pop(name, None)
    return result


@options_command(
    "etads-average",
    AverageOptions,
    ValueError,
    RuntimeError,
    description="Average the weights of several checkpoints of one training run.",
    epilog="example:  etads-average runs/a/average.pt runs/a/checkpoints/checkpoint_1_*.pt",
)
def main(args: AverageOptions) -> None:
    """Run the command ``etads-average``."""
    if args.output.exists():
        raise InputError(f"OUT {args.output} exists")
    paths = [os.path.realpath(path) for path in args.checkpoints]
    for path, real in zip(args.checkpoints, paths):
        if not os.path.isfile(path):
            raise InputError(f"{path}: no such file")
        if paths.count(real) > 1:
            raise InputError(f"CHECKPOINT {path} is given twice, and would count twice")
    import torch

    with make_temporary_output(args.output) as partial:
        torch.save(average_checkpoints(args.checkpoints), partial)
    print(f"mean of {len(args.checkpoints)} checkpoints: {args.output}")
