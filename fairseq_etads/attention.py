"""Pure functions for the attention mechanisms in the papers. Focus-attention is defined in ``kernels/focus.py``.

Shapes: B is the batch size, H the number of heads, T the query length, S the key length, D the size of each head, and
d_m = H * D. ``key_padding_mask`` is a boolean mask of shape (B, S) that is True at padding. Padding may be on either
side. The results do not depend on the amount of padding, because lengths, means and positions ignore padding.

Sources: You et al. 2019, "Improving Abstractive Document Summarization with Salient Information Modeling" (ETADS);
Nallapati et al. 2016, "Abstractive Text Summarization Using Sequence-to-Sequence RNNs and Beyond"; See et al. 2017,
"Get To The Point: Summarization with Pointer-Generator Networks"; Hsu et al. 2018, "A Unified Model for Extractive and
Abstractive Summarization using Inconsistency Loss".
"""

import math
from typing import Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .kernels.focus import PADDING_SCORE
from .kernels.focus import focal_bias as focal_bias
from .kernels.focus import focus_attention as focus_attention
from .kernels.precision import widen_to_float32


def attention_scores(q: Tensor, k: Tensor, own_format: bool = False) -> Tensor:
    """Compute the products q k^T (…, T, S) of queries q (…, T, D) and keys k (…, S, D) in at least float32 precision.

    Args:
        own_format: whether to multiply in the dtype of q and k. If False, the product is computed in float32 or higher
            precision, even for half-precision inputs and under autocast. Rounding a score of 30 to bfloat16 can change
            its attention weight by 6 %.
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

    The result has at least float32 precision, regardless of the dtype of the inputs. Weights are 0 at padding.

    Args:
        q: queries, shape (B, H, T, D).
        k: keys, shape (B, H, S, D).
        key_padding_mask: boolean mask of the keys, shape (B, S), True at padding.
        own_format: whether to compute the scores in the dtype of the inputs; see :func:`attention_scores`.
        bias: optional bias that is added to the scores before the softmax, broadcastable to (B, H, T, S).
    """
    q = q if own_format else widen_to_float32(q)
    scores = attention_scores(q * q.size(-1) ** -0.5, k, own_format)
    if bias is not None:
        scores = scores + bias
    if key_padding_mask is not None:
        scores = scores.masked_fill(key_padding_mask[:, None, None, :], PADDING_SCORE)
    return torch.softmax(scores, dim=-1)


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

    Args:
        scores: attention scores e_t before any normalisation, shape (…, S), in at least float32.
        spent: logarithm of the sum of exp(e_k) over the earlier steps k, shape (…, S). It is minus infinity before the
            first step.

    Returns:
        The attention logits, shape (…, S), and the updated value of ``spent``, shape (…, S), which includes this step.
        Sums are stored as logarithms, so that large scores do not overflow and small scores do not underflow.
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

    The attention weight of each word is multiplied by the probability of its sentence.

    Args:
        log_word: logarithms of the word attention α, shape (B, T, S), as returned by
            :func:`compute_log_attention_weights`.
        log_selected: logarithm of β_s(j), the selection probability of the sentence that contains each word, shape (B,
            S).
        key_padding_mask: boolean mask of the document tokens, shape (B, S), True at padding.

    Returns:
        Logarithms of the combined attention weights, shape (B, T, S). At padding, they are so negative that their
        exponentials are exactly 0.
    """
    return compute_log_attention_weights(log_word + log_selected[:, None], key_padding_mask)


def inconsistency_loss(log_word: Tensor, log_selected: Tensor, top: int) -> Tensor:
    """Compute the inconsistency loss -log((1/K) Σ_k α_tk β_s(k)) (Hsu et al. 2018).

    The sum is over the K = ``top`` words with the largest attention weights α_t. The loss is small if the extractor
    assigns high probabilities to the sentences that contain these words.

    Args:
        log_word: logarithms of the word attention α before it is combined with β, shape (B, T, S).
        log_selected: logarithm of β_s(j), the selection probability of the sentence that contains each word, shape (B,
            S).

    Returns:
        The loss at each step, shape (B, T), in at least float32. If a document has fewer than K words, the sum is still
        divided by K.
    """
    log_word, log_selected = widen_to_float32(log_word), widen_to_float32(log_selected)
    log_top, places = log_word.topk(min(top, log_word.shape[2]), dim=2)  # (B, T, K)
    of_top = log_selected[:, None].expand_as(log_word).gather(2, places)
    return math.log(top) - (log_top + of_top).logsumexp(dim=2)
