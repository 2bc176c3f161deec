"""Additive and dot-product attention for a recurrent decoder. All decoding steps share the encoder's tensors.

Each query depends on the result of the previous step, so the steps cannot be computed in one matrix product. With plain
autograd, the backward pass of every step would allocate a gradient with the shape of the encoder states. In this
module, the backward pass of a step only records its inputs, and the gradient of the shared tensor is computed once,
after all steps. Tensors with the shape (B, S, A) are recomputed in the backward pass instead of being stored for each
step.
"""

from typing import Any, Callable, List, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..kernels.linear import widen_to_float32
from .embedding import get_backward_pass_id

_CACHED = 2**19
"""Number of float32 values that fit in a CPU cache of 2 MiB, so that repeated passes over them are fast."""


class _StepGradients:
    """Records from the backward passes of all decoding steps, used to compute the gradient of a shared tensor.

    The backward pass of the shared tensor consumes the records. Records can be left over if a backward pass was
    interrupted or did not need the gradient of the shared tensor. Leftover records are discarded when another backward
    pass starts.
    """

    def __init__(self) -> None:
        self._records: List[Any] = []
        self._pass = -1

    def get_backward_records(self) -> List[Any]:
        """Return the records of the current backward pass."""
        if self._pass != get_backward_pass_id():
            self._records, self._pass = [], get_backward_pass_id()
        return self._records

    def take_backward_records(self) -> List[Any]:
        """Return the records of the current backward pass, and delete them."""
        records, self._records = self.get_backward_records(), []
        return records


class SharedStates:
    """Encoder states (B, S, M), or keys of dot-product attention, that are shared by all decoding steps."""

    def __init__(self, states: Tensor):
        self._gradients = _StepGradients()
        self.states = _SharedTensorFunction.apply(states, self._gradients, _sum_state_gradients)

    def compute_scores(self, query: Tensor) -> Tensor:
        """Compute the scores q_t · k_j (B, T, S) of the queries (B, T, M), in float32 or higher precision."""
        return _ProductsFunction.apply(query, self.states, self._gradients)

    def compute_weighted_sum(self, weights: Tensor) -> Tensor:
        """Return the context vectors (B, T, M), which are sums of the states weighted by ``weights`` (B, T, S)."""
        return _WeightedSumFunction.apply(weights, self.states, self._gradients)


class SharedKeys:
    """Keys k (B, S, A) of additive attention, which are shared by all decoding steps."""

    def __init__(self, keys: Tensor):
        self._gradients = _StepGradients()
        self.doubled = _SharedTensorFunction.apply(2 * keys, self._gradients, _get_summed_gradient)

    def compute_scores(
        self,
        query: Tensor,
        weight: Tensor,
        coverage: Optional[Tensor] = None,
        coverage_weight: Optional[Tensor] = None,
    ) -> Tensor:
        """Compute the attention scores e_tj = v · tanh(q_t + k_j [+ c_tj w_c]).

        These are the scores of Bahdanau et al. 2014 or, with coverage, of See et al. 2017, equation 11.

        Args:
            query: the decoder's queries q (B, T, A), to which the bias has already been added.
            weight: the vector v (A,), which converts each hidden vector to a score.
            coverage: the coverage c (B, T, S), the sum of the attention weights over all earlier steps, or None.
            coverage_weight: the vector w_c (A,), by which the coverage is multiplied, or None.

        Returns:
            The attention scores (B, T, S), in float32 or higher precision.
        """
        # Compute tanh(x) as 2 sigmoid(2x) - 1, because torch's sigmoid is six times as fast as torch's tanh on a CPU.
        given = () if coverage is None or coverage_weight is None else (coverage, 2 * coverage_weight)
        scores = _SigmoidScoresFunction.apply(self._gradients, 2 * query, self.doubled, weight, *given)
        return 2 * scores - widen_to_float32(weight).sum()


class DotAttention(nn.Module):
    """Dot-product attention with scores h · k_j (Chopra et al. 2016). The module has no parameters."""

    from_word: Optional[nn.Linear] = None

    def forward(self, hidden: Tensor, word: Optional[Tensor], keys: SharedStates, *_: Any) -> Tensor:
        """Compute the scores (N, S) of one step from the states h (N, A); see :meth:`AdditiveAttention.forward`."""
        query = hidden.view(len(keys.states), -1, hidden.shape[1])  # (B, N/B, A)
        return keys.compute_scores(query).view(len(hidden), -1)


class AdditiveAttention(nn.Module):
    """Additive attention with scores v · tanh(W_h h + W_e E[o] + b + k_j) (Nallapati et al., section 2.3).

    The encoder provides the keys k_j = W_c h^d_j. E[o] is the embedding of the previous word. See et al. 2017 (equation
    1) do not use E[o]; the width ``word`` is then 0. The keys and v have the width ``width``.
    """

    def __init__(self, hidden: int, word: int, width: int):
        super().__init__()
        self.from_hidden = nn.Linear(hidden, width, bias=word == 0)
        self.from_word = nn.Linear(word, width) if word else None
        self.weight = nn.Parameter(torch.empty(width).uniform_(-(width**-0.5), width**-0.5))

    def forward(
        self,
        hidden: Tensor,
        word: Optional[Tensor],
        keys: SharedKeys,
        covered: Optional[Tensor] = None,
        coverage_weight: Optional[Tensor] = None,
    ) -> Tensor:
        """Compute the attention scores (N, S) of one decoding step.

        Args:
            hidden: the decoder states h (N, H). N is a multiple of the number of documents B.
            word: the output (N, A) of ``from_word`` for the previous words, or None if words are not used. The decoder
                computes this output for all steps at once.
            keys: the attention keys of the B documents.
            covered: the coverage c (N, S), which is the sum of the attention weights over all earlier steps, or None.
            coverage_weight: the vector w_c (A,), by which the coverage is multiplied, or None.
        """
        documents, _, width = keys.doubled.shape
        query = self.from_hidden(hidden)  # (N, A)
        query = (query if word is None else query + word).view(documents, -1, width)  # (B, N/B, A)
        if covered is not None:
            covered = covered.view(documents, query.shape[1], -1)  # (B, N/B, S)
        return keys.compute_scores(query, self.weight, covered, coverage_weight).view(len(hidden), -1)


class _SharedTensorFunction(torch.autograd.Function):
    """The identity function, with a gradient that ``total`` computes from the records of all steps."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, gradients: _StepGradients, total: Callable[[List[Any]], Tensor]) -> Tensor:
        ctx.gradients, ctx.total = gradients, total
        ctx.set_materialize_grads(False)
        return tensor.view_as(tensor)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, other: Optional[Tensor]) -> Tuple[Optional[Tensor], None, None]:
        records = ctx.gradients.take_backward_records()
        if not records:
            return other, None, None
        total = ctx.total(records)
        return total if other is None else total + other, None, None


def _sum_state_gradients(records: List[Any]) -> Tensor:
    """Sum attention weights (B, T, S) times context gradients (B, T, M) over all steps: (B, S, M)."""
    weights, gradients = (torch.cat(steps, dim=1) for steps in zip(*records))
    return torch.bmm(weights.transpose(1, 2), gradients)


def _get_summed_gradient(records: List[Any]) -> Tensor:
    """Return the only record, which is the sum (B, S, A) of the gradients of all steps."""
    return records[0]


class _WeightedSumFunction(torch.autograd.Function):
    """Multiplies attention weights (B, T, S) by encoder states (B, S, M).

    The backward pass records the inputs of :func:`_sum_state_gradients`.
    """

    @staticmethod
    def forward(ctx: Any, weights: Tensor, states: Tensor, gradients: _StepGradients) -> Tensor:
        weights = weights.to(states.dtype)
        ctx.save_for_backward(weights, states)
        ctx.gradients = gradients
        return torch.bmm(weights, states)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tuple[Tensor, None, None]:
        weights, states = ctx.saved_tensors
        gradient = gradient.to(states.dtype)  # autocast may have computed the product in another dtype
        if ctx.needs_input_grad[1]:
            # Detach the records. Otherwise, a record and the graph would keep each other alive.
            ctx.gradients.get_backward_records().append((weights.detach(), gradient))
        return torch.bmm(gradient, states.transpose(1, 2)), None, None


class _ProductsFunction(torch.autograd.Function):
    """Computes the products of queries (B, T, A) and keys (B, S, A) in float32 or higher precision.

    The backward pass records the inputs of :func:`_sum_state_gradients`.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, gradients: _StepGradients) -> Tensor:
        ctx.save_for_backward(query, keys)
        ctx.gradients = gradients
        with torch.autocast(query.device.type, enabled=False):
            return torch.bmm(widen_to_float32(query), widen_to_float32(keys).transpose(1, 2))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tuple[Tensor, None, None]:
        query, keys = ctx.saved_tensors
        if ctx.needs_input_grad[1]:
            ctx.gradients.get_backward_records().append((gradient, widen_to_float32(query.detach())))
        return torch.bmm(gradient, widen_to_float32(keys)).to(query.dtype), None, None


class _SigmoidScoresFunction(torch.autograd.Function):
    """Computes sigmoid(q_t + k_j [+ c_tj w_c]) · v in float32 or higher precision.

    The backward pass adds the gradient of the keys to a single record.
    """

    @staticmethod
    def forward(
        ctx: Any, gradients: _StepGradients, query: Tensor, keys: Tensor, weight: Tensor, *coverage: Tensor
    ) -> Tensor:
        ctx.save_for_backward(query, keys, weight, *coverage)
        ctx.gradients = gradients
        weight = widen_to_float32(weight)
        with torch.autocast(query.device.type, enabled=False):
            pieces = [
                _compute_sigmoid(query, keys, *coverage, rows=rows) @ weight for rows in _split_into_blocks(query, keys)
            ]
            return torch.cat(pieces)  # (B, T, S)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tuple[Optional[Tensor], ...]:
        query, keys, weight, *coverage = ctx.saved_tensors
        weight, gradient = widen_to_float32(weight), widen_to_float32(gradient)
        records = ctx.gradients.get_backward_records()
        if not records:
            records.append(torch.zeros_like(widen_to_float32(keys)))  # (B, S, A)
        d_weight = d_coverage_weight = torch.zeros_like(weight)
        d_query, d_coverage = [], []
        for rows in _split_into_blocks(query, keys):
            inner = _compute_sigmoid(query, keys, *coverage, rows=rows)  # s (n, T, S, A)
            by_width = inner.view(-1, len(weight))  # a view of the same memory, (n * T * S, A)
            d_weight = d_weight + gradient[rows].reshape(-1) @ by_width
            # From here on, ``inner`` contains g s (1 - s). The multiplication by v follows later.
            inner.addcmul_(inner, inner, value=-1).mul_(gradient[rows][..., None])
            d_query.append(inner.sum(dim=2))  # (n, T, A)
            records[0][rows].addcmul_(inner[:, 0] if inner.shape[1] == 1 else inner.sum(dim=1), weight)
            if coverage:
                covered, coverage_weight = (widen_to_float32(x) for x in coverage)
                d_coverage.append(inner @ (weight * coverage_weight))  # (n, T, S)
                d_coverage_weight = d_coverage_weight + covered[rows].reshape(-1) @ by_width
        of_coverage = (torch.cat(d_coverage), d_coverage_weight * weight) if coverage else ()
        return (None, torch.cat(d_query) * weight, None, d_weight, *of_coverage)


def _split_into_blocks(query: Tensor, keys: Tensor) -> List[slice]:
    """Split the batch into blocks of n documents whose tensors (n, T, S, A) fit in the CPU cache, or one on a GPU."""
    documents, length, width = keys.shape
    size = max(1, query.shape[1] * length * width)
    step = max(1, documents if keys.is_cuda else _CACHED // size)
    return [slice(start, start + step) for start in range(0, max(1, documents), step)]


def _compute_sigmoid(query: Tensor, keys: Tensor, *coverage: Tensor, rows: slice) -> Tensor:
    """Compute sigmoid(q + k [+ c w_c]) for the documents in ``rows``: a new contiguous tensor (n, T, S, A)."""
    inner = widen_to_float32(query[rows])[:, :, None] + widen_to_float32(keys[rows])[:, None]
    if coverage:
        covered, weight = (widen_to_float32(x) for x in coverage)
        inner.addcmul_(covered[rows][..., None], weight)
    return inner.sigmoid_().contiguous()  # a sum inherits the memory layout of its terms
