"""Focus-attention on a GPU: its kernels must add the columns as exactly as the CPU's."""

import math

import pytest
import torch

from fairseq_etads.attention import focal_bias, focus_attention

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scope", [0.5, 5.0, 100.0])
@pytest.mark.parametrize("padding", [0, 37])
@pytest.mark.parametrize("width", [32, 64])
def test_as_exact_as_on_the_cpu(dtype, scope, padding, width):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 8, 400, width, generator=generator).to(dtype) for _ in range(3))
    length = 400 - padding
    center = torch.rand(2, 8, 400, generator=generator) * length
    sigma = scope * (1 + torch.rand(2, 8, 400, generator=generator))
    mask = torch.arange(400).expand(2, -1) >= length
    bias = focal_bias(center.double(), sigma.double(), torch.arange(float(length), dtype=torch.float64).expand(2, -1))
    scores = q.double() @ k.double().transpose(-1, -2)[..., :length] / math.sqrt(width) + bias
    exact = torch.softmax(scores, -1) @ v.double()[:, :, :length]
    out = focus_attention(*(x.cuda() for x in (q, k, v, center, sigma)), key_padding_mask=mask.cuda()).cpu().double()
    tolerance = 1e-5 if dtype == torch.float32 else 2 * torch.finfo(dtype).eps * float(exact.abs().max())
    assert (out - exact)[:, :, :length].abs().max() <= tolerance


def test_gradients_reach_center_and_scope():
    inputs = [torch.randn(2, 4, 50, 32, device="cuda", requires_grad=True) for _ in range(3)]
    center = torch.full((2, 4, 50), 20.0, device="cuda", requires_grad=True)
    scope = torch.full((2, 4, 50), 10.0, device="cuda", requires_grad=True)
    focus_attention(*inputs, center, scope).square().sum().backward()
    for tensor in (*inputs, center, scope):
        assert torch.isfinite(tensor.grad).all() and tensor.grad.abs().sum() > 0
