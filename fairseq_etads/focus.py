"""Focus-attention as a pure function: attention with a Gaussian bias around a centre for every query.

Shapes: B batch, H heads, T query length, S key length, D head width. ``key_padding_mask`` is (B, S), boolean, True at
padding, on either side. Nothing here depends on how much padding a batch has: lengths and positions count real tokens
only.

Source: You et al. 2019, "Improving Abstractive Document Summarization with Salient Information Modeling" (ETADS),
section 3.2. docs/etads.md says how it is computed, and how exactly.
"""

from typing import Any, Callable, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .kernels import flash_attention, flash_attention_backward, has_flash_attention

SCOPE_FLOOR = 0.1
"""Smallest scope sigma, in tokens. At the floor the next token already has a bias of -200, so the attention is one-hot
and nothing is lost; without it equation 7 divides by zero once sigmoid underflows."""

EXACT_COLUMNS = {("cpu", None)}
"""Processors, as device type and CUDA capability, whose fused attention is known to add float32 columns exactly.

torch's float32 kernels on NVIDIA GPUs from Ampere on multiply pieces of 11 bits (split TF32). No GPU has been measured
yet: ``tests/gpu/test_focus_attention_cuda.py`` measures one, and a capability that passes may be entered here.
"""
LONGEST_BIAS = 512
"""Longest document, in tokens with padding, whose focal bias is built at once (form "bias"), and kept for training."""
BIAS_ELEMENTS = 2**24
"""Most elements of the focal bias of a block of queries (form "blocks"): 64 MiB in float32."""
LARGEST_PART = 1024
"""Most tokens that share an origin of the columns: so far away, multiples of x^2 still have a few bits to spare."""

_GRADIENT_BLOCKS = 4  # 1 + 2 * 4 gradient columns, 6 value columns and 1 for padding: 16, a multiple of 8
PADDING_SCORE = -1e9  # exp() of it is 0 in fp32, and unlike -inf it leaves a row without real tokens finite


def document_positions(
    key_padding_mask: Optional[Tensor], batch: int, length: int, device: torch.device
) -> Tuple[Tensor, Tensor]:
    """Positions inside each document, and the documents' lengths, both counting real tokens only.

    Returns:
        positions (B, S) float32, 0 … m-1 at real tokens whatever the side of the padding, 0 at padding;
        lengths m (B,) float32, at least 1.
    """
    if key_padding_mask is None:
        positions = torch.arange(length, device=device, dtype=torch.float32).expand(batch, length)
        return positions, positions.new_full((batch,), float(length))
    real = (~key_padding_mask).float()
    return (real.cumsum(1) - 1).clamp(min=0) * real, real.sum(1).clamp(min=1)


class _Focus(NamedTuple):
    """mu, sigma and factors of the bias, (B, H, T) each; no strength: 1."""

    center: Tensor
    scope: Tensor
    strength: Optional[Tensor]

    @property
    def needs_gradient(self) -> bool:
        return any(x is not None and x.requires_grad for x in self)

    def map(self, change: Callable[[Tensor], Tensor]) -> "_Focus":
        return _Focus(*(None if x is None else change(x) for x in self))  # type: ignore[arg-type]

    def split(self, rows: int) -> "List[_Focus]":
        """The focus of so many queries at a time."""
        starts = range(0, self.center.shape[2], rows)
        return [self.map(lambda x, start=start: x[:, :, start : start + rows]) for start in starts]  # type: ignore[misc]


def focal_bias(center: Tensor, scope: Tensor, positions: Tensor, strength: Optional[Tensor] = None) -> Tensor:
    """The Gaussian focal bias f_ij = -(P_j - mu_i)^2 / (sigma_i^2 / 2) (ETADS, section 3.2, equation 7).

    Args:
        center: mu (B, H, T), in tokens.
        scope: sigma (B, H, T), in tokens; values under ``SCOPE_FLOOR`` count as ``SCOPE_FLOOR``.
        positions: P (B, S), in tokens.
        strength: factors of the bias (B, H, T); None: 1, as in the paper.

    Returns:
        (B, H, T, S), in the dtype of ``center``, at most 0 where the strength is positive.

    This is the definition. :func:`focus_attention` computes attention with this bias without ever building it.
    """
    distance = positions[:, None, None, :].to(center) - center.unsqueeze(-1)
    bias = -2.0 * (distance / scope.clamp(min=SCOPE_FLOOR).unsqueeze(-1)) ** 2
    return bias if strength is None else bias * strength.unsqueeze(-1)


def _bias_coefficients(focus: _Focus, origin: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """-(P - mu)^2 * 2 / sigma^2 (times the strength) as a polynomial in x = P - origin: coefficients of x^2, x and 1.

    ``origin`` broadcasts against the others; each result has the broadcast shape.
    """
    steepness = 2.0 / focus.scope.clamp(min=SCOPE_FLOOR) ** 2
    if focus.strength is not None:
        steepness = steepness * focus.strength
    offset = origin - focus.center
    return -steepness, -2.0 * steepness * offset, -steepness * offset**2


def _blocks(positions: Tensor, lengths: Tensor, per_part: int) -> Tuple[Tensor, Tensor, Tensor]:
    """Divide documents evenly into blocks, ``per_part`` of them for each ``LARGEST_PART`` tokens of their length.

    positions (B, S), lengths (B,) -> width (B, 1) of each document's blocks; first positions (B, N) of the blocks, N of
    the longest document; number of each token's block (B, S).
    """
    count = per_part * (lengths / LARGEST_PART).ceil()[:, None]
    width = (lengths[:, None] / count).ceil()
    most = per_part * -(-positions.shape[1] // LARGEST_PART)
    block = torch.minimum((positions / width).floor(), count - 1).long()
    return width, torch.arange(most, device=positions.device) * width, block


def _value_columns(focus: _Focus, positions: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor]:
    """Columns whose dot product is the focal bias: queries (B, H, T, 6 N), keys (B, S, 6 N), without gradient.

    Far from the origin the three terms of the polynomial are thousands of times larger than their sum. So each
    coefficient is split into a multiple of a unit and a remainder. The unit is such that the multiples' products with
    the (integer) powers of x, and their partial sums, fit 24 bits: they are added without rounding. Long documents are
    divided into N blocks of at most ``LARGEST_PART`` tokens, each with an origin and columns of its own.
    """
    width, first, block = _blocks(positions, lengths, 1)
    origins = first + ((width - 1) / 2).floor()  # (B, N)
    x = positions - origins.gather(1, block)  # (B, S)
    with torch.no_grad():
        focus, origin = focus.map(lambda x: x.double()[..., None]), origins.double()[:, None, None]
        square, slope, level = _bias_coefficients(focus, origin)  # (B, H, T, N), square (B, H, T, 1)
        reach = torch.maximum((origin - focus.center).abs(), width.double()[:, None, None] / 2 + 1)
        largest = (square.abs() * reach**2 * 4).clamp(min=1e-30)  # not 0 even at strength 0
        unit = torch.exp2(torch.ceil(torch.log2(largest)) - 23).unsqueeze(-1)
        coefficients = torch.stack([square.expand_as(level), slope, level], dim=-1)  # (B, H, T, N, 3)
        exact = torch.round(coefficients / unit) * unit
        queries = torch.cat([exact.flatten(3), (coefficients - exact).flatten(3)], dim=-1)
    powers = torch.stack([x * x, x, torch.ones_like(x)], dim=-1)  # (B, S, 3)
    member = F.one_hot(block, origins.shape[1]).to(powers.dtype)  # (B, S, N)
    keys = (member.unsqueeze(-1) * powers.unsqueeze(2)).flatten(2)  # (B, S, 3 N)
    return queries, torch.cat([keys, keys], dim=-1)


def _gradient_columns(focus: _Focus, positions: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor]:
    """Columns that add exactly 0 to the scores and carry the gradient to center, scope and strength.

    Queries (B, H, T, 1 + 2 N), keys (B, S, 1 + 2 N). The gradient is a difference of moments of the positions, which
    cancel badly far from the origin; so each quarter of ``LARGEST_PART`` tokens (or of a shorter document) has its own.
    """
    width, first, block = _blocks(positions, lengths, _GRADIENT_BLOCKS)
    origins = first + (width / 2).floor()  # (B, N)
    member = F.one_hot(block, origins.shape[1]).to(positions.dtype)  # (B, S, N)
    x = positions - origins.gather(1, block)

    square, slope, level = _bias_coefficients(focus.map(lambda x: x.unsqueeze(-1)), origins[:, None, None, :])
    queries = torch.cat([square, slope, level], dim=-1)
    keys = torch.cat([(x * x).unsqueeze(-1), x.unsqueeze(-1) * member, member], dim=-1)
    return queries - queries.detach(), keys


def _padded_columns(queries: Tensor, keys: Tensor, width: int) -> Tuple[Tensor, Tensor]:
    """Columns of queries (B, H, T, C) and keys (B, S, C) with zeros, so that with ``width`` more C is a multiple of 8.

    Fused kernels want that of a head's width, and C itself may as well be one. The keys' are expanded to (B, H, S, C).
    """
    extra = -(-queries.size(-1) // 8) * 8
    extra += -(width + extra) % 8
    queries = F.pad(queries, (0, extra - queries.size(-1)))
    keys = F.pad(keys, (0, extra - keys.size(-1)))
    return queries, keys[:, None].expand(-1, queries.shape[1], -1, -1)


def _with_columns(q: Tensor, k: Tensor, v: Tensor, queries: Tensor, keys: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """q, k and v (B, H, S, D) with padded columns before them, to be multiplied without a scale.

    The columns come first, so that a kernel which adds in order has cancelled them before q·k arrives. q is scaled here
    and not by the kernel, because scaling the columns would round what was made exact. v has zeros behind it, because
    the kernels want one head width.
    """
    scaled = torch.cat([queries, q * q.size(-1) ** -0.5], dim=-1)
    return scaled, torch.cat([keys, k], dim=-1), F.pad(v, (0, queries.size(-1)))


class _FlashFocus(torch.autograd.Function):
    """softmax(q k^T + columns) v by torch's fused kernel for CPUs, which keeps q, k, v, the columns and the output.

    Inputs: q, k, v (B, H, S, D); value columns of queries (B, H, S, C) and keys (B, S, C); gradient columns of queries
    (B, H, S, G) and keys (B, S, G). What autograd would keep are the widened copies of q, k, v and the output, too.
    Gradient columns take part in the backward pass alone, since they add 0. Documents are computed with in groups, so
    that the copies are small.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        q, k, v, queries, keys, _, gradient_keys = inputs
        batch, heads, length, width = q.shape
        out = q.new_empty(length, batch, heads, width).permute(1, 2, 0, 3)  # laid out as the next layer reads it
        normaliser = q.new_empty(batch, length, heads).transpose(1, 2)  # as the kernel lays it out
        for rows in _groups(q):
            columns = _padded_columns(queries[rows], keys[rows], width)
            widened, normaliser[rows] = flash_attention(*_with_columns(q[rows], k[rows], v[rows], *columns))
            out[rows] = widened[..., :width]
        ctx.save_for_backward(q, k, v, queries, keys, gradient_keys, out, normaliser)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Optional[Tensor], ...]:
        q, k, v, queries, keys, gradient_keys, out, normaliser = ctx.saved_tensors
        width, values, count = q.shape[3], queries.shape[3], gradient_keys.shape[2]
        of_q, of_k, of_v = (torch.empty_like(x) for x in (q, k, v))
        of_columns = queries.new_empty(*queries.shape[:3], count)
        for rows in _groups(q):
            wide_keys = torch.cat([keys[rows], gradient_keys[rows]], dim=-1)
            columns = _padded_columns(F.pad(queries[rows], (0, count)), wide_keys, width)
            extra = columns[0].size(-1)
            wide = _with_columns(q[rows], k[rows], v[rows], *columns)
            outs = (F.pad(x[rows], (0, extra)) for x in (gradients[0], out))
            wide_q, wide_k, wide_v = flash_attention_backward(next(outs), *wide, next(outs), normaliser[rows])
            torch.mul(wide_q[..., extra:], width**-0.5, out=of_q[rows])
            of_k[rows], of_v[rows] = wide_k[..., extra:], wide_v[..., :width]
            of_columns[rows] = wide_q[..., values : values + count]
        return of_q, of_k, of_v, None, None, of_columns, None


GROUP_ELEMENTS = 2**20
"""Most numbers in the queries of the documents that :class:`_FlashFocus` computes with at a time."""


def _groups(q: Tensor) -> "List[slice]":
    """Slices of the documents."""
    size = max(1, GROUP_ELEMENTS // max(1, q[0].numel()))
    return [slice(start, start + size) for start in range(0, len(q), size)]


def _focus_by_columns(
    q: Tensor, k: Tensor, v: Tensor, focus: _Focus, padding: Optional[Tensor], dropout_p: float
) -> Tensor:
    """The form "columns" of :func:`focus_attention`; all tensors are in the same format."""
    batch, _, length, width = q.shape
    positions, lengths = document_positions(padding, batch, length, q.device)
    queries, keys = _value_columns(focus, positions, lengths)
    queries, keys = queries.to(q.dtype), keys.to(q.dtype)
    if padding is not None:
        keys = keys.masked_fill(padding.unsqueeze(-1), 0.0)
        keys = torch.cat([keys, padding.unsqueeze(-1) * PADDING_SCORE], dim=-1)
        queries = F.pad(queries, (0, 1), value=1.0)
    if torch.is_grad_enabled() and focus.needs_gradient:
        gradient_queries, gradient_keys = _gradient_columns(focus, positions, lengths)
        gradient_queries, gradient_keys = gradient_queries.to(q.dtype), gradient_keys.to(q.dtype)
        if padding is not None:
            gradient_keys = gradient_keys.masked_fill(padding.unsqueeze(-1), 0.0)
        if dropout_p == 0 and q.device.type == "cpu" and has_flash_attention(q.dtype):
            result: Tensor = _FlashFocus.apply(q, k, v, queries, keys, gradient_queries, gradient_keys)
            return result
        queries = torch.cat([queries, gradient_queries], dim=-1)
        keys = torch.cat([keys, gradient_keys], dim=-1)
    wide = _with_columns(q, k, v, *_padded_columns(queries, keys, width))
    return F.scaled_dot_product_attention(*wide, dropout_p=dropout_p, scale=1.0)[..., :width]


def _focus_by_bias(
    q: Tensor, k: Tensor, v: Tensor, focus: _Focus, padding: Optional[Tensor], dropout_p: float
) -> Tensor:
    """The form "bias" of :func:`focus_attention`; q and focus may be those of some of the queries."""
    batch, _, length, _ = k.shape
    positions, _ = document_positions(padding, batch, length, k.device)
    bias = focal_bias(focus.center, focus.scope, positions, focus.strength)  # (B, H, T, S)
    if padding is not None:
        bias = bias.masked_fill(padding[:, None, None, :], PADDING_SCORE)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout_p)


def _focus_by_blocks(
    q: Tensor, k: Tensor, v: Tensor, focus: _Focus, padding: Optional[Tensor], dropout_p: float
) -> Tensor:
    """The form "blocks" of :func:`focus_attention`."""
    rows = max(1, BIAS_ELEMENTS // (k.shape[0] * k.shape[1] * k.shape[2]))
    pieces = []
    for q_rows, focus_rows in zip(q.split(rows, dim=2), focus.split(rows)):
        arguments = (q_rows, k, v, focus_rows, padding, dropout_p)
        if torch.is_grad_enabled():
            pieces.append(checkpoint(_focus_by_bias, *arguments, use_reentrant=False))
        else:
            pieces.append(_focus_by_bias(*arguments))
    return torch.cat(pieces, dim=2)


_FOCUS_FORMS = {"columns": _focus_by_columns, "bias": _focus_by_bias, "blocks": _focus_by_blocks}
FOCUS_FORMS = tuple(_FOCUS_FORMS)


def focus_form(
    device_type: str,
    dtype: torch.dtype,
    capability: Optional[Tuple[int, int]],
    length: int,
    exact_products: bool = True,
) -> str:
    """The form in which :func:`focus_attention` computes when none is asked for.

    "columns" where sums are known to keep 24 bits: on processors in ``EXACT_COLUMNS``, and in float64. Elsewhere "bias"
    for documents of up to ``LONGEST_BIAS`` tokens, and "blocks" for longer ones.

    Args:
        dtype: in which it computes, float32 or float64. capability: of a CUDA device, (8, 0) for Ampere; None: another.
        length: S, with padding. exact_products: False if torch may round the factors of float32 products
            (``torch.set_float32_matmul_precision``).
    """
    if dtype == torch.float64 or (exact_products and (device_type, capability) in EXACT_COLUMNS):
        return "columns"
    return "bias" if length <= LONGEST_BIAS else "blocks"


def _default_form(q: Tensor, work: torch.dtype) -> str:
    """:func:`focus_form` of queries (B, H, S, D) that are computed with in ``work``."""
    capability = torch.cuda.get_device_capability(q.device) if q.is_cuda else None
    try:
        exact_products = torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # newer torch, where the precision was set for some kind of operation only
        exact_products = False
    return focus_form(q.device.type, work, capability, q.shape[2], exact_products)


def focus_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    center: Tensor,
    scope: Tensor,
    key_padding_mask: Optional[Tensor] = None,
    dropout_p: float = 0.0,
    form: Optional[str] = None,
    strength: Optional[Tensor] = None,
) -> Tensor:
    """softmax(q k^T / sqrt(D) + f) v with the focal bias f of equation 7 (ETADS, section 3.2, equation 8).

    Args:
        q, k, v: (B, H, S, D), any floating dtype.
        center, scope: mu and sigma (B, H, S) in tokens, in float32 or better.
        key_padding_mask: (B, S), True at padding.
        dropout_p: dropout on the attention weights; the caller passes 0 in evaluation.
        form: how to compute it, one of ``FOCUS_FORMS``; None: :func:`focus_form` chooses.
        strength: a factor of f for each head (H,), in float32 or better; None: 1, as in the paper. At 0 this is plain
            attention, and gradient reaches the strength alone.

    Returns:
        (B, H, S, D) in the dtype of ``q``. Rows of padded queries are finite and meaningless.

    It runs in float32 also for half-precision inputs and under autocast, because the bias spans many orders of
    magnitude, and in float64 for float64. The forms:

    - "columns": expanding the square, f is a product of a few columns per query with a few columns per key. They are
      appended to q and k, and torch's fused attention does the rest: no S x S tensor exists (on a CPU, it is fused only
      for ``dropout_p=0``). The kernel must add float32 products exactly. Then the result is within 1e-5 of the exact
      one down to scopes of 0.3 tokens in documents of 400 and of 1 token in longer ones (bench_focus_attention.py).
    - "bias": f is the kernel's float32 mask (B, H, S, S). As exact as the kernel's q k^T, on every device.
    - "blocks": the same for a block of queries at a time, with masks of at most ``BIAS_ELEMENTS`` elements, which the
      backward pass computes again.
    """
    work = torch.promote_types(q.dtype, torch.float32)
    compute: Callable[..., Tensor] = _FOCUS_FORMS[form or _default_form(q, work)]
    with torch.autocast(q.device.type, enabled=False):
        factors = None if strength is None else strength[None, :, None].expand_as(center)
        focus = _Focus(center, scope, factors).map(lambda x: x.to(work))
        out = compute(q.to(work), k.to(work), v.to(work), focus, key_padding_mask, dropout_p)
    return out.to(q.dtype)
