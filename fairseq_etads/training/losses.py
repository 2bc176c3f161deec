"""Losses as functions of a model's outputs: coverage, labels of words and sentences, selections, the closed book.

:class:`LossChecks` refuses losses that are not finite, and :func:`as_numbers` fetches the figures for the log.
"""

import logging
import math
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from fairseq.nan_detector import NanDetector
from torch import Tensor, nn

from ..kernels.precision import at_least_float32
from ..layers.sentence_selector import SentenceSelection

LARGEST_LOSS = 1e20
"""Loss of a word above which the word has no column, and so no probability."""

logger = logging.getLogger(__name__)


class NonFiniteLossError(RuntimeError):
    """The loss of a pair is infinite or not a number."""


def coverage_loss(attention: Tensor, real: Tensor) -> Tensor:
    """Compute the sum over j of min(a_tj, c_tj), with c_t the sum of earlier attention (See et al. 2017, eq. 12).

    Args:
        attention: attention (B, T, S); each row sums to 1.
        real: (B, T) bool, False at padding, on either side.

    Returns:
        (B, T), at least float32; 0 at padding and at a summary's first word.
    """
    attention = at_least_float32(attention) * real[:, :, None]
    before = attention.cumsum(dim=1) - attention
    return torch.minimum(attention, before).sum(dim=2)


def selection_losses(logits: Tensor, labels: Tensor, real: Tensor) -> Tensor:
    """Compute -log P of labels, 0 or 1, from logits (B, U); 0 where ``real`` (B, U) is False. (B, U), at least
    float32.
    """
    logits = at_least_float32(logits).masked_fill(~real, 0)
    losses = F.binary_cross_entropy_with_logits(logits, labels.to(logits).clamp(min=0), reduction="none")
    return losses.masked_fill(~real, 0)


def sentence_loss(logits: Tensor, labels: Tensor, real: Tensor) -> Tensor:
    """Compute the mean (B,) of :func:`selection_losses` over each document's sentences (Hsu et al. 2018)."""
    return selection_losses(logits, labels, real).sum(dim=1) / real.sum(dim=1).clamp(min=1)


def selection_loss(
    selection: Optional[SentenceSelection], sample: Dict[str, Any], no_words: Iterable[int], training: bool
) -> Optional[Tensor]:
    """Compute the distance (N,) of a model's selections from targets; see :meth:`SentenceSelection.divergence`.

    Args:
        selection: the selection of a forward pass.
        sample: the batch, with "sentence_targets" (N, n, m).
        no_words: ids in summaries that are not words: the sentence mark, the end symbol and padding.

    Returns:
        None if the model selects no sentences or, outside training, the batch has no targets.

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
    """Compute the negative log-likelihood of each word (N, T), at least float32; 0 at padding.

    Args:
        logits: logits (N, T, V) of the V known words.
        target: ids (N, T) of the words; unknown words count as ``unk``.
    """
    words = target.masked_fill(target >= logits.shape[2], unk)
    return F.cross_entropy(at_least_float32(logits).transpose(1, 2), words, ignore_index=pad, reduction="none")


def check_finite(loss: Tensor, sample: Dict[str, Any], skip_overflow: bool = False) -> bool:
    """Raise if a loss (N, T) is not finite or exceeds LARGEST_LOSS, which means that the target has no column.

    With ``skip_overflow``, losses that are not finite only cause a warning, and the result is True: the optimiser must
    skip the update. It also lowers the scale of the loss; if all updates overflow, it soon reaches fairseq's
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
        logger.warning(f"{what}The update is skipped, and the loss scale is lowered")
        return True
    raise NonFiniteLossError(
        f"{what}The last checkpoint is from before this update. Start again from it with a lower --lr, a longer "
        "--warmup-updates or a lower --clip-norm; with --fp16 try --bf16; if the same pairs are reported again, look "
        "at their text"
    )


def _looks_for_nan(model: nn.Module) -> bool:
    """Tell whether fairseq repeats an update with a non-finite gradient to find the cause."""
    return any(isinstance(getattr(hook, "__self__", None), NanDetector) for hook in model._forward_hooks.values())


class LossChecks:
    """Runs :func:`check_finite` on the losses of each update, without making a GPU wait.

    On a CPU a loss is checked immediately. On a GPU a training step would have to wait for it between the forward and
    the backward pass. On a GPU, a loss that would be refused therefore becomes NaN, and so does the gradient. fairseq
    waits for the gradient anyway and skips the update; then the error is raised.
    """

    def __init__(self) -> None:
        self._unchecked: List[Tuple[Tensor, Dict[str, Any]]] = []

    def factor(self, loss: Tensor, sample: Dict[str, Any], model: nn.Module, skip_overflow: bool) -> Any:
        """Return the factor of a batch's total loss: 1, or NaN for a loss (N, T) that is not finite.

        Args:
            model: the trained or evaluated model, unwrapped.
            skip_overflow: whether losses that are not finite are skipped; see :func:`check_finite`.

        Raises:
            NonFiniteLossError: now, or in a later call of this object before the update is taken.
        """
        loss = loss.detach()
        if not (loss.is_cuda and model.training) or _looks_for_nan(model):
            return math.nan if check_finite(loss, sample, skip_overflow) else 1
        self._unchecked.append((loss, {name: sample[name] for name in ("id",) if name in sample}))
        return torch.where(loss.sum().abs() < LARGEST_LOSS, 1.0, math.nan)  # False for NaN

    def update_is_taken(self, gradient_is_finite: bool, skip_overflow: bool) -> None:
        """Note before the optimiser's step that the update is taken; a finite gradient shows that all losses are
        finite.
        """
        if gradient_is_finite:
            self._unchecked.clear()
        self.check(skip_overflow)

    def check(self, skip_overflow: bool) -> None:
        """Check the losses of an update that was skipped; there are none after one that was taken."""
        unchecked, self._unchecked = self._unchecked, []
        for loss, sample in unchecked:
            check_finite(loss, sample, skip_overflow)


def as_numbers(logging_outputs: Sequence[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Replace each figure on a GPU in a criterion's outputs by a number, waiting once for all of them.

    fairseq would wait for each figure separately.
    """
    outputs = [dict(output) for output in logging_outputs]
    found = [
        (output, name)
        for output in outputs
        for name, value in output.items()
        if isinstance(value, Tensor) and value.is_cuda and value.numel() == 1
    ]
    if found:
        together = torch.stack([output[name].detach().double().flatten()[0] for output, name in found])
        for (output, name), number in zip(found, together.tolist()):
            output[name] = number
    return outputs
