"""Figures about attention for the log of a training: how much the gate lets through, where focus-attention looks."""

import contextlib
from typing import Dict, Iterator, Optional

import torch
from torch import Tensor, nn

from ..attention import attention_scores, attention_weights
from ..focus import document_positions

FIGURES = ("gate", "focus_distance", "focus_scope", "focus_share", "focus_strength")
"""Names in the log, each a mean over layers and heads.

gate: sum over j of g_ij a_ij, the share of the attention that the saliency gate lets through, at the middle word of
each summary; twice that with the forms that begin at 1. focus_distance: |mu_i - P_i| in tokens. focus_scope: sigma in
tokens. focus_share: sigma / m. focus_strength: the factor of the bias, where it is learned.
"""


class AttentionFigures:
    """Totals and counts of :data:`FIGURES` over the layers of one forward pass.

    One word of each summary is looked at, and of focus-attention only vectors: that costs no measurable time.

    Args:
        real: (B, T) bool, False at the padding of summaries, on either side.
    """

    def __init__(self, real: Tensor):
        order = real.cumsum(1)
        self._middle = (order == order[:, -1:].div(2, rounding_mode="floor") + 1).int().argmax(dim=1)  # (B,)
        self.totals: Dict[str, Tensor] = {}
        self.counts: Dict[str, Tensor] = {}

    def _add(self, name: str, values: Tensor, count: Tensor) -> None:
        for sums, value in ((self.totals, values.sum().float()), (self.counts, count.float())):
            sums[name] = sums[name] + value if name in sums else value

    @torch.no_grad()
    def add_focus(
        self, center: Tensor, scope: Tensor, strength: Optional[Tensor], key_padding_mask: Optional[Tensor]
    ) -> None:
        """Of a layer: mu and sigma (B, H, S) in tokens, strength (H,), mask (B, S)."""
        batch, heads, length = center.shape
        positions, lengths = document_positions(key_padding_mask, batch, length, center.device)
        real = torch.ones_like(positions) if key_padding_mask is None else (~key_padding_mask).float()
        weight, count = real[:, None], real.sum() * heads
        self._add("focus_distance", (center - positions[:, None]).abs() * weight, count)
        self._add("focus_scope", scope * weight, count)
        self._add("focus_share", scope / lengths[:, None, None] * weight, count)
        if strength is not None:
            self._add("focus_strength", strength * real.sum(), count)

    @torch.no_grad()
    def add_gate(
        self,
        q: Tensor,
        k: Tensor,
        gate_q: Tensor,
        gate_k: Tensor,
        key_padding_mask: Optional[Tensor],
        form: str,
        gate_level: Optional[Tensor],
    ) -> None:
        """Of a layer: what :func:`saliency_attention` is given."""
        index = self._middle[:, None, None, None].expand(-1, q.shape[1], 1, q.shape[3])
        weights = attention_weights(q.gather(2, index), k, key_padding_mask)  # (B, H, 1, S)
        logits = attention_scores(gate_q.gather(2, index), gate_k)
        if gate_level is not None:
            logits = logits + gate_level[:, None, None]
        gate = torch.sigmoid(logits) * (1 if form == "sigmoid" else 2)
        self._add("gate", gate * weights, weights.new_tensor(float(weights.shape[0] * weights.shape[1])))

    def logs(self) -> Dict[str, Tensor]:
        """Sums and counts (``NAME_count``) for the output of a criterion, which add up over batches and processes."""
        return {**self.totals, **{f"{name}_count": count for name, count in self.counts.items()}}


class Observed:
    """A mixin for attention modules that add to :class:`AttentionFigures`, if they are given one."""

    figures: Optional[AttentionFigures] = None


@contextlib.contextmanager
def observe(model: nn.Module, real: Tensor) -> Iterator[AttentionFigures]:
    """Figures of the forward passes inside the block; ``real`` as in :class:`AttentionFigures`."""
    figures = AttentionFigures(real)
    observed = [module for module in model.modules() if isinstance(module, Observed)]
    for module in observed:
        module.figures = figures
    try:
        yield figures
    finally:
        for module in observed:
            module.figures = None
