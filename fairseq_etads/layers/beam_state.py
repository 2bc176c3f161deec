"""Incremental decoding in which the beams of a document share the document's tensors.

fairseq repeats the encoder's output, and therefore all projected keys and values, for each beam, and copies all caches
when hypotheses are reordered. Here, a document has only one row. The beams of a document are rows of queries to the
same keys, and reordering hypotheses does not move any key or value.

- Values that are computed once per document, such as projected keys and values, are stored in :attr:`BeamState.memory`.
- The earlier steps of the decoder are stored as a row per document, with a column for each beam and step. With a mask,
  each hypothesis sees only the columns of its ancestors. Columns without descendants are dropped every few steps.

With a :class:`BeamState` as ``incremental_state``, rows are ordered by document, then by beam.
"""

from typing import Dict, Optional, Tuple

import torch
from torch import Tensor, nn

IncrementalState = Dict[str, Dict[str, Optional[Tensor]]]
"""fairseq's cache of earlier steps of modules."""

COMPACTION_INTERVAL = 8
"""Number of steps between two compactions of the cache. They must be rare, because each copies all visible columns."""


def _select(x: Tensor, rows: Tensor) -> Tensor:
    """Select rows of a tensor without changing its memory layout. A plain index_select would make rows contiguous."""
    if x.dim() > 2 and not x.is_contiguous() and x.transpose(-1, -2).is_contiguous():
        return x.transpose(-1, -2).index_select(0, rows).transpose(-1, -2)
    return x.index_select(0, rows)


class BeamState(Dict[str, Dict[str, Optional[Tensor]]]):
    """An ``incremental_state`` for fairseq's modules in which the beams of a document share tensors.

    The dictionary itself works as in fairseq: a module with a state per *row* stores the state there and reorders it in
    ``reorder_incremental_state``. Modules that use :attr:`memory` and :meth:`remember` do not need to reorder anything.

    Attributes:
        documents: B, the number of documents.
        beam: current number of beams per document. There are B * beam rows.
        dtype: data type of keys and values and of products with them, or None for the data type of the module.
        memory: module -> name -> tensor with a row per document.
        visible: mask (B, beam, columns) of the columns that each hypothesis sees, including the current step.
    """

    def __init__(self, documents: int, device: torch.device, dtype: Optional[torch.dtype] = None):
        super().__init__()
        self.dtype = dtype
        self.documents = documents
        self.beam = 1
        self.memory: Dict[nn.Module, Dict[str, Tensor]] = {}
        self.visible = torch.zeros(documents, 1, 0, dtype=torch.bool, device=device)
        # (B, 1, beam, columns): the negation of ``visible`` for masked_fill, with a dimension for heads
        self.hidden = self.visible
        self._past: Dict[nn.Module, Tuple[Tensor, Tensor]] = {}  # keys and values (B, H, columns + free columns, D)
        self._free_steps = 0  # number of further steps that fit into the cached tensors

    def begin_step(self) -> None:
        """Add a column for each beam, which only this beam sees. Call this before the decoder."""
        if self._free_steps == 0:
            self._compact()
        self._free_steps -= 1
        own = torch.eye(self.beam, dtype=torch.bool, device=self.visible.device).expand(self.documents, -1, -1)
        self.visible = torch.cat([self.visible, own], dim=2)
        self.hidden = ~self.visible.unsqueeze(1)

    def remember(self, module: nn.Module, key: Tensor, value: Tensor) -> Tuple[Tensor, Tensor]:
        """Store the keys and values (B, H, beam, D) of this step. Returns keys and values of all columns."""
        columns, dtype = self.visible.size(2), self.dtype or key.dtype
        if module not in self._past:
            documents, heads, beam, width = key.shape
            shape = (documents, heads, columns + self._free_steps * beam, width)
            self._past[module] = (key.new_empty(shape, dtype=dtype), value.new_empty(shape, dtype=dtype))
        keys, values = self._past[module]
        keys[:, :, columns - self.beam : columns] = key
        values[:, :, columns - self.beam : columns] = value
        return keys[:, :, :columns], values[:, :, :columns]

    def reorder(self, parents: Tensor, documents: Optional[Tensor] = None) -> None:
        """Reorder hypotheses: each new hypothesis sees the same columns as the old one that it continues.

        Args:
            parents: (B', beam'), index of the old beam of the same document that each new beam continues.
            documents: (B',), indices of the remaining documents, or None if all remain.
        """
        if documents is not None:
            for tensors in self.memory.values():
                for name, tensor in tensors.items():
                    tensors[name] = _select(tensor, documents)
            for module, (keys, values) in self._past.items():
                self._past[module] = keys.index_select(0, documents), values.index_select(0, documents)
            self.visible = self.visible.index_select(0, documents)
        if parents.size(1) != self.beam:
            self._free_steps = 0  # free columns were allocated for the old number of beams
        self.documents, self.beam = parents.shape
        self.visible = self.visible.gather(1, parents.unsqueeze(-1).expand(-1, -1, self.visible.size(2)))

    def _compact(self) -> None:
        """Drop the columns that no hypothesis sees, and allocate free columns for the next steps."""
        self._free_steps = COMPACTION_INTERVAL
        columns = self.visible.size(2)
        seen = self.visible.any(1)  # (B, columns)
        kept = int(seen.sum(1).max()) if columns else 0
        # Documents differ in their numbers of visible columns. Documents with fewer visible columns keep some invisible
        # ones.
        order = seen.int().argsort(dim=1, descending=True, stable=True)[:, :kept]  # (B, kept)
        self.visible = self.visible.gather(2, order.unsqueeze(1).expand(-1, self.beam, -1))
        for module, (keys, values) in self._past.items():
            self._past[module] = (self._with_columns(keys, order), self._with_columns(values, order))

    def _with_columns(self, past: Tensor, kept: Tensor) -> Tensor:
        """Copy the columns ``kept`` (B, k) of ``past`` (B, H, columns, D), and append free columns."""
        documents, heads, columns, width = past.shape
        count = kept.size(1)
        result = past.new_empty(documents, heads, count + self._free_steps * self.beam, width)
        first = torch.arange(documents * heads, device=past.device).view(documents, heads, 1) * columns
        index = (first + kept.unsqueeze(1)).view(-1)  # indices into the B * H * columns rows
        result[:, :, :count] = past.view(-1, width).index_select(0, index).view(documents, heads, count, width)
        return result
