"""Focus-attention as a function. The attention of each query has a Gaussian bias around a predicted centre.

Shapes: B is the batch size, H the number of heads, T the number of queries, S the number of keys, and D the head width.
``key_padding_mask`` (B, S) is boolean and True at padding, which may be on either side. Lengths and positions count
only real tokens, so the results do not depend on padding.

Source: You et al. 2019, "Improving Abstractive Document Summarization with Salient Information Modeling" (ETADS),
section 3.2. docs/etads.md describes the computation and its accuracy.
"""

import functools
import logging
from typing import Callable, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from . import flex
from .cpu import has_flash_attention
from .focus_columns import (
    PADDING_SCORE,
    SCOPE_FLOOR,
    FlashFocusAttention,
    FocusParameters,
    add_padding_column,
    compute_bias_columns,
    compute_gradient_columns,
    insert_bias_columns,
    pad_bias_columns,
    split_keys,
)
from .fused_kernels import warn_without_fused_kernel

logger = logging.getLogger(__name__)

KERNELS = ("auto", "flex", "fused", "plain")
"""Values of --attention-kernel; see :func:`choose_focus_implementation_for_kernel`."""

EXACT_COLUMNS = {("cpu", None)}
"""Pairs of device type and CUDA capability for which fused attention is known to add float32 columns exactly.

On NVIDIA GPUs since Ampere, PyTorch's float32 kernels split numbers into pieces of 11 bits and multiply these pieces
(split TF32). No GPU has been measured yet. If ``tests/gpu/test_focus_attention_cuda.py`` passes on a GPU, the
capability of this GPU may be added.
"""
LONGEST_BIAS = 512
"""Maximum document length in tokens, including padding, for which the form "bias" is used.

This form computes the whole focal bias at once and stores it for the backward pass.
"""
BIAS_ELEMENTS = 2**24
"""Maximum number of elements in the focal bias of one block in the form "blocks" (64 MiB in float32)."""


def compute_token_positions(
    key_padding_mask: Optional[Tensor], batch: int, length: int, device: torch.device
) -> Tuple[Tensor, Tensor]:
    """Compute the positions of tokens and the lengths of documents, counting only real tokens.

    Returns:
        Two float32 tensors. The first contains the positions (B, S), which are 0, …, m - 1 at real tokens and 0 at
        padding on either side. The second contains the document lengths m (B,), which are at least 1.
    """
    if key_padding_mask is None:
        positions = torch.arange(length, device=device, dtype=torch.float32).expand(batch, length)
        return positions, positions.new_full((batch,), float(length))
    real = (~key_padding_mask).float()
    return (real.cumsum(1) - 1).clamp(min=0) * real, real.sum(1).clamp(min=1)


def focal_bias(center: Tensor, scope: Tensor, positions: Tensor, strength: Optional[Tensor] = None) -> Tensor:
    """Compute the Gaussian focal bias f_ij = -(P_j - mu_i)^2 / (sigma_i^2 / 2) (ETADS, section 3.2, equation 7).

    Args:
        center: the centres mu (B, H, T), in tokens.
        scope: the scopes sigma (B, H, T), in tokens. Values below ``SCOPE_FLOOR`` are replaced with ``SCOPE_FLOOR``.
        positions: the positions P (B, S) of the keys, in tokens.
        strength: the factors (B, H, T) by which the bias is multiplied, or None for 1, as in the paper.

    Returns:
        The focal bias (B, H, T, S), in the dtype of ``center``. If the strength is positive, the bias is never above 0.

    This function defines the bias. :func:`focus_attention` can compute the attention without storing the bias.
    """
    distance = positions[:, None, None, :].to(center) - center.unsqueeze(-1)
    bias = -2.0 * (distance / scope.clamp(min=SCOPE_FLOOR).unsqueeze(-1)) ** 2
    return bias if strength is None else bias * strength.unsqueeze(-1)


def _compute_focus_attention_by_columns(
    q: Tensor, k: Tensor, v: Tensor, focus: FocusParameters, padding: Optional[Tensor], dropout_p: float
) -> Tensor:
    """Compute :func:`focus_attention` in its "columns" form. All tensors must have the same dtype."""
    batch, _, length, width = q.shape
    positions, lengths = compute_token_positions(padding, batch, length, q.device)
    if dropout_p == 0 and q.device.type == "cpu" and has_flash_attention(q.dtype):
        parts = split_keys(focus, positions, padding, q.dtype)
        result: Tensor = FlashFocusAttention.apply(q, k, v, *(field for part in parts for field in part))
        return result
    queries, keys = (x.to(q.dtype) for x in compute_bias_columns(focus, positions, lengths))
    if padding is not None:
        queries, keys = add_padding_column(queries, keys, padding)
    if torch.is_grad_enabled() and focus.needs_gradient:
        gradient_queries, gradient_keys = (x.to(q.dtype) for x in compute_gradient_columns(focus, positions, lengths))
        if padding is not None:  # padding has a weight in documents that consist only of padding
            gradient_keys = gradient_keys.masked_fill(padding.unsqueeze(-1), 0.0)
        queries = torch.cat([queries, gradient_queries], dim=-1)
        keys = torch.cat([keys, gradient_keys], dim=-1)
    wide = insert_bias_columns(q, k, v, *pad_bias_columns(queries, keys, width))
    return F.scaled_dot_product_attention(*wide, dropout_p=dropout_p, scale=1.0)[..., :width]


def _compute_focus_attention_by_bias(
    q: Tensor, k: Tensor, v: Tensor, focus: FocusParameters, padding: Optional[Tensor], dropout_p: float
) -> Tensor:
    """Compute :func:`focus_attention` in the form "bias", possibly for only a part of the queries."""
    batch, _, length, _ = k.shape
    positions, _ = compute_token_positions(padding, batch, length, k.device)
    bias = focal_bias(focus.center, focus.scope, positions, focus.strength)  # (B, H, T, S)
    if padding is not None:
        bias = bias.masked_fill(padding[:, None, None, :], PADDING_SCORE)
    warn_without_fused_kernel(q, q.shape[3], dropout_p, masked=True)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout_p)


def _compute_focus_attention_by_blocks(
    q: Tensor, k: Tensor, v: Tensor, focus: FocusParameters, padding: Optional[Tensor], dropout_p: float
) -> Tensor:
    """Compute :func:`focus_attention` in the form "blocks"."""
    rows = max(1, BIAS_ELEMENTS // (k.shape[0] * k.shape[1] * k.shape[2]))
    pieces = []
    for q_rows, focus_rows in zip(q.split(rows, dim=2), focus.split_queries(rows)):
        arguments = (q_rows, k, v, focus_rows, padding, dropout_p)
        if torch.is_grad_enabled():
            pieces.append(checkpoint(_compute_focus_attention_by_bias, *arguments, use_reentrant=False))
        else:
            pieces.append(_compute_focus_attention_by_bias(*arguments))
    return torch.cat(pieces, dim=2)


def _compute_focus_attention_by_flex(
    q: Tensor, k: Tensor, v: Tensor, focus: FocusParameters, padding: Optional[Tensor], dropout_p: float
) -> Tensor:
    """Compute :func:`focus_attention` in the form "flex", or in the default form if "flex" cannot be compiled."""
    if dropout_p:
        raise ValueError(f"the form flex of focus-attention does not support dropout of weights: dropout_p {dropout_p}")
    positions, _ = compute_token_positions(padding, k.shape[0], k.shape[2], k.device)
    out = flex.flex_attention(q, k, v, focus, positions, padding)
    if out is not None:
        return out
    work = focus.center.dtype
    form = choose_focus_implementation_for_kernel("flex", q, work, dropout_p)
    return _FOCUS_FORMS[form](q.to(work), k.to(work), v.to(work), focus, padding, dropout_p)


_FOCUS_FORMS = {
    "columns": _compute_focus_attention_by_columns,
    "bias": _compute_focus_attention_by_bias,
    "blocks": _compute_focus_attention_by_blocks,
    "flex": _compute_focus_attention_by_flex,
}
FOCUS_FORMS = ("columns", "bias", "blocks")
"""Forms of :func:`focus_attention` that work on every device. "flex" has a backward pass only on GPUs."""


def _choose_bias_implementation(length: int) -> str:
    return "bias" if length <= LONGEST_BIAS else "blocks"


def choose_focus_implementation(
    device_type: str,
    dtype: torch.dtype,
    capability: Optional[Tuple[int, int]],
    length: int,
    exact_products: bool = True,
) -> str:
    """Choose the default form of :func:`focus_attention`.

    The form is "columns" if sums are known to have a precision of at least 24 bits, i.e. in float64 or, with exact
    products, on the devices in ``EXACT_COLUMNS``. Otherwise, the form is "bias" for documents of up to ``LONGEST_BIAS``
    tokens and "blocks" for longer documents.

    Args:
        device_type: the type of the device, such as "cpu".
        dtype: the data type of the computation, float32 or float64.
        capability: the compute capability of a CUDA device, such as (8, 0) for Ampere, or None for other devices.
        length: S, the document length including padding.
        exact_products: whether PyTorch computes float32 matrix products without rounding the factors
            (``torch.set_float32_matmul_precision``).
    """
    if dtype == torch.float64 or (exact_products and (device_type, capability) in EXACT_COLUMNS):
        return "columns"
    return _choose_bias_implementation(length)


def _has_exact_products(device_type: str) -> bool:
    """Return whether float32 matrix products use full precision rather than a reduced one such as TF32 or bfloat16."""
    try:
        exact = torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # newer PyTorch versions raise this error if the precision was set for only some operations
        return False
    backend = torch.backends.cuda if device_type == "cuda" else getattr(torch.backends, "mkldnn", None)
    own = getattr(getattr(backend, "matmul", None), "fp32_precision", "ieee")
    return exact and own in ("ieee", "none")


def _choose_default_focus_implementation(q: Tensor, work: torch.dtype) -> str:
    """Return the result of :func:`choose_focus_implementation` for queries (B, H, S, D) in the dtype ``work``.

    Any form except "columns" is logged. Inside ``torch.compile``, the form is never "columns".
    """
    if torch.compiler.is_compiling():  # columns would cause a graph break
        return _choose_bias_implementation(q.shape[2])
    capability = torch.cuda.get_device_capability(q.device) if q.is_cuda else None
    form = choose_focus_implementation(q.device.type, work, capability, q.shape[2], _has_exact_products(q.device.type))
    if form != "columns":
        _log_memory_use(form, q.device.type, capability)
    return form


def choose_focus_implementation_for_kernel(kernel: str, q: Tensor, work: torch.dtype, dropout_p: float) -> str:
    """Choose the form in which :func:`focus_attention` is computed, given queries (B, H, S, D) and a kernel's name.

    The name is one of :data:`KERNELS`:

    - "auto": the result of :func:`choose_focus_implementation`, which is never "flex".
    - "flex": "flex".
    - "fused": "columns".
    - "plain": "bias", or "blocks" for long documents.

    If a kernel cannot be used or is not known to be exact, the form for "auto" is used instead, and one warning is
    logged.
    """
    if kernel == "plain":
        return _choose_bias_implementation(q.shape[2])
    if kernel == "auto":
        return _choose_default_focus_implementation(q, work)
    if torch.compiler.is_compiling():  # a warning would cause a graph break
        return "flex" if kernel == "flex" and not dropout_p else _choose_default_focus_implementation(q, work)
    if kernel == "flex":
        reason = flex.get_unsupported_input_reason(q, dropout_p)
        if reason is None:
            return "flex"
        form = _choose_default_focus_implementation(q, work)
    else:
        form = _choose_default_focus_implementation(q, work)
        if form == "columns":
            return form
        reason = "its products are not known to be exact here"
    _warn_about_unused_kernel(kernel, reason, form)
    return form


@functools.cache
def _warn_about_unused_kernel(kernel: str, reason: str, form: str) -> None:
    """Warn once that another form is used instead of the requested kernel."""
    logger.warning(f"--attention-kernel {kernel} is not used: {reason}. Focus-attention uses its form {form} instead")


@functools.cache
def _log_memory_use(form: str, device_type: str, capability: Optional[Tuple[int, int]]) -> None:
    """Log once that focus-attention requires memory for each pair of words, and why."""
    device = device_type if capability is None else f"{device_type} of capability {capability[0]}.{capability[1]}"
    of_what = "all queries" if form == "bias" else "a block of queries"
    logger.info(
        f"focus-attention on {device}: matrix products are not known to be exact there, so the bias of {of_what} is "
        "added in float32, with a number for each pair of words"
    )


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
    kernel: str = "auto",
) -> Tensor:
    """Compute softmax(q k^T / sqrt(D) + f) v with the focal bias f of equation 7 (ETADS, section 3.2, equation 8).

    Args:
        q, k, v: the queries, keys and values (B, H, S, D), in any floating-point dtype.
        center, scope: the centres mu and the scopes sigma (B, H, S), in tokens, in float32 or higher precision.
        key_padding_mask: the padding mask (B, S), True at padding, or None.
        dropout_p: the dropout probability of the attention weights, which should be 0 in evaluation.
        form: the form of the computation, one of ``FOCUS_FORMS`` or "flex". If None,
            :func:`choose_focus_implementation_for_kernel` selects the form.
        strength: the factor (H,) by which each head multiplies f, in float32 or higher precision, or None for 1, as in
            the paper. If the strength is 0, the result is plain attention, and f passes a gradient only to the
            strength.
        kernel: the kernel that determines the form if ``form`` is None, one of ``KERNELS``.

    Returns:
        The attention output (B, H, S, D) in the dtype of ``q``. At padded queries, it is finite but meaningless.

    The computation uses float32 even for half-precision inputs and under autocast, because the bias spans many orders
    of magnitude. For float64 inputs, the computation uses float64. The forms are:

    - "columns": The square is expanded, so that f is a dot product between a few columns for each query and a few
      columns for each key. These columns are concatenated to q and k, and PyTorch's fused attention computes the result
      without an S x S tensor (on a CPU, only for ``dropout_p=0``). The kernel must add float32 products exactly. The
      error of the result is then at most 1e-5 for scopes down to 0.3 tokens in documents of 400 tokens, and down to 1
      token in longer documents (measured on a CPU).
    - "bias": f is passed to the kernel as a float32 mask (B, H, S, S). On every device, the result is as exact as the
      kernel's product q k^T.
    - "blocks": The form "bias" is applied to one block of queries at a time. Masks have at most ``BIAS_ELEMENTS``
      elements and are recomputed in the backward pass.
    - "flex": PyTorch's FlexAttention computes f in float32 inside its kernel. Matrix products are computed in the dtype
      of ``k``.
    """
    work = torch.promote_types(q.dtype, torch.float32)
    form = form or choose_focus_implementation_for_kernel(kernel, q, work, dropout_p)
    compute: Callable[..., Tensor] = _FOCUS_FORMS[form]
    products = k.dtype if form == "flex" else work
    with torch.autocast(q.device.type, enabled=False):
        factors = None if strength is None else strength[None, :, None].expand_as(center)
        focus = FocusParameters(center, scope, factors).apply(lambda x: x.to(work))
        out = compute(q.to(products), k.to(products), v.to(products), focus, key_padding_mask, dropout_p)
    return out.to(q.dtype)
