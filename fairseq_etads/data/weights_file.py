"""Files of weights in the safetensors format: names, shapes and numbers, and no executable code."""

import os
from pathlib import Path
from typing import Dict

import torch
from torch import Tensor

from ..platform.errors import InputError

FLOATS = {"fp32": torch.float32, "fp16": torch.float16}
"""Floating-point dtypes allowed in a file."""


def write_weights(path: Path, tensors: Dict[str, Tensor]) -> None:
    """Write tensors that share no memory."""
    from safetensors.torch import save_file

    save_file(tensors, str(path), metadata={"format": "pt"})
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(0o666 & ~umask)  # safetensors would store it for the owner only


def read_weights(path: Path, shared: Dict[str, str], expected: Dict[str, Tensor], advice: str) -> Dict[str, Tensor]:
    """Read the weights of a file for a model.

    Args:
        shared: name of a tied weight -> name of the weight that is stored.
        expected: the model's own weights, for names, shapes and types.
        advice: what the user can do about a damaged file; a sentence without its full stop.

    Raises:
        InputError: the file is damaged, belongs to another model, or has numbers that are not finite.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        stored = load_file(str(path))
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, RuntimeError, OverflowError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path} is damaged, or not in the safetensors format ({reason}). {advice}") from None
    for name, target in shared.items():
        if name in stored or target not in stored:
            raise InputError(f'{path}: "{name}" cannot share the weight "{target}", as config.json says. {advice}')
    weights = {**stored, **{name: stored[target] for name, target in shared.items()}}
    for name in sorted(set(weights) ^ set(expected)):
        what = "lacks the weight" if name in expected else "has an unknown weight"
        raise InputError(f"{path} {what} {name[:100]!r}: it belongs to another model. {advice}")
    for name, value in weights.items():
        _check(path, name, value, expected[name], advice)
    return weights


def _check(path: Path, name: str, value: Tensor, expected: Tensor, advice: str) -> None:
    if value.shape != expected.shape:
        raise InputError(
            f"{path}: {name} has the shape {tuple(value.shape)}, but config.json and the dictionaries imply "
            f"{tuple(expected.shape)}: they do not belong together. {advice}"
        )
    fits = value.dtype in FLOATS.values() if expected.is_floating_point() else value.dtype == expected.dtype
    if not fits:
        raise InputError(f"{path}: {name} has numbers of the type {value.dtype}. {advice}")
    if value.is_floating_point() and not value.isfinite().all():
        raise InputError(f"{path}: {name} has numbers that are not finite. {advice}")
