"""Kernels of attention: forms of focus-attention, torch's choice on GPUs, graphs of torch.compile; half precision and
autocast: critical values, sums and softmax are computed in float32, and nothing becomes NaN.
"""

import logging
import math
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from fairseq.modules.quant_noise import quant_noise
from helpers import PAD, make_model
from steps import make_sample, steps_task
from torch import nn

from fairseq_etads import attention
from fairseq_etads.attention import FOCUS_FORMS, KERNELS, choose_focus_form, focal_bias, focus_attention
from fairseq_etads.kernels import focus_columns, operators
from fairseq_etads.kernels.linear import apply_in_float32
from fairseq_etads.kernels.operators import find_fused_kernel, warn_without_fused_kernel
from fairseq_etads.layers.encoder import FocusAttention
from fairseq_etads.layers.pointer import PointerHead
from fairseq_etads.search.inference import InferenceModel
from fairseq_etads.training.losses import compute_mean_label_loss, coverage_loss
from fairseq_etads.vocabulary.output import BatchVocab

V100, A100, RTX, H100 = (7, 0), (8, 0), (8, 9), (9, 0)
FP32, FP16, BF16 = torch.float32, torch.float16, torch.bfloat16
WIDTH, HEADS = 64, 4
LENGTHS = [400, 1024, 4096]
GRAPHS = {"etads": 8, "etads_basic": 8}
"""Largest number of graphs of a whole model, to be lowered. fairseq's encoder and decoder look for padding."""


class OnGpu:
    """A tensor of queries on a GPU, as far as the choice of a form or kernel looks at it."""

    is_cuda, device, dtype = True, torch.device("cuda"), FP32


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    "on_gpu,exact,known,dtype,form",
    [
        (False, True, False, torch.float32, "columns"),
        (False, False, False, torch.float32, "bias"),
        (False, False, False, torch.float64, "columns"),
        (True, True, False, torch.float32, "bias"),
        (True, True, True, torch.float32, "columns"),
        (True, False, True, torch.float32, "bias"),
        (True, True, False, torch.float64, "columns"),
    ],
)
def test_columns_are_used_only_where_sums_are_exact(monkeypatch, caplog, kernel, on_gpu, exact, known, dtype, form):
    """Elsewhere, the log says once why the bias needs memory for each pair of words."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: A100)
    monkeypatch.setattr(attention, "EXACT_COLUMNS", {("cpu", None), ("cuda", A100) if known else None})
    monkeypatch.setattr(attention, "_has_exact_products", lambda device: exact)
    attention._log_form.cache_clear()
    q = OnGpu() if on_gpu else torch.empty(1, 1, 5, 4)
    with caplog.at_level(logging.INFO, logger=attention.logger.name):
        found = [choose_focus_form(kernel, q, dtype) for _ in range(2)]
    assert found == ["bias" if kernel == "plain" else form] * 2
    level = logging.WARNING if kernel == "fused" else logging.INFO
    assert [record.levelno for record in caplog.records] == [level] * (form == "bias" and kernel != "plain")


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_option_reaches_the_layers(monkeypatch, kernel):
    seen = []
    monkeypatch.setattr(attention, "choose_focus_form", lambda name, *_: seen.append(name) or "bias")
    make_model("etads", attention_kernel=kernel)(torch.tensor([[5, 6, 7, 2]]), torch.tensor([4]), torch.tensor([[2]]))
    assert seen == [kernel] * 2, "two layers of the encoder"


def backend(precision=None):
    """A backend of torch with a precision of float32 products; None for older versions, which have none."""
    return SimpleNamespace() if precision is None else SimpleNamespace(matmul=SimpleNamespace(fp32_precision=precision))


@pytest.mark.parametrize(
    "device,cuda,mkldnn,expected",
    [
        *(("cpu", "tf32", precision, True) for precision in ("ieee", "none", None)),
        *(("cpu", "ieee", precision, False) for precision in ("bf16", "tf32")),
        *(("cuda", precision, "bf16", True) for precision in ("ieee", "none", None)),
        ("cuda", "tf32", "ieee", False),
    ],
)
def test_products_are_exact_unless_the_devices_backend_may_round_factors(monkeypatch, device, cuda, mkldnn, expected):
    monkeypatch.setattr(torch.backends, "cuda", backend(cuda))
    monkeypatch.setattr(torch.backends, "mkldnn", backend(mkldnn))
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "highest")
    assert attention._has_exact_products(device) == expected
    monkeypatch.delattr(torch.backends, device if device == "cuda" else "mkldnn")
    assert attention._has_exact_products(device)

    def fail():
        raise RuntimeError("set for some operators only")

    for precision in (lambda: "high", fail):
        monkeypatch.setattr(torch, "get_float32_matmul_precision", precision)
        assert not attention._has_exact_products(device)


@pytest.mark.parametrize("has_kernel", [False, True])
def test_padding_alone_passes_no_gradient_to_centre_and_scope(monkeypatch, has_kernel):
    """All of it has the same score, and so a weight, in a document of nothing else."""
    monkeypatch.setattr(focus_columns, "has_flash_attention", lambda dtype: has_kernel)
    inputs = inputs_of(40, 2.0, heads=2)
    for form in FOCUS_FORMS:
        out = focus_attention(*inputs, torch.ones(1, 40, dtype=torch.bool), form=form)
        gradients = torch.autograd.grad(out.square().sum(), inputs)
        assert gradients[2].abs().max() > 0 and not gradients[3].any() and not gradients[4].any(), form


@pytest.mark.parametrize("gradient", [False, True])
def test_blocks_of_long_documents_have_one_query_at_least(monkeypatch, gradient):
    rows, plain = [], attention._add_focal_bias
    monkeypatch.setattr(attention, "_add_focal_bias", lambda q, *rest: rows.append(len(q[0, 0])) or plain(q, *rest))
    inputs = inputs_of(6, 2.0, heads=2)
    whole = focus_attention(*inputs, form="bias")
    assert rows == [6]
    monkeypatch.setattr(attention, "LONGEST_BIAS", 5)
    for elements, expected in ((1, [1] * 6), (24, [2] * 3), (59, [4, 2])):
        rows.clear()
        monkeypatch.setattr(attention, "BIAS_ELEMENTS", elements)
        with torch.set_grad_enabled(gradient):
            out = focus_attention(*inputs, form="bias")
        assert rows == expected
        torch.testing.assert_close(out, whole)


def inputs_of(length, scope, heads=1, dtype=torch.float32, width=16):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, heads, length, width, generator=generator) for _ in range(3))
    center = torch.rand(1, heads, length, generator=generator) * length
    sigma = scope * (1 + torch.rand(1, heads, length, generator=generator))
    return [x.to(dtype).requires_grad_() for x in (q, k, v, center, sigma)]


@pytest.mark.parametrize(
    "form,scope", [("bias", 0.0), *(("columns", scope) for scope in (0.0, 0.5, 1.0, 100.0, 8192.0))]
)
def test_documents_of_eight_thousand_tokens(form, scope):
    """With one origin for the whole document, the columns are wrong by 1e-3 at a scope of one token. Columns scaled by
    the root of a width of 32 would be rounded.
    """
    length, rows = 8192, slice(0, None, 129)
    inputs = inputs_of(length, scope, width=32)
    out = focus_attention(*inputs, form=form)
    weight = torch.zeros_like(out)
    weight[:, :, rows] = 1.0
    gradients = torch.autograd.grad((out * weight).sum(), inputs)
    assert all(torch.isfinite(x).all() for x in (out, *gradients))

    q, k, v, center, sigma = (x.detach().double() for x in inputs)
    q, center, sigma = (x[:, :, rows].requires_grad_() for x in (q, center, sigma))
    bias = focal_bias(center, sigma, torch.arange(length, dtype=torch.float64)[None])
    expected = torch.softmax(q @ k.mT / 32**0.5 + bias, -1) @ v
    torch.testing.assert_close(out[:, :, rows].double(), expected, rtol=0, atol=2e-5)
    for got, want in zip(gradients[3:], torch.autograd.grad(expected.sum(), (center, sigma))):
        # of the largest gradient: a difference of moments, which cancel the more the narrower the scope is
        error = 5e-3 if scope < 5 else 1e-4
        assert (got[:, :, rows].double() - want).abs().max() <= error * want.abs().max()


@pytest.mark.parametrize("side", ["none", "left", "right"])
@pytest.mark.parametrize("strength, has_kernel", [(False, True), (True, True), (True, False)])
def test_long_documents_are_computed_in_parts(monkeypatch, side, strength, has_kernel):
    """Outputs and gradients are equal with parts of at most five tokens; one document has words in only one part.

    GPUs and dropout need the form without the kernel for CPUs.
    """
    monkeypatch.setattr(focus_columns, "LARGEST_PART", 5)
    monkeypatch.setattr(focus_columns, "has_flash_attention", lambda dtype: has_kernel)
    lengths = torch.tensor([17, 12, 3])
    real = torch.arange(17) < lengths[:, None]
    real = {"none": torch.ones_like(real), "left": real.flip(1), "right": real}[side]
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(3, 2, 17, 4, generator=generator, dtype=torch.float64) for _ in range(3)]
    inputs += [torch.rand(3, 2, 17, generator=generator, dtype=torch.float64) * size for size in (17, 6)]
    inputs += [torch.rand(2, generator=generator, dtype=torch.float64)] * strength
    weight = torch.randn(3, 2, 17, 4, generator=generator) * real[:, None, :, None]
    results, calls, kernel = [], [], focus_columns.flash_attention
    monkeypatch.setattr(focus_columns, "flash_attention", lambda *a: calls.append(a[1].shape[2]) or kernel(*a))
    for form in ("bias", "columns"):
        given = [x.clone().requires_grad_() for x in inputs]
        mask = None if side == "none" else ~real
        out = focus_attention(*given[:5], mask, 0.0, form, *given[5:])
        results.append([out * real[:, None, :, None], *torch.autograd.grad((out * weight).sum(), given)])
    assert calls == [5, 5, 5, 2] * has_kernel
    for want, got in zip(*results):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("which", [3, 4])
def test_center_and_scope_get_gradient_without_each_other(which):
    inputs = [x.detach() for x in inputs_of(9, 2.0, heads=2)]
    inputs[which].requires_grad_()
    focus_attention(*inputs).square().sum().backward()
    assert inputs[which].grad.abs().max() > 0


@pytest.mark.parametrize("width", [4, 8, 12])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("gradient", [False, True])
def test_fused_kernels_get_the_smallest_width_that_is_a_multiple_of_eight(monkeypatch, width, padded, gradient):
    """The bias has 6 columns, padding 1, and the backward pass 9 more if a gradient is needed, beside the head's."""
    seen, kernel = [], F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *a, **k: seen.append([*a]) or kernel(*a, **k))
    for name in ("flash_attention", "flash_attention_backward"):
        plain = getattr(focus_columns, name)
        monkeypatch.setattr(focus_columns, name, lambda *a, plain=plain: seen.append(a) or plain(*a))
    inputs = [x.detach() for x in inputs_of(5, 2.0, heads=2, width=width)]
    inputs[3].requires_grad_(gradient)
    mask = torch.tensor([[False] * 4 + [True]]) if padded else None
    out = focus_attention(*inputs, mask)
    if gradient:
        out.sum().backward()
    counts = [6 + padded] + [6 + 9 + padded] * gradient
    expected = [8 * math.ceil((8 * math.ceil(columns / 8) + width) / 8) for columns in counts]
    assert [[x.shape[-1] for x in call[:3]] for call in seen] == [[columns] * 3 for columns in expected]
    with torch.device("meta"):  # torch would refuse to mix it with a tensor that is made on the default device
        assert focus_attention(*inputs, mask).device == inputs[0].device


@pytest.mark.parametrize(
    "dtype, width, masked, capability, dropout_p, kernel",
    [
        (FP32, 30, True, A100, 0.0, "math"),
        (FP32, 30, True, V100, 0.0, "efficient"),
        (BF16, 36, True, RTX, 0.0, "math"),
        (BF16, 36, False, RTX, 0.1, "flash"),
        (BF16, 64, True, H100, 0.0, "cudnn"),
        (BF16, 64, True, H100, 0.1, "efficient"),  # cuDNN's dropout is a multiple of 1/16
        (BF16, 64, False, H100, 0.125, "cudnn"),
        (FP16, 30, True, (6, 0), 0.0, "efficient"),
        (torch.float64, 64, False, A100, 0.0, "math"),
    ],
)
def test_the_kernel_is_that_of_torchs_rules(dtype, width, masked, capability, dropout_p, kernel):
    assert find_fused_kernel(dtype, width, masked, capability, dropout_p) == kernel


@pytest.mark.parametrize("width, count", [(64, 0), (30, 1)])
def test_attention_without_a_fused_kernel_on_a_gpu_is_named_once(width, count, monkeypatch, caplog):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: A100)
    operators._warn_about_missing_kernel.cache_clear()
    with caplog.at_level(logging.WARNING, "fairseq_etads.kernels.operators"):
        warn_without_fused_kernel(torch.ones(1, 30), width, 0.0, masked=True)
        assert not caplog.records
        for _ in range(2):
            warn_without_fused_kernel(OnGpu(), width, 0.0, masked=True)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == count and all("width 30 in float32" in text and "multiples of 4" in text for text in said)


def arguments_of(layer, model, net_input):
    """Arguments with which a model calls a layer."""
    found = []
    with layer.register_forward_pre_hook(lambda _, args, named: found.append((args, named)), with_kwargs=True):
        model(**net_input)
    return found[0]


@pytest.mark.parametrize("arch", GRAPHS)
def test_layers_are_one_graph_and_models_few(arch):
    model = make_model(arch, steps_task()).train()
    net_input = make_sample(model)["net_input"]
    for layer in (model.encoder.layers[0], model.decoder.layers[0]):
        args, named = arguments_of(layer, model, net_input)
        torch._dynamo.reset()
        found = torch._dynamo.explain(layer)(*args, **named)
        assert (found.graph_count, found.graph_break_count) == (1, 0), [r.user_stack[-1] for r in found.break_reasons]
    torch._dynamo.reset()
    found = torch._dynamo.explain(model)(**net_input)
    assert found.graph_count <= GRAPHS[arch], [r.user_stack[-1] for r in found.break_reasons]


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
@pytest.mark.parametrize("dtype", [FP16, BF16])
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


@pytest.mark.parametrize("dtype", [FP16, BF16, FP32])
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


def drawn(*shape, seed=0, size=1.0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * size


@pytest.mark.parametrize("dtype", [FP16, BF16])
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


@pytest.mark.parametrize("dtype", [FP16, BF16])
@pytest.mark.parametrize("length", LENGTHS)
def test_sums_over_a_document_are_those_of_float64(dtype, length):
    """Inputs are in half precision, but sums over them are not."""
    weights = drawn(1, 4, length, size=3).softmax(-1).to(dtype)
    real, there = torch.ones(1, 4, dtype=torch.bool), torch.ones(2, length, dtype=torch.bool)
    labels = (drawn(2, length, seed=2) > 0).long()
    ids = torch.arange(length)[None] // 20
    sentence = drawn(1, 4, int(ids.max()) + 1, size=3).softmax(-1).to(dtype)
    for function, given, rtol, atol in (
        (lambda x: coverage_loss(x, real), [weights], 1e-5, 1e-6),
        (lambda x: compute_mean_label_loss(x, labels, there), [drawn(2, length, size=30).to(dtype)], 1e-5, 0),
        (attention.temporal_attention, [drawn(1, 5, length, size=20).to(dtype)], 1e-3, 1e-6),
        (lambda x, y: attention.hierarchical_attention(x, y, ids), [weights, sentence], 1e-3, 1e-7),
    ):
        exact = function(*(x.double() for x in given))
        torch.testing.assert_close(function(*given).double(), exact, rtol=rtol, atol=atol)
    scores = drawn(1, 5, length, size=20).to(dtype)
    padding = torch.zeros(1, length, dtype=torch.bool)
    padding[:, -length // 3 :] = True
    for function in (
        attention.compute_log_attention_weights,
        lambda x, mask: attention.combined_attention_log_weights(x, x[:, 0], mask),
    ):
        wide = function(scores.double(), padding)
        mine = function(scores.float(), padding)
        assert (mine[:, :, -length // 3 :].exp() == 0).all() and mine.isfinite().all()
        kept = ~padding[:, None].expand_as(mine)
        torch.testing.assert_close(mine[kept].double(), wide[kept], rtol=1e-5, atol=1e-4)
