"""The papers' attention equations as pure functions.

Shapes: B batch, H heads, T query length, S key length, D head width, d_m = H * D. ``key_padding_mask`` is (B, S),
boolean, True at padding, on either side. Nothing here depends on how much padding a batch has: lengths, means and
positions count real tokens only.

Sources: You et al. 2019, "Improving Abstractive Document Summarization with Salient Information Modeling" (ETADS);
Nallapati et al. 2016, "Abstractive Text Summarization Using Sequence-to-Sequence RNNs and Beyond"; See et al. 2017,
"Get To The Point: Summarization with Pointer-Generator Networks".
"""

import math
from typing import Callable, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

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
_PADDING_SCORE = -1e9  # exp() of it is 0 in fp32, and unlike -inf it leaves a row without real tokens finite


def at_least_float32(x: Tensor) -> Tensor:
    """``x`` in float32, or as it is if it is in float64: the type to compute sums and logarithms in."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


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


def focal_bias(center: Tensor, scope: Tensor, positions: Tensor) -> Tensor:
    """The Gaussian focal bias f_ij = -(P_j - mu_i)^2 / (sigma_i^2 / 2) (ETADS, section 3.2, equation 7).

    Args:
        center: mu (B, H, T), in tokens.
        scope: sigma (B, H, T), in tokens; values under ``SCOPE_FLOOR`` count as ``SCOPE_FLOOR``.
        positions: P (B, S), in tokens.

    Returns:
        (B, H, T, S), in the dtype of ``center``, at most 0.

    This is the definition. :func:`focus_attention` computes attention with this bias without ever building it.
    """
    distance = positions[:, None, None, :].to(center) - center.unsqueeze(-1)
    return -2.0 * (distance / scope.clamp(min=SCOPE_FLOOR).unsqueeze(-1)) ** 2


def _bias_coefficients(center: Tensor, scope: Tensor, origin: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """-(P - mu)^2 * 2 / sigma^2 as a polynomial in x = P - origin: coefficients of x^2, x and 1.

    ``origin`` broadcasts against ``center``; each result has the broadcast shape.
    """
    steepness = 2.0 / scope.clamp(min=SCOPE_FLOOR) ** 2
    offset = origin - center
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


def _value_columns(center: Tensor, scope: Tensor, positions: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor]:
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
        center, scope, origin = center.double()[..., None], scope.double()[..., None], origins.double()[:, None, None]
        square, slope, level = _bias_coefficients(center, scope, origin)  # (B, H, T, N), square (B, H, T, 1)
        reach = torch.maximum((origin - center).abs(), width.double()[:, None, None] / 2 + 1)
        unit = torch.exp2(torch.ceil(torch.log2(-square * reach**2 * 4)) - 23).unsqueeze(-1)
        coefficients = torch.stack([square.expand_as(level), slope, level], dim=-1)  # (B, H, T, N, 3)
        exact = torch.round(coefficients / unit) * unit
        queries = torch.cat([exact.flatten(3), (coefficients - exact).flatten(3)], dim=-1)
    powers = torch.stack([x * x, x, torch.ones_like(x)], dim=-1)  # (B, S, 3)
    member = F.one_hot(block, origins.shape[1]).to(powers.dtype)  # (B, S, N)
    keys = (member.unsqueeze(-1) * powers.unsqueeze(2)).flatten(2)  # (B, S, 3 N)
    return queries, torch.cat([keys, keys], dim=-1)


def _gradient_columns(center: Tensor, scope: Tensor, positions: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor]:
    """Columns that add exactly 0 to the scores and carry the gradient to center and scope.

    Queries (B, H, T, 1 + 2 N), keys (B, S, 1 + 2 N). The gradient is a difference of moments of the positions, which
    cancel badly far from the origin; so each quarter of ``LARGEST_PART`` tokens (or of a shorter document) has its own.
    """
    width, first, block = _blocks(positions, lengths, _GRADIENT_BLOCKS)
    origins = first + (width / 2).floor()  # (B, N)
    member = F.one_hot(block, origins.shape[1]).to(positions.dtype)  # (B, S, N)
    x = positions - origins.gather(1, block)

    square, slope, level = _bias_coefficients(center.unsqueeze(-1), scope.unsqueeze(-1), origins[:, None, None, :])
    queries = torch.cat([square, slope, level], dim=-1)
    keys = torch.cat([(x * x).unsqueeze(-1), x.unsqueeze(-1) * member, member], dim=-1)
    return queries - queries.detach(), keys


def _focus_by_columns(
    q: Tensor, k: Tensor, v: Tensor, center: Tensor, scope: Tensor, padding: Optional[Tensor], dropout_p: float
) -> Tensor:
    """The form "columns" of :func:`focus_attention`; all tensors are in the same format."""
    batch, heads, length, width = q.shape
    positions, lengths = document_positions(padding, batch, length, q.device)
    columns = [_value_columns(center, scope, positions, lengths)]
    if torch.is_grad_enabled() and (center.requires_grad or scope.requires_grad):
        columns.append(_gradient_columns(center, scope, positions, lengths))
    query_columns = torch.cat([queries.to(q.dtype) for queries, _ in columns], dim=-1)
    key_columns = torch.cat([keys for _, keys in columns], dim=-1).to(q.dtype)
    if padding is not None:
        key_columns = key_columns.masked_fill(padding.unsqueeze(-1), 0.0)
        key_columns = torch.cat([key_columns, padding.unsqueeze(-1) * _PADDING_SCORE], dim=-1)
        query_columns = F.pad(query_columns, (0, 1), value=1.0)
    # fused kernels want a head width that is a multiple of 8, and the same one for q, k and v
    extra = -(-query_columns.size(-1) // 8) * 8
    extra += -(width + extra) % 8
    query_columns = F.pad(query_columns, (0, extra - query_columns.size(-1)))
    key_columns = F.pad(key_columns, (0, extra - key_columns.size(-1)))
    key_columns = key_columns[:, None].expand(batch, heads, length, extra)
    # The columns come first, so that a kernel which adds in order has cancelled them before q·k arrives. q is scaled
    # here and not by the kernel, because scaling the columns would round what was made exact.
    out = F.scaled_dot_product_attention(
        torch.cat([query_columns, q * width**-0.5], dim=-1),
        torch.cat([key_columns, k], dim=-1),
        F.pad(v, (0, extra)),
        dropout_p=dropout_p,
        scale=1.0,
    )
    return out[..., :width]


def _focus_by_bias(
    q: Tensor, k: Tensor, v: Tensor, center: Tensor, scope: Tensor, padding: Optional[Tensor], dropout_p: float
) -> Tensor:
    """The form "bias" of :func:`focus_attention`; q, center and scope may be those of some of the queries."""
    batch, _, length, _ = k.shape
    positions, _ = document_positions(padding, batch, length, k.device)
    bias = focal_bias(center, scope, positions)  # (B, H, T, S)
    if padding is not None:
        bias = bias.masked_fill(padding[:, None, None, :], _PADDING_SCORE)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout_p)


def _focus_by_blocks(
    q: Tensor, k: Tensor, v: Tensor, center: Tensor, scope: Tensor, padding: Optional[Tensor], dropout_p: float
) -> Tensor:
    """The form "blocks" of :func:`focus_attention`."""
    rows = max(1, BIAS_ELEMENTS // (k.shape[0] * k.shape[1] * k.shape[2]))
    pieces = []
    for q_rows, center_rows, scope_rows in zip(*(x.split(rows, dim=2) for x in (q, center, scope))):
        arguments = (q_rows, k, v, center_rows, scope_rows, padding, dropout_p)
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
) -> Tensor:
    """softmax(q k^T / sqrt(D) + f) v with the focal bias f of equation 7 (ETADS, section 3.2, equation 8).

    Args:
        q, k, v: (B, H, S, D), any floating dtype.
        center, scope: mu and sigma (B, H, S) in tokens, in float32 or better.
        key_padding_mask: (B, S), True at padding.
        dropout_p: dropout on the attention weights; the caller passes 0 in evaluation.
        form: how to compute it, one of ``FOCUS_FORMS``; None: :func:`focus_form` chooses.

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
        inputs = [x.to(work) for x in (q, k, v, center, scope)]
        out = compute(*inputs, key_padding_mask, dropout_p)
    return out.to(q.dtype)


def attention_scores(q: Tensor, k: Tensor, own_format: bool = False) -> Tensor:
    """q k^T of q (…, T, D) and k (…, S, D) -> (…, T, S), at least float32.

    Args:
        own_format: multiply in the format of q and k. Otherwise half-precision inputs, and float32 under autocast, are
            multiplied in float32: a score of 30 that is rounded to bfloat16 may change its weight by 6 %.
    """
    if own_format:
        return at_least_float32(torch.matmul(q, k.transpose(-1, -2)))
    with torch.autocast(q.device.type, enabled=False):
        return torch.matmul(at_least_float32(q), at_least_float32(k).transpose(-1, -2))


def attention_weights(
    q: Tensor, k: Tensor, key_padding_mask: Optional[Tensor] = None, own_format: bool = False
) -> Tensor:
    """softmax(q k^T / sqrt(D)): q (B, H, T, D), k (B, H, S, D) -> (B, H, T, S), exactly 0 at padding.

    At least in float32, whatever the inputs are; ``own_format``: see :func:`attention_scores`.
    """
    q = q if own_format else at_least_float32(q)
    scores = attention_scores(q * q.size(-1) ** -0.5, k, own_format)
    if key_padding_mask is not None:
        scores = scores.masked_fill(key_padding_mask[:, None, None, :], _PADDING_SCORE)
    return torch.softmax(scores, dim=-1)


def saliency_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gate_q: Tensor,
    gate_k: Tensor,
    key_padding_mask: Optional[Tensor] = None,
    dropout_p: float = 0.0,
    need_weights: bool = False,
    own_format: bool = False,
) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """(g ⊗ softmax(q k^T / sqrt(D))) v, g = sigmoid(gate_q gate_k^T) (ETADS, section 3.3, equations 9 and 10).

    Args:
        q: (B, H, T, D). k, v: (B, H, S, D).
        gate_q, gate_k: (B, H, T, D) and (B, H, S, D), the projected queries and keys times W_h and W_s. Their product
            is not scaled by sqrt(D), and the gated weights are not renormalised.
        key_padding_mask: (B, S), True at padding.
        dropout_p: dropout on the gated weights; the caller passes 0 in evaluation.
        need_weights: also return the softmax before the gate, which sums to 1 (coverage and pointers want that one).
        own_format: compute the scores in the format of the inputs, see :func:`attention_scores`.

    Returns:
        (B, H, T, D) in the dtype of ``v`` [, weights (B, H, T, S), at least float32].
    """
    weights = attention_weights(q, k, key_padding_mask, own_format)
    gate = torch.sigmoid(attention_scores(gate_q, gate_k, own_format))
    gated = F.dropout(gate * weights, p=dropout_p)
    out = torch.matmul(gated.to(v.dtype), v)
    return (out, weights) if need_weights else out


def log_attention(scores: Tensor, key_padding_mask: Optional[Tensor] = None) -> Tensor:
    """log softmax of scores (B, T, S) over the real tokens; at padding so small that its exponential is exactly 0."""
    if key_padding_mask is not None:
        scores = scores.masked_fill(key_padding_mask[:, None], _PADDING_SCORE)
    return scores.log_softmax(dim=-1)


def temporal_step(scores: Tensor, spent: Tensor) -> Tuple[Tensor, Tensor]:
    """One step of temporal attention: log of exp(e_t) / beta_t (Nallapati et al., equation 1).

    Args:
        scores: e_t (…, S), of the attention before any normalisation, at least float32.
        spent: log of the sum of exp(e_k) over the earlier steps k (…, S); minus infinity before the first step.

    Returns:
        what to take the softmax of (…, S); ``spent`` with this step (…, S). Sums are kept as logarithms, so that scores
        of any size neither overflow nor vanish.
    """
    log_beta = spent.masked_fill(spent.isneginf(), 0.0)  # beta_1 = 1
    return scores - log_beta, torch.logaddexp(spent, scores)


def temporal_attention(scores: Tensor, key_padding_mask: Optional[Tensor] = None) -> Tensor:
    """alpha_t ∝ exp(e_t) / beta_t with beta_t = sum over k < t of exp(e_k), beta_1 = 1 (Nallapati et al., equation 1).

    Args:
        scores: e (B, T, S), of the attention before any normalisation. key_padding_mask: (B, S), True at padding.

    Returns:
        (B, T, S), rows sum to 1, exactly 0 at padding, at least float32. The decoder of the recurrent family computes
        the same step by step, by :func:`temporal_step`.
    """
    scores = at_least_float32(scores)
    spent, logits = torch.full_like(scores[:, 0], -math.inf), []
    for step in scores.unbind(dim=1):
        logit, spent = temporal_step(step, spent)
        logits.append(logit)
    return log_attention(torch.stack(logits, dim=1), key_padding_mask).exp()


def hierarchical_log_attention(log_word: Tensor, log_sentence: Tensor, sentence_ids: Tensor) -> Tensor:
    """As :func:`hierarchical_attention`, on logarithms: (B, T, S), (B, T, N), (B, S) -> (B, T, S)."""
    index = sentence_ids[:, None].expand(-1, log_word.shape[1], -1)
    return (log_word + log_sentence.gather(2, index)).log_softmax(dim=-1)


def hierarchical_attention(word: Tensor, sentence: Tensor, sentence_ids: Tensor) -> Tensor:
    """P(j) ∝ P_w(j) P_s(s(j)) (Nallapati et al., section 2.4).

    Args:
        word: P_w (B, T, S), 0 at padding. sentence: P_s (B, T, N). sentence_ids: s (B, S), int64, from 0; any number
            from 0 to N - 1 at padding.

    Returns:
        (B, T, S), rows sum to 1, at least float32; where all products underflow, the largest logarithms decide.
    """
    log_word, log_sentence = (
        torch.where(p > 0, p.clamp(min=torch.finfo(p.dtype).tiny).log(), _PADDING_SCORE)
        for p in (at_least_float32(word), at_least_float32(sentence))
    )
    return hierarchical_log_attention(log_word, log_sentence, sentence_ids).masked_fill(word == 0, -math.inf).exp()
