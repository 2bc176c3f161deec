"""The weights of a model folder as they are stored; :mod:`fairseq_etads.data.weights_file` reads and writes files."""

from typing import Any, Dict, Tuple

from torch import Tensor

from ...data.weights_file import FLOATS
from ...platform.errors import InputError


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
        stored = value.detach().to("cpu", FLOATS[dtype] if value.is_floating_point() else value.dtype)
        if stored.is_floating_point() and not stored.isfinite().all():
            why = "" if not value.isfinite().all() else f" in --dtype {dtype}; choose fp32"
            raise InputError(f"the weight {name} has numbers that are not finite{why}")
        tensors[name] = stored.contiguous().clone()  # alone in its memory, as safetensors wants it
    return tensors, shared
