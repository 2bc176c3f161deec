"""PyTorch's operators for matrix products and attention: private ones for CPUs, and the choice of kernels on GPUs.

The operators for CPUs are wrapped, and tested before they are used. For an NVIDIA GPU, :func:`find_fused_kernel`
predicts which kernel ``scaled_dot_product_attention`` uses, and a warning is logged if it is not fused. The rules for
dense tensors without a causal flag are taken from PyTorch 2.13
(``aten/src/ATen/native/transformers/cuda/sdp_utils.cpp``). ``tests/gpu`` compares them with PyTorch's choices.
"""

import contextlib
import functools
import logging
from pathlib import Path
from typing import Any, Callable, Optional, Tuple, TypeVar

import torch
from torch import Tensor

_Probe = TypeVar("_Probe", bound=Callable[..., Any])


def _cache_probe(function: _Probe) -> _Probe:
    """Cache the results of a function that tests operators, and run the function on the CPU in torch's default modes.

    Otherwise, a first call inside ``with torch.device("meta")``, where tensors have no values, or under autocast or
    inference mode would cache a wrong result for the rest of the process.
    """

    @functools.wraps(function)
    def run_in_default_modes(*args: Any) -> Any:
        with torch.device("cpu"), torch.autocast("cpu", enabled=False), torch.inference_mode(False):
            return function(*args)

    return functools.cache(run_in_default_modes)  # type: ignore[return-value]


@_cache_probe
def can_pack_weights(dtype: torch.dtype) -> bool:
    """Return whether matrix products with packed weights work in ``dtype`` on this processor and are correct.

    torch.compile uses the operators for packed weights on CPUs. The operators are private, so they are tested before
    they are used. If they do not work, generation uses PyTorch's ordinary matrix products.
    """
    if dtype == torch.bfloat16 and not has_fast_bfloat16():
        return False
    try:
        x, weight, bias = (torch.linspace(-1, 1, 96 * n).view(-1, 96).to(dtype) for n in (3, 40, 40))
        with torch.no_grad():
            got = packed_linear(x, pack_weight(weight), bias[:, 0].contiguous())
            expected = torch.nn.functional.linear(x.float(), weight.float(), bias[:, 0].float())
        return torch.allclose(got.float(), expected, rtol=2e-2 if dtype == torch.bfloat16 else 1e-4, atol=1e-1)
    except (AttributeError, RuntimeError, NotImplementedError):
        return False


def _has_instructions(*names: str) -> bool:
    """Return whether this x86 processor has one of the instruction sets and PyTorch may use AVX-512."""
    # the capability of the processor, or a lower capability that was requested with ATEN_CPU_CAPABILITY
    if torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "NO AVX", "AVX2"):
        return False
    return any(getattr(torch.cpu, name, bool)() for name in names)


def has_fast_bfloat16() -> bool:
    """Return whether the processor has bfloat16 instructions. Emulated bfloat16 is slower than float32."""
    return _has_instructions("_is_avx512_bf16_supported", "_is_amx_tile_supported")


INT8_LEVELS = (127, 63)
"""Possible numbers of quantisation levels on each side of zero for the inputs of 8-bit matrix products.

Processors without VNNI add two products in 16 bits. This sum can overflow for 8-bit inputs but not for 7-bit inputs.
"""


@_cache_probe
def find_exact_int8_levels() -> Optional[int]:
    """Return the largest of :data:`INT8_LEVELS` for which FBGEMM's 8-bit matrix products are exact.

    Returns None if FBGEMM, which PyTorch includes for x86 processors, is not available. The test uses inputs for which
    16-bit sums overflow, so no list of processors is needed.
    """
    weight = torch.full((32, 64), 127, dtype=torch.int8)
    with contextlib.suppress(AttributeError, RuntimeError, NotImplementedError):
        packed = pack_int8(weight, torch.ones(32))
        for levels in INT8_LEVELS:
            products = [int8_linear(torch.full((32, 64), sign), packed, levels) for sign in (1.0, -1.0)]
            if all(torch.allclose(x.abs(), torch.tensor(64 * 127.0), rtol=1e-5) for x in products):
                return levels
    return None


def pack_int8(weight: Tensor, scale: Tensor) -> Any:
    """Pack an int8 weight (out, in) and its scales (out,), one per row, for :func:`int8_linear`."""
    zeros = torch.zeros(len(scale), dtype=torch.long)
    weight = torch._make_per_channel_quantized_tensor(weight.contiguous(), scale.double(), zeros, 0)
    return torch.ops.quantized.linear_prepack(weight, None)


def int8_linear(x: Tensor, packed: Any, levels: int) -> Tensor:
    """Quantise inputs to multiples of 1 / ``levels``, and multiply them by a packed weight.

    In PyTorch's dynamic quantisation (``linear_dynamic``), all rows share one scale, so the result for a row depends on
    the other rows. This function uses a fixed scale. The inputs (n, in), float32, are between -1 and 1; the weight is
    the result of :func:`pack_int8`, and ``levels`` are those on each side of zero. Returns the product (n, out).
    """
    product = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
    # PyTorch's wrapper checks the arguments in Python. For small matrices, these checks take a quarter of the time.
    product = getattr(product, "_op", product)
    result: Tensor = product(x, 1.0 / levels, levels + 1, packed)
    return result


def pack_weight(weight: Tensor) -> Tensor:
    """Convert a weight (out, in) to the memory layout that :func:`packed_linear` requires on this processor."""
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)


def packed_linear(x: Tensor, packed: Tensor, bias: Optional[Tensor], relu: bool = False) -> Tensor:
    """Apply ``torch.nn.functional.linear`` with a packed weight, followed by a ReLU if ``relu`` is set.

    Gradients are not supported.
    """
    return torch.ops.mkldnn._linear_pointwise(x, packed, bias, "relu" if relu else "none", [], "")


def flash_attention(q: Tensor, k: Tensor, v: Tensor) -> Tuple[Tensor, Tensor]:
    """Compute softmax(q k^T) v on a CPU.

    Returns the outputs (B, H, S, D) and the logarithms of the softmax denominators (B, H, S).
    """
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    out, normaliser = kernel(q, k, v, 0.0, False, attn_mask=None, scale=1.0)
    return out, normaliser


def flash_attention_backward(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, normaliser: Tensor
) -> Tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of q, k and v in :func:`flash_attention`, given the gradient of its output ``out``."""
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    of_q, of_k, of_v = kernel(gradient, q, k, v, out, normaliser, 0.0, False, attn_mask=None, scale=1.0)
    return of_q, of_k, of_v


@_cache_probe
def has_flash_attention(dtype: torch.dtype) -> bool:
    """Return whether :func:`flash_attention` and its gradient work in ``dtype`` and agree with plain attention."""
    x = torch.linspace(-1, 1, 3 * 2 * 5 * 8, dtype=dtype).view(3, 1, 2, 5, 8).sin()
    try:
        with torch.enable_grad():
            inputs = [part.clone().requires_grad_() for part in x]
            expected = torch.softmax(inputs[0] @ inputs[1].transpose(-1, -2), -1) @ inputs[2]
            gradients = torch.autograd.grad(expected.sum(), inputs)
        with torch.no_grad():
            out, normaliser = flash_attention(*x)
            found = flash_attention_backward(torch.ones_like(out), x[0], x[1], x[2], out, normaliser)
        pairs = zip((out, *found), (expected, *gradients))
        return all(torch.allclose(one, other, rtol=1e-4, atol=1e-5) for one, other in pairs)
    except (AttributeError, RuntimeError, NotImplementedError, TypeError):
        return False


def onednn_linear(x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
    """Apply ``torch.nn.functional.linear`` to inputs (n, in) with oneDNN.

    The weight must not be packed. Gradients are not supported.
    """
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


@_cache_probe
def has_faster_onednn_linear() -> bool:
    """Return whether :func:`onednn_linear` is faster than PyTorch's function on this processor and agrees with it.

    PyTorch multiplies matrices with MKL, which uses AVX-512 only on Intel processors. oneDNN also uses AVX-512 on other
    processors and is 20 % faster there. In all other cases, both libraries are equally fast.
    """
    if not (can_pack_weights(torch.float32) and _has_instructions("_is_avx512_supported", "_is_cpu_support_avx512")):
        return False
    try:
        vendor = Path("/proc/cpuinfo").read_text(errors="replace")
        x, weight = (torch.linspace(-1, 1, 64 * n).view(n, 64).sin() for n in (7, 9))
        agrees = torch.allclose(onednn_linear(x, weight, None), x @ weight.t(), rtol=1e-4, atol=1e-5)
        return "AuthenticAMD" in vendor and agrees
    except (OSError, AttributeError, RuntimeError, NotImplementedError):
        return False


def linear_without_gradient(x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
    """Apply ``torch.nn.functional.linear`` to inputs (n, in) without gradients, using oneDNN if it is faster."""
    if x.device.type == "cpu" and x.dtype == weight.dtype == torch.float32 and has_faster_onednn_linear():
        return onednn_linear(x, weight, bias)
    return torch.nn.functional.linear(x, weight, bias)


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
