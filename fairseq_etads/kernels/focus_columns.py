"""Focus-attention with fused kernels, in which additional columns add the focal bias to the scores.

The columns are concatenated to queries and keys, so the dot products include the focal bias, and no T x S tensor is
needed. Shapes: B is the batch size, H the number of heads, T the number of queries, S the number of keys, D the head
width, N the number of parts or blocks in a document, C the number of columns for the bias, and G the number of columns
for its gradient. docs/experiments.md reports how exact the results are.
"""

import math
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .operators import flash_attention, flash_attention_backward, has_flash_attention

SCOPE_FLOOR = 0.1
"""Minimum value of the scope sigma in tokens.

With this scope, the bias at a distance of one token is already -200, so the attention is one-hot, and a smaller scope
would have no effect. Without a minimum, equation 7 would divide by zero when the sigmoid underflows.
"""

LARGEST_PART = 1024
"""Maximum number of tokens for which the columns use the same origin.

In parts of up to this size, enough bits remain for multiples of x^2, where x is the distance from the origin.
"""

_GRADIENT_BLOCKS = 4  # 1 + 2 * 4 gradient columns, 6 value columns and 1 column for padding: 16 in all, a multiple of 8
PADDING_SCORE = -1e9  # exp() of this number is 0 in float32, but unlike -inf, it keeps rows without real tokens finite


class FocusParameters(NamedTuple):
    """The centres mu, the scopes sigma and the factors of the focal bias, (B, H, T) each.

    If ``strength`` is None, all factors are 1.
    """

    center: Tensor
    scope: Tensor
    strength: Optional[Tensor]

    @property
    def needs_gradient(self) -> bool:
        return any(x is not None and x.requires_grad for x in self)

    def apply(self, change: Callable[[Tensor], Tensor]) -> "FocusParameters":
        return FocusParameters(*(None if x is None else change(x) for x in self))  # type: ignore[arg-type]

    def split_queries(self, rows: int) -> "List[FocusParameters]":
        """Split the queries into groups of ``rows`` queries, and return the parameters of each group."""
        starts = range(0, self.center.shape[2], rows)
        return [self.apply(lambda x, start=start: x[:, :, start : start + rows]) for start in starts]  # type: ignore[misc]


def _compute_bias_coefficients(focus: FocusParameters, origin: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """Return the coefficients of x^2, x and 1 in -(P - mu)^2 * 2 / sigma^2 * strength, where x = P - origin."""
    steepness = 2.0 / focus.scope.clamp(min=SCOPE_FLOOR) ** 2
    if focus.strength is not None:
        steepness = steepness * focus.strength
    offset = origin - focus.center
    return -steepness, -2.0 * steepness * offset, -steepness * offset**2


def _divide_into_blocks(positions: Tensor, lengths: Tensor, per_part: int) -> Tuple[Tensor, Tensor, Tensor]:
    """Divide documents into blocks: sizes (B, 1), first positions (B, N), and each token's block (B, S)."""
    count = per_part * (lengths / LARGEST_PART).ceil()[:, None]
    width = (lengths[:, None] / count).ceil()
    most = per_part * -(-positions.shape[1] // LARGEST_PART)
    block = torch.minimum((positions / width).floor(), count - 1).long()
    return width, torch.arange(most, device=positions.device) * width, block


def compute_bias_columns(focus: FocusParameters, positions: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor]:
    """Compute columns for queries (B, H, T, 6 N) and keys (B, S, 6 N) with dot products equal to the focal bias.

    The columns have no gradient. Far from the origin, the three terms of the polynomial are thousands of times larger
    than their sum. Therefore, each coefficient is split into a multiple of a unit and a remainder. The powers of x are
    integers. The unit is chosen so that the products of these multiples and the powers, and their partial sums, fit
    in 24 bits and are not rounded. Long documents are divided into N blocks of at most ``LARGEST_PART`` tokens, each
    with a separate origin and separate columns.
    """
    width, first, block = _divide_into_blocks(positions, lengths, 1)
    origins = first + ((width - 1) / 2).floor()  # (B, N)
    x = positions - origins.gather(1, block)  # (B, S)
    with torch.no_grad():
        focus, origin = focus.apply(lambda x: x.double()[..., None]), origins.double()[:, None, None]
        square, slope, level = _compute_bias_coefficients(focus, origin)  # (B, H, T, N), square (B, H, T, 1)
        reach = torch.maximum((origin - focus.center).abs(), width.double()[:, None, None] / 2 + 1)
        largest = (square.abs() * reach**2 * 4).clamp(min=1e-30)  # keeps log2 finite if the strength is 0
        unit = torch.exp2(torch.ceil(torch.log2(largest)) - 23).unsqueeze(-1)
        coefficients = torch.stack([square.expand_as(level), slope, level], dim=-1)  # (B, H, T, N, 3)
        exact = torch.round(coefficients / unit) * unit
        queries = torch.cat([exact.flatten(3), (coefficients - exact).flatten(3)], dim=-1)
    powers = torch.stack([x * x, x, torch.ones_like(x)], dim=-1)  # (B, S, 3)
    member = F.one_hot(block, origins.shape[1]).to(powers.dtype)  # (B, S, N)
    keys = (member.unsqueeze(-1) * powers.unsqueeze(2)).flatten(2)  # (B, S, 3 N)
    return queries, torch.cat([keys, keys], dim=-1)


def compute_gradient_columns(focus: FocusParameters, positions: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor]:
    """Compute columns that add exactly 0 to the scores but pass gradients to ``center``, ``scope`` and ``strength``.

    Returns columns for queries (B, H, T, 1 + 2 N) and for keys (B, S, 1 + 2 N). The gradient is a difference between
    moments of the positions, which loses precision far from the origin. Therefore, every ``LARGEST_PART`` tokens are
    divided into four blocks with separate origins, and a shorter document is also divided into four blocks.
    """
    width, first, block = _divide_into_blocks(positions, lengths, _GRADIENT_BLOCKS)
    origins = first + (width / 2).floor()  # (B, N)
    member = F.one_hot(block, origins.shape[1]).to(positions.dtype)  # (B, S, N)
    x = positions - origins.gather(1, block)

    square, slope, level = _compute_bias_coefficients(focus.apply(lambda x: x.unsqueeze(-1)), origins[:, None, None, :])
    queries = torch.cat([square, slope, level], dim=-1)
    keys = torch.cat([(x * x).unsqueeze(-1), x.unsqueeze(-1) * member, member], dim=-1)
    return queries - queries.detach(), keys


def pad_bias_columns(queries: Tensor, keys: Tensor, width: int) -> Tuple[Tensor, Tensor]:
    """Pad columns for queries (B, H, T, C) and keys (B, S, C) with zeros, so that C + ``width`` is a multiple of 8.

    Fused kernels require such head widths. C is first rounded up to a multiple of 8. The columns for keys are expanded
    to (B, H, S, C).
    """
    extra = -(-queries.size(-1) // 8) * 8
    extra += -(width + extra) % 8
    queries = F.pad(queries, (0, extra - queries.size(-1)))
    keys = F.pad(keys, (0, extra - keys.size(-1)))
    return queries, keys[:, None].expand(-1, queries.shape[1], -1, -1)


def insert_bias_columns(
    q: Tensor, k: Tensor, v: Tensor, queries: Tensor, keys: Tensor
) -> Tuple[Tensor, Tensor, Tensor]:
    """Insert padded columns before q and k (B, H, S, D), and pad v, for a kernel that does not scale the scores.

    The columns come first, so that their large terms cancel out before q·k is added if the kernel adds in order. This
    function scales q, because scaling in the kernel would round the exact columns. v is padded with zeros, because
    kernels require queries, keys and values of equal width.
    """
    scaled = torch.cat([queries, q * q.size(-1) ** -0.5], dim=-1)
    return scaled, torch.cat([keys, k], dim=-1), F.pad(v, (0, queries.size(-1)))


class KeyColumns(NamedTuple):
    """The columns for the focal bias of up to ``LARGEST_PART`` consecutive keys, which the slice ``tokens`` selects.

    There are value columns for queries (B, H, T, C) and for the S' keys of this part (B, S', C), and gradient columns
    (B, H, T, G) and (B, S', G), which add 0 to the scores but pass gradients.
    """

    tokens: slice
    queries: Tensor
    keys: Tensor
    gradient_queries: Tensor
    gradient_keys: Tensor


def split_keys(
    focus: FocusParameters, positions: Tensor, padding: Optional[Tensor], dtype: torch.dtype
) -> "List[KeyColumns]":
    """Split the keys into parts of equal size, and compute the columns of each part as if it were a separate document.

    The keys have the positions (B, S), and the padding mask (B, S), if any, is True at padding.
    """
    length = positions.shape[1]
    size = -(-length // max(1, -(-length // LARGEST_PART)))
    hidden = torch.zeros_like(positions, dtype=torch.bool) if padding is None else padding
    found = []
    for start in range(0, length, size):
        tokens = slice(start, start + size)
        own, hidden_here = positions[:, tokens], hidden[:, tokens]
        first = own.masked_fill(hidden_here, math.inf).amin(1, keepdim=True)  # (B, 1)
        first = first.masked_fill(first.isinf(), 0.0)  # for documents that have no words in this part
        own = (own - first).clamp(min=0)
        count = (~hidden_here).sum(1).clamp(min=1).to(own)
        shifted = focus._replace(center=focus.center - first[:, None])  # (B, H, T) - (B, 1, 1)
        found.append(
            KeyColumns(tokens, *compute_columns(shifted, own, count, None if padding is None else hidden_here, dtype))
        )
    return found


def compute_columns(
    focus: FocusParameters, positions: Tensor, lengths: Tensor, padding: Optional[Tensor], dtype: torch.dtype
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute the value and gradient columns of queries and keys; without gradients, there are no gradient columns.

    An additional value column hides the positions where the padding mask (B, S) is True.
    """
    queries, keys = (x.to(dtype) for x in compute_bias_columns(focus, positions, lengths))
    if padding is not None:
        hidden = padding.unsqueeze(-1)
        queries = F.pad(queries, (0, 1), value=1.0)
        keys = torch.cat([keys.masked_fill(hidden, 0.0), hidden.to(keys) * PADDING_SCORE], dim=-1)
    gradient_queries, gradient_keys = queries[..., :0], keys[..., :0]
    if torch.is_grad_enabled() and focus.needs_gradient:
        gradient_queries, gradient_keys = (x.to(dtype) for x in compute_gradient_columns(focus, positions, lengths))
        if padding is not None:  # padding has a weight in documents that consist only of padding
            gradient_keys = gradient_keys.masked_fill(hidden, 0.0)
    return queries, keys, gradient_queries, gradient_keys


def compute_focus_attention_by_columns(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    focus: FocusParameters,
    positions: Tensor,
    lengths: Tensor,
    padding: Optional[Tensor],
    dropout_p: float,
) -> Tensor:
    """Compute :func:`~fairseq_etads.attention.focus_attention` in its form "columns"; all tensors have the same dtype.

    The tokens have the positions (B, S), and the documents the lengths (B,).
    """
    if dropout_p == 0 and q.device.type == "cpu" and has_flash_attention(q.dtype):
        parts = split_keys(focus, positions, padding, q.dtype)
        result: Tensor = FlashFocusAttention.apply(q, k, v, *(field for part in parts for field in part))
        return result
    queries, keys, *gradient = compute_columns(focus, positions, lengths, padding, q.dtype)
    both = torch.cat([queries, gradient[0]], dim=-1), torch.cat([keys, gradient[1]], dim=-1)
    wide = insert_bias_columns(q, k, v, *pad_bias_columns(*both, q.shape[3]))
    return F.scaled_dot_product_attention(*wide, dropout_p=dropout_p, scale=1.0)[..., : q.shape[3]]


class FlashFocusAttention(torch.autograd.Function):
    """Computes softmax(q k^T + columns) v with PyTorch's fused CPU kernel.

    The inputs are q, k, v (B, H, S, D) and the five fields of each :class:`KeyColumns`, in order. Only q, k, v, the
    columns and the output are stored for the backward pass. Autograd would also store the widened copies of q, k, v and
    the output. The outputs of the parts are averaged, weighted by their softmax denominators. Documents are processed
    in groups to keep the copies small.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, *fields: Any) -> Tensor:
        parts = [KeyColumns(*fields[i : i + 5]) for i in range(0, len(fields), 5)]
        batch, heads, length, width = q.shape
        out = q.new_empty(length, batch, heads, width).permute(1, 2, 0, 3)  # the layout that the next layer expects
        normaliser = q.new_empty(batch, length, heads).transpose(1, 2)  # the layout of the kernel
        for rows in _group_documents(q):
            for number, (tokens, queries, keys, *_) in enumerate(parts):
                columns = pad_bias_columns(queries[rows], keys[rows], width)
                wide = insert_bias_columns(q[rows], k[rows, :, tokens], v[rows, :, tokens], *columns)
                widened, own = flash_attention(*wide)
                if number == 0:
                    out[rows], normaliser[rows] = widened[..., :width], own
                else:
                    both = torch.logaddexp(normaliser[rows], own)
                    out[rows] *= (normaliser[rows] - both).exp_().unsqueeze(-1)
                    out[rows].addcmul_(widened[..., :width], (own - both).exp_().unsqueeze(-1))
                    normaliser[rows] = both
        ctx.slices = [part.tokens for part in parts]
        tensors = [x for part in parts for x in (part.queries, part.keys, part.gradient_keys)]
        ctx.save_for_backward(q, k, v, out, normaliser, *tensors)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Optional[Tensor], ...]:
        q, k, v, out, normaliser, *saved = ctx.saved_tensors
        width = q.shape[3]
        of_q, of_k, of_v = (torch.empty_like(x) for x in (q, k, v))
        of_columns = [q.new_empty(*q.shape[:3], keys.shape[2]) for keys in saved[2::3]]
        for rows in _group_documents(q):
            for number, tokens in enumerate(ctx.slices):
                queries, keys, gradient_keys = (x[rows] for x in saved[3 * number : 3 * number + 3])
                values, count = keys.shape[2], gradient_keys.shape[2]
                keys = torch.cat([keys, gradient_keys], dim=-1)
                columns = pad_bias_columns(F.pad(queries, (0, count)), keys, width)
                extra = columns[0].size(-1)
                wide = insert_bias_columns(q[rows], k[rows, :, tokens], v[rows, :, tokens], *columns)
                outs = (F.pad(x[rows], (0, extra)) for x in (gradients[0], out))
                wide_q, wide_k, wide_v = flash_attention_backward(next(outs), *wide, next(outs), normaliser[rows])
                if number == 0:
                    torch.mul(wide_q[..., extra:], width**-0.5, out=of_q[rows])
                else:
                    of_q[rows].add_(wide_q[..., extra:], alpha=width**-0.5)
                of_k[rows, :, tokens], of_v[rows, :, tokens] = wide_k[..., extra:], wide_v[..., :width]
                of_columns[number][rows] = wide_q[..., values : values + count]
        return of_q, of_k, of_v, *(x for own in of_columns for x in (None, None, None, own, None))


GROUP_ELEMENTS = 2**20
"""Maximum number of elements in the queries of one group of documents in :class:`FlashFocusAttention`."""


def _group_documents(q: Tensor) -> "List[slice]":
    """Return slices that divide the documents into groups."""
    size = max(1, GROUP_ELEMENTS // max(1, q[0].numel()))
    return [slice(start, start + size) for start in range(0, len(q), size)]
