"""The weights of a model folder, in the format safetensors: names, shapes and numbers, and nothing that could run."""

import os
from pathlib import Path
from typing import Any, Dict, Tuple

import torch
from torch import Tensor

from ..text.files import InputError
from .config import ADVICE

_FLOATS = {"fp32": torch.float32, "fp16": torch.float16}


def stored_form(state: Dict[str, Tensor], dtype: str) -> Tuple[Dict[str, Tensor], Dict[str, str]]:
    """The tensors to store, on the CPU, and the names of those that are the same as another one.

    Args:
        state: of a model. dtype: "fp32" or "fp16", for floating-point numbers.

    Returns:
        name -> tensor, tied tensors once; name of each further tied tensor -> name under which it is stored.

    Raises:
        InputError: a number is not finite, or would not be in this format.
    """
    tensors: Dict[str, Tensor] = {}
    shared: Dict[str, str] = {}
    first: Dict[Any, str] = {}
    for name, value in state.items():
        identity = (value.data_ptr(), value.shape, value.stride(), value.dtype)
        if value.numel() and first.setdefault(identity, name) != name:
            shared[name] = first[identity]
            continue
        stored = value.detach().to("cpu", _FLOATS[dtype] if value.is_floating_point() else value.dtype)
        if stored.is_floating_point() and not stored.isfinite().all():
            why = "" if not value.isfinite().all() else f" in --dtype {dtype}; choose fp32"
            raise InputError(f"the weight {name} has numbers that are not finite{why}")
        tensors[name] = stored.contiguous().clone()  # alone in its memory, as safetensors wants it
    return tensors, shared


def write_weights(path: Path, tensors: Dict[str, Tensor]) -> None:
    """Write tensors that share no memory."""
    from safetensors.torch import save_file

    save_file(tensors, str(path), metadata={"format": "pt"})
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(0o666 & ~umask)  # safetensors would leave it to the owner alone


def read_weights(path: Path, shared: Dict[str, str], expected: Dict[str, Tensor]) -> Dict[str, Tensor]:
    """The weights of a file, for a model.

    Args:
        shared: as :func:`stored_form` returns it. expected: the model's own weights, for names, shapes and types.

    Raises:
        InputError: the file is damaged, is not of this model, or has numbers that are not finite.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        stored = load_file(str(path))
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, RuntimeError, OverflowError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path} is damaged, or not in the format safetensors ({reason}). {ADVICE}") from None
    for name, target in shared.items():
        if name in stored or target not in stored:
            raise InputError(f'{path}: "{name}" cannot share the weight "{target}", as config.json says. {ADVICE}')
    weights = {**stored, **{name: stored[target] for name, target in shared.items()}}
    for name in sorted(set(weights) ^ set(expected)):
        what = "lacks the weight" if name in expected else "has an unknown weight"
        raise InputError(f"{path} {what} {name[:100]!r}: it belongs to another model. {ADVICE}")
    for name, value in weights.items():
        _check(path, name, value, expected[name])
    return weights


def _check(path: Path, name: str, value: Tensor, expected: Tensor) -> None:
    if value.shape != expected.shape:
        raise InputError(
            f"{path}: {name} has the shape {tuple(value.shape)}, and the model of config.json and the dictionaries "
            f"{tuple(expected.shape)}: they do not belong together. {ADVICE}"
        )
    fits = value.dtype in _FLOATS.values() if expected.is_floating_point() else value.dtype == expected.dtype
    if not fits:
        raise InputError(f"{path}: {name} has numbers of the type {value.dtype}. {ADVICE}")
    if value.is_floating_point() and not value.isfinite().all():
        raise InputError(f"{path}: {name} has numbers that are not finite. {ADVICE}")
