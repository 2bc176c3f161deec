"""Models' outputs that depend only on documents, cached for further searches over the same batch with other options."""

from typing import Any, Dict, Iterator, List, Optional

import torch
from torch import Tensor, nn


class EncodedModel:
    """One model's encoder output for a batch, and the tensors that its decoder computes from it once per document.

    Everything is kept on the CPU and only read: a search modifies its own dictionaries.
    """

    def __init__(self) -> None:
        self._model: Any = None
        self._encoder_out: Any = None
        self._memory: Optional[Dict[nn.Module, Dict[str, Tensor]]] = None

    def encoder_out(self, model: Any, device: torch.device) -> Any:
        """Return the output of the model's encoder on ``device``; None if it is not cached."""
        return _moved(self._encoder_out, device) if self._model is model else None

    def keep_encoder_out(self, model: Any, encoder_out: Any) -> None:
        """Store the encoder's output, replacing the cached content."""
        self._model, self._memory = model, None
        self._encoder_out = _moved(encoder_out, torch.device("cpu"))

    def memory(self, model: Any, device: torch.device) -> Optional[Dict[nn.Module, Dict[str, Tensor]]]:
        """Return :attr:`BeamState.memory` after the first step, on ``device``; None if it is not cached."""
        memory: Optional[Dict[nn.Module, Dict[str, Tensor]]] = _moved(self._memory, device)
        return memory if self._model is model else None

    def keep_memory(self, memory: Dict[nn.Module, Dict[str, Tensor]]) -> None:
        """Store :attr:`BeamState.memory`, as it is after the first step, with the encoder output of the same model."""
        if self._memory is None:
            self._memory = _moved(memory, torch.device("cpu"))

    def tensors(self) -> Iterator[Tensor]:
        """Iterate over all cached tensors."""
        yield from _tensors([self._encoder_out, self._memory])


class EncodedBatch:
    """An ensemble's outputs for a batch. The first search fills it, and later ones read it.

    Pass the same object to all searches over one batch (:meth:`SummaryGenerator.generate`), one at a time. Outputs of
    another model are computed again; a model must not be trained between searches.
    """

    def __init__(self) -> None:
        self._models: List[EncodedModel] = []

    def of(self, number: int) -> EncodedModel:
        """Return the part that belongs to the ensemble's model ``number``, from 0."""
        while len(self._models) <= number:
            self._models.append(EncodedModel())
        return self._models[number]

    @property
    def bytes(self) -> int:
        """Return the memory used, in bytes; tensors that share memory count once."""
        storages = (tensor.untyped_storage() for model in self._models for tensor in model.tensors())
        return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def _moved(value: Any, device: torch.device) -> Any:
    """Copy nested dictionaries and lists, with the same tensors on ``device``."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: _moved(entry, device) for key, entry in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_moved(entry, device) for entry in value))
    return type(value)(_moved(entry, device) for entry in value) if isinstance(value, (list, tuple)) else value


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _tensors(entry)
