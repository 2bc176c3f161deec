"""Predict which kernel PyTorch uses for ``scaled_dot_product_attention`` on an NVIDIA GPU.

If the kernel is not fused, a warning is logged. The rules for dense tensors without a causal flag are taken from
PyTorch 2.13 (``aten/src/ATen/native/transformers/cuda/sdp_utils.cpp``). ``tests/gpu`` compares them with PyTorch's
choices.
"""

import functools
import logging
from typing import Tuple

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

HALVES = (torch.float16, torch.bfloat16)


def get_head_width_multiple(dtype: torch.dtype, capability: Tuple[int, int]) -> int:
    """Return the number by which the head width must be divisible for PyTorch's memory-efficient attention."""
    if dtype in HALVES:
        return 8 if capability >= (7, 0) else 1
    return 4 if capability >= (8, 0) else 1


def find_fused_kernel(
    dtype: torch.dtype, width: int, masked: bool, capability: Tuple[int, int], dropout_p: float = 0.0
) -> str:
    """Return the name of the kernel that PyTorch uses: "flash", "cudnn", "efficient" or "math".

    "math" is the only one of these kernels that stores the full matrix of attention weights.

    Args:
        dtype: the data type of queries, keys and values, after autocast.
        width: the width of an attention head.
        masked: whether the attention has a mask or a bias, for example for padding.
        capability: the compute capability of the GPU, such as (8, 0) for an A100.
        dropout_p: the dropout probability of the attention weights.
    """
    is_half = dtype in HALVES and capability >= (8, 0)
    prefers_cudnn = capability in ((9, 0), (10, 0), (10, 3))
    if is_half and prefers_cudnn and width % 8 == 0 and width <= 128 and (dropout_p * 16).is_integer():
        return "cudnn"
    if is_half and not masked and width <= 256:
        return "flash"
    has_efficient = is_half or dtype in (torch.float16, torch.float32)
    return "efficient" if has_efficient and width % get_head_width_multiple(dtype, capability) == 0 else "math"


def warn_without_fused_kernel(x: Tensor, width: int, dropout_p: float, masked: bool) -> None:
    """Warn once if PyTorch has no fused kernel for attention on the GPU and in the dtype of ``x``.

    For the other arguments, see :func:`find_fused_kernel`.
    """
    if not x.is_cuda or torch.compiler.is_compiling():
        return
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else x.dtype
    _warn_about_missing_kernel(dtype, width, masked, torch.cuda.get_device_capability(x.device), dropout_p)


@functools.cache
def _warn_about_missing_kernel(
    dtype: torch.dtype, width: int, masked: bool, capability: Tuple[int, int], dropout_p: float
) -> None:
    if find_fused_kernel(dtype, width, masked, capability, dropout_p) != "math":
        return
    multiple, name = get_head_width_multiple(dtype, capability), str(dtype).rpartition(".")[2]
    advice = f". There is one for widths that are multiples of {multiple}" if width % multiple else ""
    logger.warning(
        f"attention with heads of width {width} in {name} on cuda of capability {capability[0]}.{capability[1]}: torch "
        f"has no fused kernel for this case, so a weight is kept for each pair of words{advice}"
    )
