"""A cache for model outputs that depend only on the source documents.

Several searches over the same batch can share a cache, even if their decoding options differ.
"""

from typing import Any, Dict, Iterator, List, Optional

import torch
from torch import Tensor, nn


class EncoderCache:
    """A cache for the encoder output of one model, and for tensors that the decoder computes once per document.

    The tensors are stored on the CPU and are never modified. A search modifies only its own copies of the dictionaries.
    """

    def __init__(self) -> None:
        self._model: Any = None
        self.encoder_out: Any = None
        self.memory: Optional[Dict[nn.Module, Dict[str, Tensor]]] = None

    def get_encoder_out(self, model: Any, device: torch.device) -> Any:
        """Return the model's encoder output on ``device``, or None if it is not cached."""
        return _move_to_device(self.encoder_out, device) if self._model is model else None

    def store_encoder_out(self, model: Any, encoder_out: Any) -> None:
        """Store an encoder output, and remove all other values from the cache."""
        self._model, self.memory = model, None
        self.encoder_out = _move_to_device(encoder_out, torch.device("cpu"))

    def get_decoder_tensors(self, model: Any, device: torch.device) -> Optional[Dict[nn.Module, Dict[str, Tensor]]]:
        """Return the value of ``BeamState.memory`` after the first step on ``device``, or None if it is not cached."""
        return _move_to_device(self.memory, device) if self._model is model else None

    def store_decoder_tensors(self, memory: Dict[nn.Module, Dict[str, Tensor]]) -> None:
        """Store ``BeamState.memory`` after the first step of the model whose encoder output is stored."""
        if self.memory is None:
            self.memory = _move_to_device(memory, torch.device("cpu"))


class EncodedBatch:
    """A cache for the outputs of an ensemble for one batch, which the first search fills and later searches read.

    Pass the same object to all searches over a batch (:meth:`.generator.SummaryGenerator.generate`), and run only one
    search at a time. If a model of the ensemble is replaced, the outputs of the new model are computed. Do not train a
    model between the searches.
    """

    def __init__(self) -> None:
        self._models: List[EncoderCache] = []

    def get_model_cache(self, number: int) -> EncoderCache:
        """Return the cache for the model of the ensemble with this index, which starts from 0."""
        while len(self._models) <= number:
            self._models.append(EncoderCache())
        return self._models[number]

    @property
    def bytes(self) -> int:
        """Return the size of the cached tensors in bytes. Shared memory is counted only once."""
        tensors = _iterate_tensors([[model.encoder_out, model.memory] for model in self._models])
        storages = (tensor.untyped_storage() for tensor in tensors)
        return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def _move_to_device(value: Any, device: torch.device) -> Any:
    """Copy a nested structure of dictionaries, lists and tuples, and move its tensors to ``device``."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: _move_to_device(entry, device) for key, entry in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_move_to_device(entry, device) for entry in value))
    return type(value)(_move_to_device(entry, device) for entry in value) if isinstance(value, (list, tuple)) else value


def _iterate_tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _iterate_tensors(entry)
