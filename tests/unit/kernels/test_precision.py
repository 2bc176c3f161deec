"""Half precision and autocast: critical values are computed in float32, and nothing becomes NaN."""

import math

import pytest
import torch
from fairseq.modules.quant_noise import quant_noise
from helpers import PAD, RECURRENT, make_batch, make_model, make_task
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from fairseq_etads.attention import attention_weights, saliency_attention
from fairseq_etads.kernels.precision import apply_in_float32
from fairseq_etads.layers.encoder_attention import FocusAttention
from fairseq_etads.layers.pointer import Pointer
from fairseq_etads.search.inference import InferenceModel
from fairseq_etads.training.losses import SummarizationNLL
from fairseq_etads.vocabulary.output import BatchVocab

HALVES = [torch.float16, torch.bfloat16]
WIDTH, HEADS = 64, 4


def center_and_scope(module, x, mask=None, autocast=None):
    """mu and sigma (B, H, S) computed by a layer from its input (S, B, d_m), captured on the way."""
    caught = []
    hook = module.focal.register_forward_hook(lambda *args: caught.append(args[2]))
    with torch.no_grad(), torch.autocast("cpu", dtype=autocast, enabled=autocast is not None):
        module(x, key_padding_mask=mask)
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


def float32_bound(layer, x):
    """Bound of float32's error in mu and sigma, in tokens; x (S, d_m) and the layer in float64.

    Rounding errors of n additions grow like sqrt(n) times the 2-norm of the terms (Higham and Mary 2019); 4 standard
    deviations of it are carried from step to step. The sigmoid's slope is at most 1/4, so mu and sigma move by at most
    m/4 tokens for 1 in its argument; a relative centre moves by 1.
    """

    def product(x, error, *weights):
        """Error of a product of x (n, d), off by ``error``, with weights (o, d)."""
        both = sum((x**2 @ w.t() ** 2 for w in weights), 0.0)
        return (error**2 @ weights[0].t() ** 2).sqrt() + 4 * 2**-24 * (x.shape[1] * both).sqrt()

    focal, length = layer.focal, len(x)
    queries = x @ layer.q_proj.weight.t() + layer.q_proj.bias
    error = product(x, torch.zeros_like(x), layer.q_proj.weight) + 2**-24 * queries.abs()
    error = product(queries, error, focal.query_proj.weight)
    error = error + product(queries.mean(0, keepdim=True), error[:1], focal.document_proj.weight) + 2**-21
    bounds = []
    for weight in (focal.center_weight, focal.scope_weight):
        by_head = (error.view(length, HEADS, -1) * weight).norm(dim=-1) + 2**-21 * weight.norm(dim=-1)
        bounds.append(length * (by_head / 4 + 2**-22))
    return torch.stack(bounds).max()


@pytest.mark.parametrize("length", [400, 4000])
@pytest.mark.parametrize("how", ["model", "autocast"])
@pytest.mark.parametrize("focal", [None, {"center": "relative", "initial_scope": "half,300"}])
@pytest.mark.parametrize("dtype", HALVES)
def test_mu_and_sigma_are_as_exact_as_float32_allows(dtype, focal, how, length):
    layer = focus_layer(dtype, focal)
    x = torch.randn(length, 1, WIDTH, generator=torch.Generator().manual_seed(1)).to(dtype)
    exact_layer = focus_layer(dtype, focal).double()
    exact = center_and_scope(exact_layer, x.double())
    if how == "model":
        found = center_and_scope(layer.to(dtype), x)
    else:
        found = center_and_scope(layer, x.float(), autocast=dtype)
    with torch.no_grad():
        bound = float32_bound(exact_layer, x[:, 0].double())
    assert bound < 1e-4 * length, "it must tell float32 from float16, which is off by a two-thousandth of the length"
    assert (found - exact).abs().max() <= bound


@pytest.mark.parametrize("infer_dtype", ["bf16", "int8", None])
def test_copies_for_inference_keep_mu_and_sigma(infer_dtype):
    model = make_model("etads")
    attention = InferenceModel(model, infer_dtype).get_current_copy().encoder.layers[0].self_attn
    x = torch.randn(400, 1, 32, generator=torch.Generator().manual_seed(0))
    exact = center_and_scope(make_model("etads").double().encoder.layers[0].self_attn, x.double())
    torch.testing.assert_close(center_and_scope(attention, x), exact, rtol=0, atol=2e-3)


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32])
def test_a_layer_in_float32_passes_gradients_in_its_own_format(dtype):
    torch.manual_seed(0)
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


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("size", [1.0, 3.0])
def test_attention_weights_are_as_exact_as_fused_attention(dtype, size):
    """The error is at most twice the plain operation's; rounding scores to half precision before the softmax is up to
    13 times worse.
    """
    generator = torch.Generator().manual_seed(0)
    q, k, v = ((size * torch.randn(2, 8, n, 64, generator=generator)).to(dtype) for n in (100, 400, 400))
    exact = torch.softmax(q.double() @ k.double().transpose(-1, -2) / 8, -1) @ v.double()
    try:
        fused = (scaled_dot_product_attention(q, k, v) - exact).abs()
    except RuntimeError as error:  # torch 2.13 with ATEN_CPU_CAPABILITY=default on a processor with AMX
        if "pack_vnni2 is only supported when avx512 is supported" not in str(error):
            raise
        pytest.skip(str(error))
    found = (torch.matmul(attention_weights(q, k).to(dtype), v) - exact).abs()
    assert found.max() <= 2 * fused.max() and found.mean() <= 2 * fused.mean()
    gate = torch.full_like(q, 4.0), torch.full_like(k, 4.0)  # open, so that it is the same attention
    gated = (saliency_attention(q, k, v, *gate) - exact).abs()
    assert gated.max() <= 2 * fused.max()


def test_scores_beyond_the_range_of_float16_do_not_overflow():
    q, k = (torch.full((1, 1, 2, 16), 300.0).half() for _ in range(2))
    k[:, :, 1] = -300.0
    weights = attention_weights(q, k)
    assert weights[0, 0, 0].tolist() == [1.0, 0.0]
    assert saliency_attention(q, k, k, q, k)[0, 0, 0, 0] == 300


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("how", ["model", "autocast"])
def test_pointers_decide_in_float32(dtype, how):
    """p_gen and the copy attention, from the model's states."""
    torch.manual_seed(0)
    pointer = Pointer(32, 32, "soft").to(dtype)
    tokens = make_batch([[5, 6, 7, 50, 51, 8, 9, 50]])
    vocab = BatchVocab(tokens, 44, pad=PAD, bos=0, eos=2, unk=3)
    states, memory = (4 * torch.randn(1, 3, 32)).to(dtype), (4 * torch.randn(9, 1, 32)).to(dtype)
    exact = Pointer(32, 32, "soft").double()
    exact.load_state_dict(pointer.state_dict())
    module = pointer if how == "model" else pointer.float()
    given = (states, memory) if how == "model" else (states.float(), memory.float())
    with torch.no_grad(), torch.autocast("cpu", dtype=dtype, enabled=how == "autocast"):
        found = module(*given, vocab)
    with torch.no_grad():
        want = exact(states.double(), memory.double(), vocab)
        # the query is a projection like any other, rounded to half precision; the rest is not
        query = nn.functional.linear(states.float(), module.query.weight.float(), module.query.bias.float())
    torch.testing.assert_close(found.gate.double(), want.gate, rtol=0, atol=1e-5)
    step = torch.finfo(dtype).eps * query.abs().max() * 32**-0.5
    bound = 2 * float(step * memory.float().abs().sum(-1).max())
    assert found.log_copy.dtype == torch.float32
    assert (found.log_copy[:, :, :8].double() - want.log_copy[:, :, :8]).abs().max() <= bound


DOCUMENTS = [[5, 50, 6, 43, 5, 61, 7], [9, 9, 9], [70, 43, 70], []]
SUMMARIES = [[50, 5, 12], [9, 47], [71, 4], [6, 7]]
SEE = {**RECURRENT, "readout_dim": 12, "paper_init": False, "encoder_layers": 2}
ALL = {"pointer": "switch", "coverage": True, "hierarchical_attention": True, "large_vocabulary_trick": 25}
MODELS = {
    "etads": {"pointer": "switch", "aggregation": "add", "encoder_gate": True},
    "pointer_generator_coverage": SEE,
    "words_lvt2k_temp_att": {**RECURRENT, **ALL},
}


def loss_of(model, task, autocast=None):
    tokens, target = make_batch(DOCUMENTS), make_batch(SUMMARIES)
    net_input = {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1), "prev_output_tokens": target.roll(1, 1)}
    sample = {"id": torch.arange(4), "target": target, "ntokens": 12, "net_input": net_input}
    criterion = SummarizationNLL(task, False, 0.1, 1.0, 0, 0, 1.0)
    with torch.autocast("cpu", dtype=autocast, enabled=autocast is not None):
        loss, _, logs = criterion(model, sample)
    loss.backward()
    return loss, logs, [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("how", ["model", "autocast"])
@pytest.mark.parametrize("arch,options", MODELS.items(), ids=list(MODELS))
def test_losses_are_float32_and_gradients_finite(arch, options, how, dtype):
    """The batch contains a document without words and one with a single word."""
    task = make_task(tail=30, mark=True)
    expected, logs, _ = loss_of(make_model(arch, task, **options).train(), task)
    model = make_model(arch, task, **options).train()
    found, narrow_logs, gradients = loss_of(
        model.to(dtype) if how == "model" else model, task, dtype if how == "autocast" else None
    )
    assert found.dtype == torch.float32 and all(math.isfinite(float(value)) for value in narrow_logs.values())
    torch.testing.assert_close(found, expected, rtol=0.03, atol=0)
    torch.testing.assert_close(narrow_logs["coverage_loss"], logs["coverage_loss"], rtol=0.05, atol=0.05)
    assert all(gradient is None or gradient.isfinite().all() for gradient in gradients)
    assert sum(float(gradient.abs().sum()) for gradient in gradients if gradient is not None) > 0
