"""Observe intermediate values of attention modules, to log statistics during training or to explain summaries."""

import contextlib
from typing import Dict, Iterator, Mapping, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor, nn

from ..attention import attention_weights, compute_token_positions, gate_logits

FIGURES = ("gate", "focus_distance", "focus_scope", "focus_share", "focus_strength")
"""Names of the attention statistics in the training log. All statistics are means over layers and heads.

- gate: the total attention that passes the saliency gate, which is the sum of g_ij a_ij over j, computed at the middle
  word i of each summary. The maximum is 1, or 2 if the gate values are between 0 and 2.
- focus_distance: the distance |mu_i - P_i| between the centre of attention and the query's position, in tokens.
- focus_scope: the scope sigma, in tokens.
- focus_share: the scope divided by the document length, sigma / m.
- focus_strength: the learned factor by which the focal bias is multiplied, if there is one.
"""


class GateInputs(NamedTuple):
    """The arguments that a layer passes to :func:`~fairseq_etads.attention.saliency_attention`, except for the values.

    For a description of the arguments, see that function.
    """

    q: Tensor
    k: Tensor
    gate_q: Tensor
    gate_k: Tensor
    key_padding_mask: Optional[Tensor]
    form: str
    gate_level: Optional[Tensor]

    def compute_gate(self) -> Tuple[Tensor, Tensor]:
        """Return the gate g and the attention weights before the gate is applied, (B, H, T, S) each.

        The gate is between 0 and 1 if its form is "sigmoid", and otherwise between 0 and 2, with the initial value 1.
        For "normalised", the weights are multiplied by g and then divided by their sum.
        """
        weights = attention_weights(self.q, self.k, self.key_padding_mask)
        logits = gate_logits(self.gate_q, self.gate_k, self.gate_level)
        return torch.sigmoid(logits) * (1 if self.form == "sigmoid" else 2), weights


class AttentionRecord:
    """The values from the last forward pass of an attention module. Values that the module does not compute are None.

    Attributes:
        center, scope: the centres mu and the scopes sigma (B, H, S) of focus-attention, in tokens.
        strength: the factor (H,) by which each head multiplies the focal bias.
        gate: the saliency gate g (B, H, T, S); see :meth:`GateInputs.compute_gate`.
        form: the form of the saliency gate, such as "sigmoid" or "normalised".
        gated: the final attention weights (B, H, T, S), which are the product of the gate and the attention weights.
            For "normalised", this product is divided by its sum.
    """

    center: Optional[Tensor] = None
    scope: Optional[Tensor] = None
    strength: Optional[Tensor] = None
    gate: Optional[Tensor] = None
    gated: Optional[Tensor] = None
    form: Optional[str] = None

    @torch.no_grad()
    def receive_focus_parameters(
        self, center: Tensor, scope: Tensor, strength: Optional[Tensor], key_padding_mask: Optional[Tensor]
    ) -> None:
        self.center, self.scope, self.strength = center, scope, strength

    @torch.no_grad()
    def receive_gate_inputs(self, inputs: GateInputs) -> None:
        self.gate, weights = inputs.compute_gate()
        gated = self.gate * weights
        self.gated = gated / gated.sum(-1, keepdim=True) if inputs.form == "normalised" else gated
        self.form = inputs.form


class AttentionStatistics:
    """Sums and counts from which the statistics in :data:`FIGURES` are computed.

    For speed, the gate is computed at only one word of each summary. For focus-attention, only the centres, scopes and
    strengths are read.

    Args:
        real: the boolean mask (B, T) of the summaries, False at padding. Padding may be on either side.
    """

    def __init__(self, real: Tensor):
        order = real.cumsum(1)
        self._middle = (order == order[:, -1:].div(2, rounding_mode="floor") + 1).int().argmax(dim=1)  # (B,)
        self.totals: Dict[str, Tensor] = {}
        self.counts: Dict[str, Tensor] = {}

    def _accumulate_statistic(self, name: str, values: Tensor, count: Tensor) -> None:
        for sums, value in ((self.totals, values.sum().float()), (self.counts, count.float())):
            sums[name] = sums[name] + value if name in sums else value

    @torch.no_grad()
    def receive_focus_parameters(
        self, center: Tensor, scope: Tensor, strength: Optional[Tensor], key_padding_mask: Optional[Tensor]
    ) -> None:
        batch, heads, length = center.shape
        positions, lengths = compute_token_positions(key_padding_mask, batch, length, center.device)
        real = torch.ones_like(positions) if key_padding_mask is None else (~key_padding_mask).float()
        weight, count = real[:, None], real.sum() * heads
        self._accumulate_statistic("focus_distance", (center - positions[:, None]).abs() * weight, count)
        self._accumulate_statistic("focus_scope", scope * weight, count)
        self._accumulate_statistic("focus_share", scope / lengths[:, None, None] * weight, count)
        if strength is not None:
            self._accumulate_statistic("focus_strength", strength * real.sum(), count)

    @torch.no_grad()
    def receive_gate_inputs(self, inputs: GateInputs) -> None:
        index = self._middle[:, None, None, None].expand(-1, inputs.q.shape[1], 1, inputs.q.shape[3])
        middle = inputs._replace(q=inputs.q.gather(2, index), gate_q=inputs.gate_q.gather(2, index))
        gate, weights = middle.compute_gate()  # (B, H, 1, S)
        self._accumulate_statistic("gate", gate * weights, weights.new_full((), weights.shape[0] * weights.shape[1]))

    def to_logging_output(self) -> Dict[str, Tensor]:
        """Return sums (``NAME``) and counts (``NAME_count``). A criterion adds them up over batches and processes."""
        return {**self.totals, **{f"{name}_count": count for name, count in self.counts.items()}}


AttentionObserver = Union[AttentionRecord, AttentionStatistics]


class ObservableAttention:
    """A mixin for attention modules. If an observer is set, the module reports its values to the observer.

    These are mu and sigma (B, H, S) of focus-attention in tokens, the strength (H,) and a padding mask (B, S), or the
    inputs of the saliency gate.
    """

    observer: Optional[AttentionObserver] = None


@contextlib.contextmanager
def _attach_observers(observers: Mapping[ObservableAttention, AttentionObserver]) -> Iterator[None]:
    for module, observer in observers.items():
        module.observer = observer
    try:
        yield
    finally:
        for module in observers:
            module.observer = None


@contextlib.contextmanager
def observe_attention(model: nn.Module, real: Tensor) -> Iterator[AttentionStatistics]:
    """Collect attention statistics within a ``with`` block. For ``real``, see :class:`AttentionStatistics`."""
    figures = AttentionStatistics(real)
    with _attach_observers({module: figures for module in model.modules() if isinstance(module, ObservableAttention)}):
        yield figures


@contextlib.contextmanager
def record_attention(model: nn.Module) -> Iterator[Dict[str, AttentionRecord]]:
    """Record the values of all observable attention modules during a forward pass in a ``with`` block.

    The context manager yields a dictionary from module names to records.
    """
    named = {name: module for name, module in model.named_modules() if isinstance(module, ObservableAttention)}
    records = {name: AttentionRecord() for name in named}
    with _attach_observers({named[name]: records[name] for name in named}):
        yield records
