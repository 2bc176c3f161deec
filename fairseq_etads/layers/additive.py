"""Attention of a decoder that asks step by step: what a document has to answer with, made once and read in every step.

A recurrent decoder's next question depends on the last answer, so its steps cannot be one product. Autograd would make,
fill and add up a gradient of the size of the whole document in every step. Here a step's backward pass notes the little
that is needed, and when all steps have been there, the document's gradient is made once. What has the width of the
attention is computed again in the backward pass instead of kept for all steps, (B, S, A) for each of them.
"""

from typing import Any, Callable, List, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..attention import at_least_float32
from ..compat import backward_pass

_CACHED = 2**19
"""Values of float32 that are quick to go through several times: 2 MiB."""


class _Notes:
    """What the steps leave for the end of a backward pass.

    Not every pass takes them: one may break off, or need no gradient of what the steps read. The next one forgets them.
    """

    def __init__(self) -> None:
        self._items: List[Any] = []
        self._pass = -1

    def of_this_pass(self) -> List[Any]:
        if self._pass != backward_pass():
            self._items, self._pass = [], backward_pass()
        return self._items

    def taken(self) -> List[Any]:
        """The items, which are kept no longer."""
        items, self._items = self.of_this_pass(), []
        return items


class StepMemory:
    """States that attention reads in every step.

    Args:
        states: (B, S, M).
    """

    def __init__(self, states: Tensor):
        self._notes = _Notes()
        self.states = _Gathered.apply(states, self._notes, _products)

    def read(self, weights: Tensor) -> Tensor:
        """Attention (B, T, S) -> contexts (B, T, M), the sums of the states weighted by it."""
        return _Read.apply(weights, self.states, self._notes)


class StepKeys:
    """Keys of additive attention, which every step compares with its query.

    Args:
        keys: k (B, S, A).
    """

    def __init__(self, keys: Tensor):
        self._notes = _Notes()
        self.doubled = _Gathered.apply(2 * keys, self._notes, _only)

    def scores(
        self,
        query: Tensor,
        weight: Tensor,
        coverage: Optional[Tensor] = None,
        coverage_weight: Optional[Tensor] = None,
    ) -> Tensor:
        """e_tj = v · tanh(q_t + k_j [+ c_tj w_c]): Bahdanau et al. 2014; with coverage See et al. 2017, equation 11.

        Args:
            query: q (B, T, A), the decoder's part with the bias. weight: v (A,).
            coverage: c (B, T, S), attention spent in earlier steps. coverage_weight: w_c (A,).

        Returns:
            (B, T, S), at least float32.
        """
        # tanh(x) = 2 sigmoid(2x) - 1: on a CPU torch's sigmoid takes a sixth of the time of its tanh
        given = () if coverage is None or coverage_weight is None else (coverage, 2 * coverage_weight)
        scores = _SigmoidScores.apply(self._notes, 2 * query, self.doubled, weight, *given)
        return 2 * scores - at_least_float32(weight).sum()


class _Gathered(torch.autograd.Function):
    """A tensor as it is; its gradient is what ``total`` makes of what the steps have noted."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, notes: _Notes, total: Callable[[List[Any]], Tensor]) -> Tensor:
        ctx.notes, ctx.total = notes, total
        ctx.set_materialize_grads(False)
        return tensor.view_as(tensor)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, other: Optional[Tensor]) -> Tuple[Optional[Tensor], None, None]:
        noted = ctx.notes.taken()
        if not noted:
            return other, None, None
        total = ctx.total(noted)
        return total if other is None else total + other, None, None


def _products(noted: List[Any]) -> Tensor:
    """Sum over the steps of attention (B, T, S) times the gradient of its context (B, T, M): (B, S, M)."""
    weights, gradients = (torch.cat(steps, dim=1) for steps in zip(*noted))
    return torch.bmm(weights.transpose(1, 2), gradients)


def _only(noted: List[Any]) -> Tensor:
    """The one note, to which all steps have added."""
    return noted[0]


class _Read(torch.autograd.Function):
    """weights (B, T, S) times states (B, S, M); notes what :func:`_products` needs."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, states: Tensor, notes: _Notes) -> Tensor:
        weights = weights.to(states.dtype)
        ctx.save_for_backward(weights, states)
        ctx.notes = notes
        return torch.bmm(weights, states)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tuple[Tensor, None, None]:
        weights, states = ctx.saved_tensors
        gradient = gradient.to(states.dtype)  # autocast may have made the product in another type
        if ctx.needs_input_grad[1]:
            # detached: with its history a note would hold on to the graph, which holds the notes
            ctx.notes.of_this_pass().append((weights.detach(), gradient))
        return torch.bmm(gradient, states.transpose(1, 2)), None, None


class _SigmoidScores(torch.autograd.Function):
    """sigmoid(q_t + k_j [+ c_tj w_c]) · v, in at least float32; adds the keys' gradient to the one note."""

    @staticmethod
    def forward(ctx: Any, notes: _Notes, query: Tensor, keys: Tensor, weight: Tensor, *coverage: Tensor) -> Tensor:
        ctx.save_for_backward(query, keys, weight, *coverage)
        ctx.notes = notes
        weight = at_least_float32(weight)
        with torch.autocast(query.device.type, enabled=False):
            return torch.cat([_sigmoid(query, keys, *coverage, rows=rows) @ weight for rows in _pieces(query, keys)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tuple[Optional[Tensor], ...]:
        query, keys, weight, *coverage = ctx.saved_tensors
        weight, gradient = at_least_float32(weight), at_least_float32(gradient)
        noted = ctx.notes.of_this_pass()
        if not noted:
            noted.append(torch.zeros_like(at_least_float32(keys)))
        of_weight = of_place = torch.zeros_like(weight)
        of_query, of_coverage = [], []
        for rows in _pieces(query, keys):
            inner = _sigmoid(query, keys, *coverage, rows=rows)  # s (n, T, S, A)
            by_width = inner.view(-1, len(weight))
            of_weight = of_weight + gradient[rows].reshape(-1) @ by_width
            # g s (1 - s), still to multiply by v
            inner.addcmul_(inner, inner, value=-1).mul_(gradient[rows][..., None])
            of_query.append(inner.sum(dim=2))
            noted[0][rows].addcmul_(inner[:, 0] if inner.shape[1] == 1 else inner.sum(dim=1), weight)
            if coverage:
                covered, place = (at_least_float32(x) for x in coverage)
                of_coverage.append(inner @ (weight * place))
                of_place = of_place + covered[rows].reshape(-1) @ by_width
        covering = (torch.cat(of_coverage), of_place * weight) if coverage else ()
        return (None, torch.cat(of_query) * weight, None, of_weight, *covering)


def _pieces(query: Tensor, keys: Tensor) -> List[slice]:
    """Documents to go through at a time: all, or on a CPU as many as its cache holds the (n, T, S, A) values of."""
    documents, length, width = keys.shape
    size = max(1, query.shape[1] * length * width)
    step = max(1, documents if keys.is_cuda else _CACHED // size)
    return [slice(start, start + step) for start in range(0, max(1, documents), step)]


def _sigmoid(query: Tensor, keys: Tensor, *coverage: Tensor, rows: slice) -> Tensor:
    """Of the documents ``rows``: (B, T, A), (B, S, A), c (B, T, S) and w_c (A,) -> (n, T, S, A), a new tensor."""
    inner = at_least_float32(query[rows])[:, :, None] + at_least_float32(keys[rows])[:, None]
    if coverage:
        covered, weight = (at_least_float32(x) for x in coverage)
        inner.addcmul_(covered[rows][..., None], weight)
    return inner.sigmoid_()
