"""Focus-attention on a GPU: the selected form is exact, and the error of the columns is measured."""

import math

import pytest
import torch
from device_steps import PRETENDED

from fairseq_etads.attention import EXACT_COLUMNS, FOCUS_FORMS, focal_bias, focus_attention
from fairseq_etads.kernels.operators import find_fused_kernel

LENGTH = 100 if PRETENDED else 400
"""Tokens per document; few for a simulated GPU, which is slow and computes as a CPU does."""

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


def largest_error(dtype, scope, padding, width, form, length=LENGTH):
    """Largest error of the output (2 documents, 8 heads) against float64 on the CPU, and the largest output."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 8, length, width, generator=generator).to(dtype) for _ in range(3))
    real = length - padding
    center = torch.rand(2, 8, length, generator=generator) * real
    sigma = scope * (1 + torch.rand(2, 8, length, generator=generator))
    mask = torch.arange(length).expand(2, -1) >= real
    bias = focal_bias(center.double(), sigma.double(), torch.arange(float(real), dtype=torch.float64).expand(2, -1))
    scores = q.double() @ k.double().transpose(-1, -2)[..., :real] / math.sqrt(width) + bias
    exact = torch.softmax(scores, -1) @ v.double()[:, :, :real]
    inputs = (x.cuda() for x in (q, k, v, center, sigma))
    out = focus_attention(*inputs, key_padding_mask=mask.cuda(), form=form).cpu().double()
    return float((out - exact)[:, :, :real].abs().max()), float(exact.abs().max())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scope", [0.5] if PRETENDED else [0.1, 0.5, 5.0, 100.0])
@pytest.mark.parametrize("padding", [0, 37])
@pytest.mark.parametrize("width", [32] if PRETENDED else [32, 64])
@pytest.mark.parametrize("form", [None, "bias"])
def test_as_exact_as_on_the_cpu(dtype, scope, padding, width, form):
    error, largest = largest_error(dtype, scope, padding, width, form)
    tolerance = 3e-5 if dtype == torch.float32 else 2 * torch.finfo(dtype).eps * largest
    assert error <= tolerance


def test_the_error_of_the_columns_is_measured(capsys):
    """The error must be small for a capability in EXACT_COLUMNS; for others, the figures show whether to add them."""
    capability = torch.cuda.get_device_capability()
    errors = {}
    for length in (LENGTH,) if PRETENDED else (400, 1024, 4096):
        for scope in (0.3, 1.0, 5.0, 20.0):
            for form in FOCUS_FORMS:
                errors[length, scope, form], _ = largest_error(torch.float32, scope, 0, 64, form, length)
    with capsys.disabled():
        print(f"\n{torch.cuda.get_device_name()}, capability {capability}: largest errors of focus-attention")
        for (length, scope, form), error in errors.items():
            print(f"{length:5} tokens, scope {scope:4}-{2 * scope:4}, {form:7} {error:.1e}")
    if ("cuda", capability) in EXACT_COLUMNS:
        columns = [error for (_, scope, form), error in errors.items() if form == "columns" and scope >= 1]
        assert max(columns) <= 1e-5


@pytest.mark.skipif(PRETENDED, reason="torch's rules need a GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("width", [30, 32, 36, 64, 128])
@pytest.mark.parametrize("masked", [False, True])
def test_torch_chooses_the_kernel_of_our_table(dtype, width, masked):
    q = torch.zeros(2, 4, 64, width, device="cuda", dtype=dtype, requires_grad=True)
    mask = torch.zeros(2, 4, 64, 64, device="cuda", dtype=dtype) if masked else None
    params = torch.backends.cuda.SDPAParams(q, q, q, mask, 0.0, False, False)
    can = {
        "flash": torch.backends.cuda.can_use_flash_attention(params),
        "cudnn": torch.backends.cuda.can_use_cudnn_attention(params),
        "efficient": torch.backends.cuda.can_use_efficient_attention(params),
    }
    expected = find_fused_kernel(dtype, width, masked, torch.cuda.get_device_capability())
    assert can.get(expected, not (can["flash"] or can["efficient"])), (expected, can)


@pytest.mark.skipif(PRETENDED, reason="it has no memory of its own")
def test_very_long_documents_fit():
    """In blocks: all the bias for 8,192 tokens and 8 heads would take 2 GiB, and its gradient as much."""
    inputs = [torch.randn(1, 8, 8192, 64, device="cuda", requires_grad=True) for _ in range(3)]
    inputs += [torch.full((1, 8, 8192), 100.0, device="cuda", requires_grad=True) for _ in range(2)]
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    focus_attention(*inputs).square().sum().backward()
    assert torch.cuda.max_memory_allocated() - before < 2**30
    assert all(x.grad.isfinite().all() for x in inputs)


def test_gradients_reach_center_and_scope():
    inputs = [torch.randn(2, 4, 50, 32, device="cuda", requires_grad=True) for _ in range(3)]
    center = torch.full((2, 4, 50), 20.0, device="cuda", requires_grad=True)
    scope = torch.full((2, 4, 50), 10.0, device="cuda", requires_grad=True)
    focus_attention(*inputs, center, scope).square().sum().backward()
    for tensor in (*inputs, center, scope):
        assert torch.isfinite(tensor.grad).all() and tensor.grad.abs().sum() > 0
