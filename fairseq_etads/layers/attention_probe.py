"""Observe values inside attention modules, to log figures in training or to explain summaries."""

import contextlib
from typing import Dict, Iterator, Mapping, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn

from ..attention import attention_weights, gate_logits
from ..kernels.focus import document_positions

FIGURES = ("gate", "focus_distance", "focus_scope", "focus_share", "focus_strength")
"""Names of the figures in the training log. All figures are means over layers and heads.

gate: sum over j of g_ij a_ij at the middle word i of each summary, which is the share of the attention that passes the
saliency gate, or twice this share for forms with the initial value 1. focus_distance: |mu_i - P_i| in tokens.
focus_scope: sigma in tokens. focus_share: sigma / m. focus_strength: factor of the bias, if it is learned.
"""


class GateInputs(NamedTuple):
    """The arguments of :func:`saliency_attention` in a layer, except for the values.

    The function describes the arguments.
    """

    q: Tensor
    k: Tensor
    gate_q: Tensor
    gate_k: Tensor
    key_padding_mask: Optional[Tensor]
    form: str
    gate_level: Optional[Tensor]

    def gate(self) -> Tuple[Tensor, Tensor]:
        """Compute the gate g and the attention before the gate is applied, (B, H, T, S) each.

        g is between 0 and 1, or between 0 and 2 for forms with the initial value 1. For "normalised", the weights are
        multiplied by g before they are divided by their sum.
        """
        weights = attention_weights(self.q, self.k, self.key_padding_mask)
        logits = gate_logits(self.gate_q, self.gate_k, self.gate_level)
        return torch.sigmoid(logits) * (1 if self.form == "sigmoid" else 2), weights


class AttentionObserver:
    """Interface for objects that receive values from an attention module during its forward pass."""

    def add_focus(
        self, center: Tensor, scope: Tensor, strength: Optional[Tensor], key_padding_mask: Optional[Tensor]
    ) -> None:
        """Receive mu and sigma (B, H, S) of focus-attention in tokens, the strength (H,) and the mask (B, S)."""

    def add_gate(self, inputs: GateInputs) -> None:
        """Receive the inputs of the gate in saliency-selection."""


class AttentionRecord(AttentionObserver):
    """The values that an attention module computed in its last forward pass, or None for values it does not compute.

    Attributes:
        center, scope: mu and sigma (B, H, S) of focus-attention, in tokens.
        strength: factors (H,) of the bias.
        gate: gate g (B, H, T, S) of saliency-selection; see :meth:`GateInputs.gate`.
        form: form of the gate.
        gated: final attention weights (B, H, T, S): g times the attention, divided by its sum for "normalised".
    """

    center: Optional[Tensor] = None
    scope: Optional[Tensor] = None
    strength: Optional[Tensor] = None
    gate: Optional[Tensor] = None
    gated: Optional[Tensor] = None
    form: Optional[str] = None

    @torch.no_grad()
    def add_focus(
        self, center: Tensor, scope: Tensor, strength: Optional[Tensor], key_padding_mask: Optional[Tensor]
    ) -> None:
        self.center, self.scope, self.strength = center, scope, strength

    @torch.no_grad()
    def add_gate(self, inputs: GateInputs) -> None:
        self.gate, weights = inputs.gate()
        gated = self.gate * weights
        self.gated = gated / gated.sum(-1, keepdim=True) if inputs.form == "normalised" else gated
        self.form = inputs.form


class AttentionStatistics(AttentionObserver):
    """Sums and counts of :data:`FIGURES` over all layers in a forward pass.

    For speed, the gate is read at only one word of each summary, and only the vectors of focus-attention are read.

    Args:
        real: (B, T), bool, False at padding in summaries, which may be on either side.
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
    def add_gate(self, inputs: GateInputs) -> None:
        index = self._middle[:, None, None, None].expand(-1, inputs.q.shape[1], 1, inputs.q.shape[3])
        middle = inputs._replace(q=inputs.q.gather(2, index), gate_q=inputs.gate_q.gather(2, index))
        gate, weights = middle.gate()  # (B, H, 1, S)
        self._add("gate", gate * weights, weights.new_full((), weights.shape[0] * weights.shape[1]))

    def logs(self) -> Dict[str, Tensor]:
        """Return sums (``NAME``) and counts (``NAME_count``), which a criterion adds up over batches and processes."""
        return {**self.totals, **{f"{name}_count": count for name, count in self.counts.items()}}


class Observed:
    """A mixin for attention modules that report values to an :class:`AttentionObserver`, if one is set."""

    observer: Optional[AttentionObserver] = None


@contextlib.contextmanager
def _observing(observers: Mapping[Observed, AttentionObserver]) -> Iterator[None]:
    for module, observer in observers.items():
        module.observer = observer
    try:
        yield
    finally:
        for module in observers:
            module.observer = None


@contextlib.contextmanager
def observe(model: nn.Module, real: Tensor) -> Iterator[AttentionStatistics]:
    """Collect figures in the forward passes within a ``with`` block. For ``real``, see :class:`AttentionStatistics`."""
    figures = AttentionStatistics(real)
    with _observing({module: figures for module in model.modules() if isinstance(module, Observed)}):
        yield figures


@contextlib.contextmanager
def record(model: nn.Module) -> Iterator[Dict[str, AttentionRecord]]:
    """Record the values of all observable attention modules in a forward pass within a ``with`` block.

    The result maps the names of the modules to their records.
    """
    named = {name: module for name, module in model.named_modules() if isinstance(module, Observed)}
    records = {name: AttentionRecord() for name in named}
    with _observing({named[name]: records[name] for name in named}):
        yield records
