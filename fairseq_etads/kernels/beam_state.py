"""Incremental decoding in which all beams of a document share the document's tensors.

fairseq repeats the encoder output, and therefore all projected keys and values, for each beam. When hypotheses are
reordered, fairseq copies all caches. In this module, each document has only one row. The beams of a document are
treated as additional queries for the same keys, and reordering hypotheses does not move any keys or values.

- Tensors that are computed once per document, such as projected keys and values, are stored in
  :attr:`BeamState.memory`.
- The keys and values of earlier decoding steps are stored in one row per document, with a column for each beam and
  step. A mask ensures that each hypothesis sees only the columns of its ancestors. Every few steps, columns that
  no hypothesis sees are dropped.

If ``incremental_state`` is a :class:`BeamState`, rows are sorted by document and then by beam.
"""

from typing import Dict, Optional, Tuple

import torch
from torch import Tensor, nn

IncrementalState = Dict[str, Dict[str, Optional[Tensor]]]
"""The cache in which fairseq's modules store the results of earlier decoding steps."""

COMPACTION_INTERVAL = 8
"""Number of steps between two compactions of the cache.

Compactions should be rare, because each of them copies all visible columns.
"""


def _select_rows(x: Tensor, rows: Tensor) -> Tensor:
    """Select rows of a tensor, but keep its memory layout, unlike a plain index_select."""
    if x.dim() > 2 and not x.is_contiguous() and x.transpose(-1, -2).is_contiguous():
        return x.transpose(-1, -2).index_select(0, rows).transpose(-1, -2)
    return x.index_select(0, rows)


class BeamState(Dict[str, Dict[str, Optional[Tensor]]]):
    """An ``incremental_state`` for fairseq's modules that lets the beams of a document share tensors.

    As in fairseq, modules with a separate state for each *row* store this state in the dictionary and reorder it in
    ``reorder_incremental_state``. Modules that use :attr:`memory` and :meth:`append_keys_and_values` do not need to
    reorder anything.

    Attributes:
        documents: B, the number of documents in the batch.
        beam: the current number of beams per document. There are B * beam rows.
        dtype: the data type of keys, values and their products, or None to use the module's data type.
        memory: a nested dictionary from modules and tensor names to tensors with one row per document.
        visible: the boolean mask (B, beam, columns), True for the columns that a hypothesis sees, including the column
            of the current step.
    """

    def __init__(self, documents: int, device: torch.device, dtype: Optional[torch.dtype] = None):
        super().__init__()
        self.dtype = dtype
        self.documents = documents
        self.beam = 1
        self.memory: Dict[nn.Module, Dict[str, Tensor]] = {}
        self.visible = torch.zeros(documents, 1, 0, dtype=torch.bool, device=device)
        # (B, 1, beam, columns): the negation of ``visible`` with an additional dimension for heads, used in masked_fill
        self.hidden = self.visible
        self._past: Dict[nn.Module, Tuple[Tensor, Tensor]] = {}  # keys and values (B, H, columns + free columns, D)
        self._free_steps = 0  # number of steps for which the cached tensors still have space

    def begin_step(self) -> None:
        """For each beam, add one column that is visible only to that beam.

        Call this method before each decoder step.
        """
        if self._free_steps == 0:
            self._drop_unused_columns()
        self._free_steps -= 1
        own = torch.eye(self.beam, dtype=torch.bool, device=self.visible.device).expand(self.documents, -1, -1)
        self.visible = torch.cat([self.visible, own], dim=2)
        self.hidden = ~self.visible.unsqueeze(1)

    def append_keys_and_values(self, module: nn.Module, key: Tensor, value: Tensor) -> Tuple[Tensor, Tensor]:
        """Store the keys and values (B, H, beam, D) of this step, and return the keys and values of all columns."""
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
        """Reorder the hypotheses. Each new hypothesis sees the same columns as its parent.

        Args:
            parents: the index (B', beam') of the old beam that each new beam continues. Both beams belong to the same
                document.
            documents: the indices (B',) of the documents that remain in the batch, or None to keep all documents.
        """
        if documents is not None:
            for tensors in self.memory.values():
                for name, tensor in tensors.items():
                    tensors[name] = _select_rows(tensor, documents)
            for module, (keys, values) in self._past.items():
                self._past[module] = keys.index_select(0, documents), values.index_select(0, documents)
            self.visible = self.visible.index_select(0, documents)
        if parents.size(1) != self.beam:
            self._free_steps = 0  # the free columns were allocated for a different number of beams
        self.documents, self.beam = parents.shape
        self.visible = self.visible.gather(1, parents.unsqueeze(-1).expand(-1, -1, self.visible.size(2)))

    def _drop_unused_columns(self) -> None:
        """Drop the columns that no hypothesis sees, and allocate free columns for the next steps."""
        self._free_steps = COMPACTION_INTERVAL
        columns = self.visible.size(2)
        seen = self.visible.any(1)  # (B, columns)
        kept = int(seen.sum(1).max()) if columns else 0
        # The number of visible columns differs between documents. Documents with fewer visible columns also keep some
        # invisible columns.
        order = seen.int().argsort(dim=1, descending=True, stable=True)[:, :kept]  # (B, kept)
        self.visible = self.visible.gather(2, order.unsqueeze(1).expand(-1, self.beam, -1))
        for module, (keys, values) in self._past.items():
            self._past[module] = (self._copy_columns(keys, order), self._copy_columns(values, order))

    def _copy_columns(self, past: Tensor, kept: Tensor) -> Tensor:
        """Copy the columns with indices ``kept`` (B, k) from ``past`` (B, H, columns, D), and append free columns."""
        documents, heads, columns, width = past.shape
        count = kept.size(1)
        result = past.new_empty(documents, heads, count + self._free_steps * self.beam, width)
        first = torch.arange(documents * heads, device=past.device).view(documents, heads, 1) * columns
        index = (first + kept.unsqueeze(1)).view(-1)  # indices into the B * H * columns rows
        result[:, :, :count] = past.view(-1, width).index_select(0, index).view(documents, heads, count, width)
        return result
