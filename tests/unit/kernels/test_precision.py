"""Half precision and autocast: critical values are computed in float32, and nothing becomes NaN."""

import pytest
import torch
from fairseq.modules.quant_noise import quant_noise
from helpers import make_model
from torch import nn

from fairseq_etads.attention import attention_weights, saliency_attention
from fairseq_etads.kernels.linear import apply_in_float32
from fairseq_etads.layers.encoder import FocusAttention
from fairseq_etads.search.inference import InferenceModel

HALVES = [torch.float16, torch.bfloat16]
WIDTH, HEADS = 64, 4


def center_and_scope(module, x, autocast=None):
    """mu and sigma (B, H, S) computed by a layer from its input (S, B, d_m), captured on the way."""
    caught = []
    hook = module.focal.register_forward_hook(lambda *args: caught.append(args[2]))
    with torch.no_grad(), torch.autocast("cpu", dtype=autocast, enabled=autocast is not None):
        module(x)
    hook.remove()
    return torch.stack(caught[0]).double()


def focus_layer(dtype, focal=None):
    torch.manual_seed(0)
    module = FocusAttention(WIDTH, HEADS, focal).eval()
    with torch.no_grad():
        for parameter in module.focal.parameters():
            parameter.mul_(3)  # as far from the middle as in a trained network
        for parameter in module.parameters():
            parameter.copy_(parameter.to(dtype))
    return module


@pytest.mark.parametrize("how", ["model", "autocast"])
@pytest.mark.parametrize("focal", [None, {"center": "relative", "initial_scope": "half,300"}])
@pytest.mark.parametrize("dtype", HALVES)
def test_mu_and_sigma_are_as_exact_as_float32_allows(dtype, focal, how):
    layer, length = focus_layer(dtype, focal), 4000
    x = torch.randn(length, 1, WIDTH).to(dtype)
    exact = center_and_scope(focus_layer(dtype, focal).double(), x.double())
    if how == "model":
        found = center_and_scope(layer.to(dtype), x)
    else:
        found = center_and_scope(layer, x.float(), autocast=dtype)
    # float32 is off by a few millionths of the length, float16 by a two-thousandth
    assert (found - exact).abs().max() <= 1e-4 * length


@pytest.mark.parametrize("infer_dtype", ["bf16", "int8", None])
def test_copies_for_inference_keep_mu_and_sigma(infer_dtype):
    model = make_model("etads")
    attention = InferenceModel(model, infer_dtype).get_current_copy().encoder.layers[0].self_attn
    x = torch.randn(400, 1, 32)
    exact = center_and_scope(make_model("etads").double().encoder.layers[0].self_attn, x.double())
    torch.testing.assert_close(center_and_scope(attention, x), exact, rtol=0, atol=2e-3)


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32])
def test_a_layer_in_float32_passes_gradients_in_its_own_format(dtype):
    layer, x = nn.Linear(8, 3).to(dtype), torch.randn(5, 8).to(dtype).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = apply_in_float32(layer, x)
    expected = nn.functional.linear(x.double(), layer.weight.double(), layer.bias.double())
    assert out.dtype == torch.float32
    torch.testing.assert_close(out.double(), expected, rtol=1e-6, atol=1e-6)
    out.sum().backward()
    assert layer.weight.grad.dtype == layer.bias.grad.dtype == x.grad.dtype == dtype
    torch.testing.assert_close(layer.bias.grad, torch.full((3,), 5.0, dtype=dtype))


def test_a_layer_in_float32_runs_its_hooks():
    """fairseq's quantisation noise zeroes blocks of weights in a hook."""
    torch.manual_seed(0)
    layer = quant_noise(nn.Linear(8, 8), p=0.9, block_size=4).to(torch.bfloat16).train()
    with torch.no_grad():
        out = apply_in_float32(layer, torch.ones(1, 8))
    assert (out - layer.bias).eq(0).any(), "most blocks are zero"


def test_scores_beyond_the_range_of_float16_do_not_overflow():
    q, k = (torch.full((1, 1, 2, 16), 300.0).half() for _ in range(2))
    k[:, :, 1] = -300.0
    weights = attention_weights(q, k)
    assert weights[0, 0, 0].tolist() == [1.0, 0.0]
    assert saliency_attention(q, k, k, q, k)[0, 0, 0, 0] == 300
