"""Read and write model weights in the safetensors format.

The files contain names, shapes and numbers, but no executable code.
"""

import math
import os
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..files.inputs import report_damage
from ..platform.errors import InputError

FLOATS = {"fp32": torch.float32, "fp16": torch.float16}
"""Floating-point dtypes that a weights file may contain, keyed by name."""
_RANDOM = ("normal_", "uniform_", "kaiming_uniform_")
"""Methods of tensors and functions of ``torch.nn.init`` that fill tensors with random numbers, also for the others."""
_CREATING = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn)
"""Functions that create tensors, except for ``torch.arange``. Their first argument can be the size."""


def write_weights(path: Path, tensors: Dict[str, Tensor]) -> None:
    """Write tensors to a file in the safetensors format. The tensors must not share memory."""
    from safetensors.torch import save_file

    save_file(tensors, str(path), metadata={"format": "pt"})
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(0o666 & ~umask)  # by default, only the owner can read files that safetensors creates


class _ModelBuilding(TorchFunctionMode):
    """A mode for building a model, in which weights are filled with zeros instead of random numbers.

    ValueError is raised before the total size of the tensors, or the number of times that a tensor is created or filled
    with random numbers, exceeds ``most_numbers`` or ``most_tensors``.
    """

    def __init__(self, most_numbers: int, most_tensors: int):
        super().__init__()
        self.numbers_left, self.tensors_left = most_numbers, most_tensors

    def __torch_function__(
        self, func: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Optional[Mapping[str, Any]] = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _CREATING or func is torch.arange:
            self._count(_count_numbers(func, args, kwargs))
        elif getattr(func, "__name__", "") in _RANDOM:
            self._count(0)  # torch repeats random fills until no number is outside the bounds of trunc_normal_
            with torch.no_grad():
                return (args[0] if args else kwargs["tensor"]).zero_()
        return func(*args, **kwargs)

    def _count(self, numbers: int) -> None:
        self.numbers_left -= numbers
        self.tensors_left -= 1
        if self.numbers_left < 0 or self.tensors_left < 0:
            raise ValueError("they describe a model that is much larger than the weights file")


def _count_numbers(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Return the size of the tensor that a function will create. The device "meta" would import torch's compiler."""
    if func is torch.arange:
        names = ("end",) if len(args) == 1 and "end" not in kwargs else ("start", "end", "step")
        bounds = {**dict(zip(names, args)), **kwargs}
        return math.ceil((bounds["end"] - bounds.get("start", 0)) / bounds.get("step", 1))
    size = kwargs.get("size", args[:1] if func is torch.full else args)
    return math.prod(size[0] if len(size) == 1 and isinstance(size[0], Sequence) else size)


class WeightsFile:
    """Weights file in a model folder.

    ``shared`` maps the name of each tied weight to the name of the weight that stores its values. Raises InputError,
    which ends in ``advice``, if the file is damaged, or the weights cannot be tied in this way.
    """

    def __init__(self, path: Path, shared: Dict[str, str], advice: str):
        from safetensors import safe_open

        self.path, self._shared, self._advice = path, shared, advice
        with report_damage(path, advice), safe_open(str(path), framework="pt") as file:
            names = list(file.keys())
            stored = {name: tuple(file.get_slice(name).get_shape()) for name in names}
        self.shapes = self._restore_tied_weights(stored)  # by names, as the header of the file says

    def limit_model(self) -> _ModelBuilding:
        """Return a context manager for building a model before its weights are loaded from this file.

        Initial weights are zeros instead of random numbers. ValueError is raised for models that are much larger than
        the file.
        """
        # Building a model also creates tensors that other tensors replace, for example if weights are tied.
        numbers = sum(map(math.prod, self.shapes.values()))
        return _ModelBuilding(8 * numbers + 2**24, 20 * len(self.shapes) + 1000)

    def check_weights(self, expected: Dict[str, Tensor]) -> None:
        """Raise InputError if the names or shapes in the file differ from the weights in ``expected``."""
        for name in sorted(set(self.shapes) ^ set(expected)):
            what = "lacks the weight" if name in expected else "has an unknown weight"
            raise InputError(f"{self.path} {what} {name[:100]!r}, so it belongs to another model. {self._advice}")
        for name, shape in self.shapes.items():
            wanted = tuple(expected[name].shape)
            if shape != wanted:
                differ = f"has the shape {shape}, but config.json and the dictionaries imply {wanted}"
                raise InputError(f"{self.path}: {name} {differ}: they do not belong together. {self._advice}")

    def read_weights(self, expected: Dict[str, Tensor]) -> Dict[str, Tensor]:
        """Read the weights for a model with the names, shapes and dtypes of ``expected``.

        Raises InputError if the file is damaged, belongs to another model, or contains values that are not finite.
        """
        from safetensors.torch import load_file

        self.check_weights(expected)
        with report_damage(self.path, self._advice):
            weights = self._restore_tied_weights(load_file(str(self.path)))
        for name, value in weights.items():
            wanted = FLOATS.values() if expected[name].is_floating_point() else [expected[name].dtype]
            if value.dtype not in wanted:
                raise InputError(f"{self.path}: {name} contains numbers of type {value.dtype}. {self._advice}")
            if value.is_floating_point() and not value.isfinite().all():
                raise InputError(f"{self.path}: {name} contains numbers that are not finite. {self._advice}")
        return weights

    def _restore_tied_weights(self, stored: Dict[str, Any]) -> Dict[str, Any]:
        for name, target in self._shared.items():
            if name in stored or target not in stored:
                said = f'"{name}" cannot share the weight "{target}" as config.json specifies'
                raise InputError(f"{self.path}: {said}. {self._advice}")
        return {**stored, **{name: stored[target] for name, target in self._shared.items()}}
