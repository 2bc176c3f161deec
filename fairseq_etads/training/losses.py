"""Losses as functions of what a model returns: coverage, labels of words and sentences, selections, the closed book."""

import logging
from typing import Any, Dict, Iterable, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from ..kernels.precision import at_least_float32
from ..layers.sentence_selector import SentenceSelection

LARGEST_LOSS = 1e20
"""A larger loss of one word means that the word has no column and so no probability."""

logger = logging.getLogger(__name__)


class NonFiniteLossError(RuntimeError):
    """The loss of a pair is infinite or not a number."""


def coverage_loss(attention: Tensor, real: Tensor) -> Tensor:
    """sum over j of min(a_tj, c_tj), with c_t the sum of earlier attention (See et al. 2017, eq. 12).

    Args:
        attention: (B, T, S), each row sums to 1. real: (B, T) bool, False at padding, on either side.

    Returns:
        (B, T), at least float32; 0 at padding and at a summary's first word.
    """
    attention = at_least_float32(attention) * real[:, :, None]
    before = attention.cumsum(dim=1) - attention
    return torch.minimum(attention, before).sum(dim=2)


def selection_losses(logits: Tensor, labels: Tensor, real: Tensor) -> Tensor:
    """-log P of labels, 0 or 1, by logits (B, U); 0 where ``real`` (B, U) is False. (B, U), at least float32."""
    logits = at_least_float32(logits).masked_fill(~real, 0)
    losses = F.binary_cross_entropy_with_logits(logits, labels.to(logits).clamp(min=0), reduction="none")
    return losses.masked_fill(~real, 0)


def sentence_loss(logits: Tensor, labels: Tensor, real: Tensor) -> Tensor:
    """Of each document the mean of :func:`selection_losses` over its sentences (Hsu et al. 2018): (B,)."""
    return selection_losses(logits, labels, real).sum(dim=1) / real.sum(dim=1).clamp(min=1)


def selection_loss(
    selection: Optional[SentenceSelection], sample: Dict[str, Any], no_words: Iterable[int], training: bool
) -> Optional[Tensor]:
    """Distance of a model's selections from their targets: (N,), see :meth:`SentenceSelection.divergence`.

    Args:
        selection: of a forward pass. sample: the batch, with "sentence_targets" (N, n, m).
        no_words: ids in summaries that are no words: the sentence mark, the end symbol and padding.

    Returns:
        None if the model selects no sentences or, where it is not trained, the batch has no targets.

    Raises:
        ValueError: the model is trained, and the batch has no targets.
    """
    if selection is None:
        return None
    if "sentence_targets" not in sample:
        if training:
            raise ValueError("--selection-loss: the batch has no labels; etads-labels --kind distribution makes them")
        return None
    is_word = torch.ones_like(selection.starts)
    for number in no_words:
        is_word &= sample["target"] != number
    return selection.divergence(sample["sentence_targets"], is_word)


def closed_book_loss(logits: Tensor, target: Tensor, pad: int, unk: int) -> Tensor:
    """The negative log-likelihood of each word (N, T), at least float32; 0 at padding.

    Args:
        logits: (N, T, V), of the V known words. target: (N, T), ids; those of unknown words count as ``unk``.
    """
    words = target.masked_fill(target >= logits.shape[2], unk)
    return F.cross_entropy(at_least_float32(logits).transpose(1, 2), words, ignore_index=pad, reduction="none")


def check_finite(loss: Tensor, sample: Dict[str, Any], skip_overflow: bool = False) -> bool:
    """Raise if a loss (N, T) is not finite or exceeds LARGEST_LOSS, which means that the target has no column.

    With ``skip_overflow``, losses that are not finite are only warned of, and the result is True: the optimiser is
    to skip the update. It also lowers the scale of the loss; if all updates overflow, it soon reaches fairseq's
    --min-loss-scale and stops training.
    """
    loss = loss.detach()
    if loss.sum().abs() < LARGEST_LOSS:  # False for NaN
        return False
    overflow = ~loss.isfinite()
    rows = (overflow | (loss.abs() >= LARGEST_LOSS)).any(dim=1).nonzero().flatten().tolist()
    ids = sample["id"].tolist() if "id" in sample else rows
    which = ", ".join(str(ids[row]) for row in rows[:20]) + (", …" if len(rows) > 20 else "")
    which = which or "their sum overflows"
    what = f"the loss of {len(rows)} of {len(loss)} pairs is not finite (numbers in the data set, from 0: {which}). "
    if skip_overflow and overflow.any() and not (loss.masked_fill(overflow, 0).abs() >= LARGEST_LOSS).any():
        logger.warning(f"{what}The update is skipped and the scale of the loss lowered")
        return True
    raise NonFiniteLossError(
        f"{what}The last checkpoint is from before this update. Start again from it with a lower --lr, a longer "
        "--warmup-updates or a lower --clip-norm; with --fp16 try --bf16; if the same pairs come up again, look at "
        "their text"
    )
