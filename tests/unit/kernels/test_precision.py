"""Half precision and autocast: critical values, sums and softmax are computed in float32; nothing becomes NaN."""

import pytest
import torch
from fairseq.modules.quant_noise import quant_noise
from helpers import PAD, make_model
from torch import nn

from fairseq_etads.attention import (
    attention_weights,
    combined_attention_log_weights,
    compute_log_attention_weights,
    hierarchical_attention,
    saliency_attention,
    temporal_attention,
)
from fairseq_etads.kernels.linear import apply_in_float32
from fairseq_etads.layers.encoder import FocusAttention
from fairseq_etads.layers.pointer import PointerHead
from fairseq_etads.search.inference import InferenceModel
from fairseq_etads.training.losses import compute_mean_label_loss, coverage_loss
from fairseq_etads.vocabulary.output import BatchVocab

HALVES = [torch.float16, torch.bfloat16]
WIDTH, HEADS = 64, 4
LENGTHS = [400, 1024, 4096]


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


def drawn(*shape, seed=0, size=1.0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * size


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("gate", [-3e4, -20.0, 0.0, 3e4])
@pytest.mark.parametrize("kind", ["soft", "switch"])
def test_a_pointer_is_the_one_of_float64(dtype, length, gate, kind):
    """With saturated gates and attention on one word, only sums and logarithms differ."""
    known, steps = 40, 3
    source = torch.randint(4, 60, (2, length), generator=torch.Generator().manual_seed(1))
    source[1, length // 2 :] = PAD
    vocab = BatchVocab(source, known, pad=PAD, bos=0, eos=2, unk=3)
    head = PointerHead(8, kind).to(dtype).train()
    with torch.no_grad():
        head.gate.weight.fill_(0.01)
        head.gate.bias.fill_(gate)
    states, logits = drawn(2, steps, 8).to(dtype), drawn(2, steps, known, size=4).to(dtype)
    scores = drawn(2, steps, length, size=3)
    scores[:, 0, 5] = 60.0  # all attention on one word
    wide = PointerHead(8, kind).double().train()
    wide.load_state_dict({name: value.double() for name, value in head.state_dict().items()})
    found = head.point(states, scores, vocab)
    exact = wide.point(states.double(), scores.double(), vocab)
    real, mine = exact.compute_log_probs(logits.double()), found.compute_log_probs(logits)
    torch.testing.assert_close(mine.exp().sum(2), torch.ones(2, steps), rtol=0, atol=2e-5)
    assert torch.equal(mine.isneginf(), real.isneginf()) and not mine.isnan().any()
    likely = real > -60  # where float32's smallest number, the floor of the copied words, has no part
    torch.testing.assert_close(mine[likely].double(), real[likely], rtol=1e-4, atol=1e-4)
    target = source[:, :steps].where(source[:, :steps] < known, vocab.source_columns[:, :steps])
    of_target = found.compute_target_log_probs(logits.float().log_softmax(-1), target)
    exact_ones = exact.compute_target_log_probs(logits.double().log_softmax(-1), target)
    for one, other in zip(of_target, exact_ones):
        assert one.isfinite().all()
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)
    of_target[0].sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in head.parameters())


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("length", LENGTHS)
def test_sums_over_a_document_are_those_of_float64(dtype, length):
    """Inputs are in half precision, but sums over them are not."""
    attention = drawn(1, 4, length, size=3).softmax(-1).to(dtype)
    real, there = torch.ones(1, 4, dtype=torch.bool), torch.ones(2, length, dtype=torch.bool)
    labels = (drawn(2, length, seed=2) > 0).long()
    ids = torch.arange(length)[None] // 20
    sentence = drawn(1, 4, int(ids.max()) + 1, size=3).softmax(-1).to(dtype)
    for function, given, rtol, atol in (
        (lambda x: coverage_loss(x, real), [attention], 1e-5, 1e-6),
        (lambda x: compute_mean_label_loss(x, labels, there), [drawn(2, length, size=30).to(dtype)], 1e-5, 0),
        (temporal_attention, [drawn(1, 5, length, size=20).to(dtype)], 1e-3, 1e-6),
        (lambda x, y: hierarchical_attention(x, y, ids), [attention, sentence], 1e-3, 1e-7),
    ):
        exact = function(*(x.double() for x in given))
        torch.testing.assert_close(function(*given).double(), exact, rtol=rtol, atol=atol)
    scores = drawn(1, 5, length, size=20).to(dtype)
    padding = torch.zeros(1, length, dtype=torch.bool)
    padding[:, -length // 3 :] = True
    for function in (compute_log_attention_weights, lambda x, mask: combined_attention_log_weights(x, x[:, 0], mask)):
        wide = function(scores.double(), padding)
        mine = function(scores.float(), padding)
        assert (mine[:, :, -length // 3 :].exp() == 0).all() and mine.isfinite().all()
        kept = ~padding[:, None].expand_as(mine)
        torch.testing.assert_close(mine[kept].double(), wide[kept], rtol=1e-5, atol=1e-4)
