"""Dropout that is fast on a CPU and stores only one byte per element, whereas PyTorch stores four.

On a CPU, PyTorch's dropout needs 8 ns per element, mostly to draw a random number, and stores a float32 factor for the
backward pass. In this module, one 64-bit random number is used for four elements, and a mask of bytes is stored for the
backward pass. Probabilities are rounded to multiples of 1/65536. The masks are drawn with PyTorch's random number
generator, but they differ from the masks of PyTorch's dropout.
"""

from typing import Any, Tuple

import torch
import torch.nn.functional as F
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

LEVELS = 65536
"""Number of possible values of the 16 random bits for each element."""


def draw_mask(x: Tensor, dropped: int) -> Tensor:
    """Draw a random uint8 mask with the shape of ``x``: 0 with probability ``dropped`` / LEVELS, and 1 otherwise."""
    bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    keep = bits.view(torch.int16)[: x.numel()] >= dropped - LEVELS // 2
    return keep.view(x.shape).view(
        torch.uint8
    )  # converting bytes to floating point is four times as fast as converting booleans


class _DropoutFunction(torch.autograd.Function):
    """Multiplies x by a mask and a scale. Only the mask is stored for the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.scale = scale
        return mask.to(x.dtype).mul_(scale).mul_(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple[Tensor, None, None]:
        (mask,), (gradient,) = ctx.saved_tensors, gradients
        return mask.to(gradient.dtype).mul_(ctx.scale).mul_(gradient), None, None


def dropout(x: Tensor, p: float) -> Tensor:
    """Apply dropout with probability ``p`` to a tensor of any shape, like ``torch.nn.functional.dropout``."""
    dropped = round(p * LEVELS)
    if x.device.type != "cpu" or not 0 < dropped < LEVELS:
        return F.dropout(x, p)
    result: Tensor = _DropoutFunction.apply(x, draw_mask(x, dropped), 1 / (1 - p))
    return result


class CompactDropout(FairseqDropout):
    """fairseq's dropout module, implemented with :func:`dropout`."""

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        """Apply dropout to ``x`` in training or with --retain-dropout, and otherwise return ``x``."""
        active = self.p > 0 and (self.training or self.apply_during_inference)
        return dropout(x, self.p) if active else x


def replace_with_compact_dropout(model: nn.Module) -> None:
    """Replace each fairseq dropout module in a model with a :class:`CompactDropout`."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is FairseqDropout:
                setattr(module, name, CompactDropout(child.p, child.module_name))
