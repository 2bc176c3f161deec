"""The papers' attention mechanisms as pure functions. ``kernels/`` holds only what makes them fast.

Shapes: B is the batch size, H the number of heads, T the query length, S the key length, D the size of each head, and
d_m = H * D. ``key_padding_mask`` is a boolean mask of shape (B, S) that is True at padding. Padding may be on either
side. The results do not depend on the amount of padding, because lengths, means and positions ignore padding.

Sources: You et al. 2019, "Improving Abstractive Document Summarization with Salient Information Modeling" (ETADS);
Nallapati et al. 2016, "Abstractive Text Summarization Using Sequence-to-Sequence RNNs and Beyond"; See et al. 2017,
"Get To The Point: Summarization with Pointer-Generator Networks"; Hsu et al. 2018, "A Unified Model for Extractive and
Abstractive Summarization using Inconsistency Loss".
"""

import functools
import logging
import math
from typing import Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .kernels.focus_columns import PADDING_SCORE, SCOPE_FLOOR, FocusParameters, compute_focus_attention_by_columns
from .kernels.linear import widen_to_float32
from .kernels.operators import warn_without_fused_kernel

logger = logging.getLogger(__name__)


def attention_scores(q: Tensor, k: Tensor, own_format: bool = False) -> Tensor:
    """Compute the products q k^T (…, T, S) of queries q (…, T, D) and keys k (…, S, D) in at least float32 precision.

    This holds even for half-precision inputs and under autocast, because rounding a score of 30 to bfloat16 can change
    its attention weight by 6 %. With ``own_format``, only the result is converted, and q and k are multiplied as given.
    """
    if own_format:
        return widen_to_float32(torch.matmul(q, k.mT))
    with torch.autocast(q.device.type, enabled=False):
        return torch.matmul(widen_to_float32(q), widen_to_float32(k).mT)


def attention_weights(
    q: Tensor,
    k: Tensor,
    key_padding_mask: Optional[Tensor] = None,
    own_format: bool = False,
    bias: Optional[Tensor] = None,
) -> Tensor:
    """Compute the attention weights softmax(q k^T / sqrt(D) [+ bias]), shape (B, H, T, S).

    The result has at least float32 precision, regardless of the dtype of the queries (B, H, T, D) and the keys
    (B, H, S, D); for ``own_format``, see :func:`attention_scores`. Weights are 0 where the mask (B, S) is True, at
    padding. The ``bias`` is broadcastable to (B, H, T, S).
    """
    q = q if own_format else widen_to_float32(q)
    scores = attention_scores(q * q.size(-1) ** -0.5, k, own_format)
    if bias is not None:
        scores = scores + bias
    if key_padding_mask is not None:
        scores = scores.masked_fill(key_padding_mask[:, None, None, :], PADDING_SCORE)
    return torch.softmax(scores, dim=-1)


def focal_bias(center: Tensor, scope: Tensor, positions: Tensor, strength: Optional[Tensor] = None) -> Tensor:
    """Compute the Gaussian focal bias f_ij = -(P_j - mu_i)^2 / (sigma_i^2 / 2) (ETADS, section 3.2, equation 7).

    Args:
        center: the centres mu (B, H, T), in tokens.
        scope: the scopes sigma (B, H, T), in tokens. Values below ``SCOPE_FLOOR`` are replaced with ``SCOPE_FLOOR``.
        positions: the positions P (B, S) of the keys, in tokens.
        strength: the factors (B, H, T) by which the bias is multiplied, or None for 1, as in the paper.

    Returns:
        The focal bias (B, H, T, S), in the dtype of ``center``. If the strength is positive, the bias is never above 0.

    :func:`focus_attention` can compute the attention without storing the bias.
    """
    distance = positions[:, None, None, :].to(center) - center.unsqueeze(-1)
    bias = -2.0 * (distance / scope.clamp(min=SCOPE_FLOOR).unsqueeze(-1)) ** 2
    return bias if strength is None else bias * strength.unsqueeze(-1)


EXACT_COLUMNS = {("cpu", None)}
"""Pairs of device type and CUDA capability for which fused attention is known to add float32 columns exactly.

On NVIDIA GPUs since Ampere, PyTorch's float32 kernels split numbers into pieces of 11 bits and multiply these pieces
(split TF32). No GPU has been measured yet. If ``tests/gpu/test_focus_attention_cuda.py`` passes on a GPU, the
capability of this GPU may be added.
"""
FOCUS_FORMS = ("columns", "bias")
"""Forms of :func:`focus_attention`."""
KERNELS = ("auto", "flex", "fused", "plain")
"""Values of --attention-kernel: the form that is exact on the device, the same (for older models), columns, bias."""
LONGEST_BIAS = 512
"""Maximum document length in tokens, including padding, for which the form "bias" stores the whole bias."""
BIAS_ELEMENTS = 2**24
"""Maximum number of elements in the bias of a block of queries in longer documents (64 MiB in float32)."""


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
        form: the form of the computation, one of ``FOCUS_FORMS``, or None for the form that ``kernel`` chooses.
        strength: the factor (H,) by which each head multiplies f, in float32 or higher precision, or None for 1, as in
            the paper. If the strength is 0, the result is plain attention, and f passes a gradient only to the
            strength.
        kernel: one of ``KERNELS``; see :func:`choose_focus_form`.

    Returns:
        The attention output (B, H, S, D) in the dtype of ``q``. At padded queries, it is finite but meaningless.

    The computation uses float32 even for half-precision inputs and under autocast, because the bias spans many orders
    of magnitude. For float64 inputs, the computation uses float64. The forms are:

    - "columns": The square is expanded, so that f is a dot product between a few columns for each query and a few
      columns for each key. These columns are concatenated to q and k, and PyTorch's fused attention computes the result
      without an S x S tensor (on a CPU, only for ``dropout_p=0``). The kernel must add float32 products exactly. The
      error of the result is then at most 1e-5 for scopes down to 0.3 tokens in documents of 400 tokens, and down to 1
      token in longer documents (measured on a CPU).
    - "bias": f is passed to the kernel as a float32 mask. On every device, the result is as exact as the kernel's
      product q k^T. Documents of more than ``LONGEST_BIAS`` tokens are computed in blocks of queries whose masks have
      at most ``BIAS_ELEMENTS`` elements, and the backward pass recomputes the masks.
    """
    work = torch.promote_types(q.dtype, torch.float32)
    form = form or choose_focus_form(kernel, q, work)
    with torch.autocast(q.device.type, enabled=False):
        factors = None if strength is None else strength[None, :, None].expand_as(center)
        focus = FocusParameters(center, scope, factors).apply(lambda x: x.to(work))
        positions, lengths = compute_token_positions(key_padding_mask, len(k), k.shape[2], k.device)
        wide = q.to(work), k.to(work), v.to(work)
        if form == "columns":
            out = compute_focus_attention_by_columns(*wide, focus, positions, lengths, key_padding_mask, dropout_p)
        elif k.shape[2] <= LONGEST_BIAS:
            out = _add_focal_bias(*wide, focus, positions, key_padding_mask, dropout_p)
        else:
            rows = max(1, BIAS_ELEMENTS // (len(k) * k.shape[1] * k.shape[2]))
            rest = positions, key_padding_mask, dropout_p
            pieces = [
                checkpoint(_add_focal_bias, queries, *wide[1:], own, *rest, use_reentrant=False)
                for queries, own in zip(wide[0].split(rows, dim=2), focus.split_queries(rows))
            ]
            out = torch.cat(pieces, dim=2)
    return out.to(q.dtype)


def _add_focal_bias(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    focus: FocusParameters,
    positions: Tensor,
    padding: Optional[Tensor],
    dropout_p: float,
) -> Tensor:
    """Compute :func:`focus_attention` in the form "bias", possibly for only a part of the queries."""
    bias = focal_bias(focus.center, focus.scope, positions, focus.strength)  # (B, H, T, S)
    if padding is not None:
        bias = bias.masked_fill(padding[:, None, None, :], PADDING_SCORE)
    warn_without_fused_kernel(q, q.shape[3], dropout_p, masked=True)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout_p)


def choose_focus_form(kernel: str, q: Tensor, work: torch.dtype) -> str:
    """Choose the form of :func:`focus_attention` for queries (B, H, S, D) that are computed in the dtype ``work``.

    "plain" is the form "bias". The other kernels are the form "columns" if sums are known to have a precision of at
    least 24 bits, i.e. in float64 or, with exact products, on the devices in ``EXACT_COLUMNS``, and otherwise "bias",
    which is logged once. Inside ``torch.compile``, where columns would break the graph, the form is always "bias".
    """
    if kernel == "plain" or torch.compiler.is_compiling():
        return "bias"
    capability = torch.cuda.get_device_capability(q.device) if q.is_cuda else None
    exact = _has_exact_products(q.device.type) and (q.device.type, capability) in EXACT_COLUMNS
    if work == torch.float64 or exact:
        return "columns"
    _log_form(kernel, q.device.type, capability)
    return "bias"


@functools.cache
def _log_form(kernel: str, device_type: str, capability: Optional[Tuple[int, int]]) -> None:
    """Log once that focus-attention requires memory for each pair of words, and why."""
    device = device_type if capability is None else f"{device_type} of capability {capability[0]}.{capability[1]}"
    logger.log(
        logging.WARNING if kernel == "fused" else logging.INFO,
        f"--attention-kernel {kernel}: matrix products on {device} are not known to be exact, so focus-attention adds "
        "its bias in float32, with a number for each pair of words",
    )


def _has_exact_products(device_type: str) -> bool:
    """Return whether float32 matrix products use full precision rather than a reduced one such as TF32 or bfloat16."""
    try:
        exact = torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # newer PyTorch versions raise this error if the precision was set for only some operations
        return False
    backend = torch.backends.cuda if device_type == "cuda" else getattr(torch.backends, "mkldnn", None)
    own = getattr(getattr(backend, "matmul", None), "fp32_precision", "ieee")
    return exact and own in ("ieee", "none")


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


GATES = ("sigmoid", "open", "normalised")
"""Variants of the saliency gate. See :func:`saliency_attention`."""


def gate_logits(
    gate_q: Tensor, gate_k: Tensor, gate_level: Optional[Tensor] = None, own_format: bool = False
) -> Tensor:
    """Compute the logits (B, H, T, S) of the saliency gate g. See :func:`saliency_attention` for the arguments."""
    logits = attention_scores(gate_q, gate_k, own_format)
    return logits if gate_level is None else logits + gate_level[:, None, None]


RECOMPUTED_WEIGHTS = 2**20
"""Minimum number of attention weights (B * H * T * S) at which the backward pass recomputes the weights."""
GROUPED_WEIGHTS = 2**21
"""Maximum number of attention weights that are recomputed at the same time (8 MiB in float32).

All weights of a document are recomputed together, even if they exceed this number.
"""


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
    form: str = "sigmoid",
    gate_level: Optional[Tensor] = None,
) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """Compute saliency-gated attention (ETADS, section 3.3, equations 9 and 10).

    The result is (g ⊗ softmax(q k^T / sqrt(D))) v with the gate g = sigmoid(gate_q gate_k^T).

    Args:
        q: queries, shape (B, H, T, D).
        k, v: keys and values, each of shape (B, H, S, D).
        gate_q, gate_k: the projected queries multiplied by W_h, shape (B, H, T, D), and the projected keys multiplied
            by W_s, shape (B, H, S, D). Their product is not scaled by sqrt(D).
        key_padding_mask: boolean mask of the keys, shape (B, S), True at padding.
        dropout_p: dropout probability for the gated weights. Callers must pass 0 during evaluation.
        need_weights: whether to also return attention weights that sum to 1, for coverage and penalties. For the
            variant "normalised", these are the gated weights. Otherwise, they are the weights before the gate is
            applied.
        own_format: whether to compute the scores in the dtype of the inputs; see :func:`attention_scores`.
        form: variant of the gate, one of ``GATES``. "sigmoid" is the gate in the paper, which does not normalise the
            gated weights. "open" is twice the sigmoid, so its values are between 0 and 2, and a logit of 0 does not
            change the attention weight. "normalised" divides the gated weights by their sum. The gate can then select
            words but cannot shrink the context vector.
        gate_level: bias of the gate for each head, shape (H,), which is added to gate_q gate_k^T.

    Returns:
        The context vectors, shape (B, H, T, D), in the dtype of ``v``. With ``need_weights``, a tuple of the context
        vectors and the attention weights, shape (B, H, T, S), in at least float32.

    Raises:
        ValueError: the form is unknown.

    If training computes many attention weights, only the inputs are stored. The backward pass then recomputes the
    weights for a few documents at a time, with the same dropout masks.
    """
    if form not in GATES:
        raise ValueError(f'form "{form}": choose {", ".join(GATES)}')
    rest = dropout_p, need_weights, own_format, form, gate_level
    weights_per_document = q.shape[1] * q.shape[2] * k.shape[2]
    if not torch.is_grad_enabled() or len(q) * weights_per_document < RECOMPUTED_WEIGHTS:
        return _saliency_attention(q, k, v, gate_q, gate_k, key_padding_mask, *rest)
    group = max(1, GROUPED_WEIGHTS // weights_per_document)
    masks = [None] * len(q) if key_padding_mask is None else key_padding_mask.split(group)
    pieces = [
        checkpoint(_saliency_attention, *tensors, mask, *rest, use_reentrant=False, preserve_rng_state=dropout_p > 0)
        for *tensors, mask in zip(*(x.split(group) for x in (q, k, v, gate_q, gate_k)), masks)
    ]
    if need_weights:
        outs, weights = zip(*pieces)
        return torch.cat(outs), torch.cat(weights)
    return torch.cat(pieces)


def _saliency_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gate_q: Tensor,
    gate_k: Tensor,
    key_padding_mask: Optional[Tensor],
    dropout_p: float,
    need_weights: bool,
    own_format: bool,
    form: str,
    gate_level: Optional[Tensor],
) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """Compute :func:`saliency_attention` without recomputation. Training stores all intermediate values."""
    logits = gate_logits(gate_q, gate_k, gate_level, own_format)
    # Normalising g softmax(e) gives softmax(e + log g). log 2 is added so that a logit of 0 does not change e.
    if form == "normalised":
        gated = weights = attention_weights(q, k, key_padding_mask, own_format, F.logsigmoid(logits) + math.log(2))
    else:
        weights = attention_weights(q, k, key_padding_mask, own_format)
        gate = torch.sigmoid(logits)
        gated = (2 * gate if form == "open" else gate) * weights
    out = torch.matmul(F.dropout(gated, p=dropout_p).to(v.dtype), v)
    return (out, weights) if need_weights else out


def compute_log_attention_weights(scores: Tensor, key_padding_mask: Optional[Tensor] = None) -> Tensor:
    """Compute the log-softmax of attention scores (B, T, S) over all tokens except padding.

    At padding, the result is so negative that its exponential is exactly 0.
    """
    if key_padding_mask is not None:
        scores = scores.masked_fill(key_padding_mask[:, None], PADDING_SCORE)
    return scores.log_softmax(dim=-1)


def temporal_attention_step(scores: Tensor, spent: Tensor) -> Tuple[Tensor, Tensor]:
    """Compute the attention logits log(exp(e_t) / beta_t) of one decoding step (Nallapati et al., equation 1).

    ``scores`` are the attention scores e_t (…, S) before any normalisation, in at least float32. ``spent`` (…, S) is
    the logarithm of the sum of exp(e_k) over the earlier steps k, and minus infinity before the first step.

    Returns the attention logits (…, S), and the value of ``spent`` that includes this step. Sums are stored as
    logarithms, so that large scores do not overflow and small scores do not underflow.
    """
    log_beta = spent.masked_fill(spent.isneginf(), 0.0)  # beta_1 = 1
    return scores - log_beta, torch.logaddexp(spent, scores)


def temporal_attention(scores: Tensor, key_padding_mask: Optional[Tensor] = None) -> Tensor:
    """Compute temporal attention (Nallapati et al., equation 1).

    The weights are alpha_t ∝ exp(e_t) / beta_t, where beta_t is the sum of exp(e_k) over k < t, and beta_1 = 1.

    Args:
        scores: attention scores e before any normalisation, shape (B, T, S).
        key_padding_mask: boolean mask of the keys, shape (B, S), True at padding.

    Returns:
        Attention weights, shape (B, T, S), in at least float32. Each row sums to 1, and weights at padding are exactly
        0. Recurrent decoders compute the same weights one step at a time with :func:`temporal_attention_step`.
    """
    scores = widen_to_float32(scores)
    spent, logits = torch.full_like(scores[:, 0], -math.inf), []
    for step in scores.unbind(dim=1):
        logit, spent = temporal_attention_step(step, spent)
        logits.append(logit)
    return compute_log_attention_weights(torch.stack(logits, dim=1), key_padding_mask).exp()


def hierarchical_log_attention(log_word: Tensor, log_sentence: Tensor, sentence_ids: Tensor) -> Tensor:
    """Compute the logarithm of :func:`hierarchical_attention` from log P_w and log P_s."""
    index = sentence_ids[:, None].expand(-1, log_word.shape[1], -1)
    return (log_word + log_sentence.gather(2, index)).log_softmax(dim=-1)


def hierarchical_attention(word: Tensor, sentence: Tensor, sentence_ids: Tensor) -> Tensor:
    """Compute hierarchical attention P(j) ∝ P_w(j) P_s(s(j)) (Nallapati et al., section 2.4).

    Args:
        word: word attention P_w, shape (B, T, S), 0 at padding.
        sentence: sentence attention P_s, shape (B, T, N), where N is the number of sentences.
        sentence_ids: index s of the sentence that contains each token, shape (B, S), int64. Any index from 0 to N - 1
            is allowed at padding.

    Returns:
        Attention weights, shape (B, T, S), in at least float32. The function adds logarithms instead of multiplying
        probabilities, so rows sum to 1 even if all products would underflow.
    """
    log_word, log_sentence = (
        torch.where(p > 0, p.clamp(min=torch.finfo(p.dtype).tiny).log(), PADDING_SCORE)
        for p in (widen_to_float32(word), widen_to_float32(sentence))
    )
    return hierarchical_log_attention(log_word, log_sentence, sentence_ids).masked_fill(word == 0, -math.inf).exp()


def combined_attention_log_weights(
    log_word: Tensor, log_selected: Tensor, key_padding_mask: Optional[Tensor] = None
) -> Tensor:
    """Compute the logarithm of the combined attention α̂_tj ∝ α_tj β_s(j) (Hsu et al. 2018).

    ``log_word`` is log α (B, T, S), as returned by :func:`compute_log_attention_weights`, and ``log_selected`` is
    log β_s(j) (B, S), where β is the selection probability of the sentence that contains a word. The mask (B, S) is
    True at padding, where the results (B, T, S) are so negative that their exponentials are exactly 0.
    """
    return compute_log_attention_weights(log_word + log_selected[:, None], key_padding_mask)


def inconsistency_loss(log_word: Tensor, log_selected: Tensor, top: int) -> Tensor:
    """Compute the inconsistency loss -log((1/K) Σ_k α_tk β_s(k)) (Hsu et al. 2018).

    The sum is over the K = ``top`` words with the largest attention weights α_t. The loss is small if the extractor
    assigns high probabilities to the sentences that contain these words. ``log_word`` is log α (B, T, S) before it is
    combined with β, and ``log_selected`` is log β_s(j) (B, S).

    Returns the loss at each step (B, T), in at least float32. If a document has fewer than K words, the sum is still
    divided by K.
    """
    log_word, log_selected = widen_to_float32(log_word), widen_to_float32(log_selected)
    log_top, places = log_word.topk(min(top, log_word.shape[2]), dim=2)  # (B, T, K)
    of_top = log_selected[:, None].expand_as(log_word).gather(2, places)
    return math.log(top) - (log_top + of_top).logsumexp(dim=2)
