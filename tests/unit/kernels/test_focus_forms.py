"""Forms of focus-attention: the default in each case, very long documents, and memory."""

import logging
from types import SimpleNamespace

import pytest
import torch
from test_attention import LargestTensor
from test_flex import OnGpu

from fairseq_etads.kernels import focus
from fairseq_etads.kernels.focus import (
    FOCUS_FORMS,
    LONGEST_BIAS,
    choose_focus_implementation,
    choose_focus_implementation_for_kernel,
    focal_bias,
    focus_attention,
)

AMPERE, VOLTA = (8, 0), (7, 0)
CUDA_LONG = (("cuda", torch.float32, AMPERE, LONGEST_BIAS + 1), "blocks")


@pytest.mark.parametrize(
    "arguments,form",
    [
        (("cpu", torch.float32, None, 400), "columns"),
        (("cpu", torch.float32, None, 8000), "columns"),
        (("cpu", torch.float32, None, 400, False), "bias"),
        (("cpu", torch.float64, None, 8000, False), "columns"),
        (("cuda", torch.float32, AMPERE, LONGEST_BIAS), "bias"),
        CUDA_LONG,
        (("cuda", torch.float32, VOLTA, 400), "bias"),
        (("cuda", torch.float64, AMPERE, 8000), "columns"),
        (("mps", torch.float32, None, 8000), "blocks"),
    ],
)
def test_columns_are_used_only_where_sums_are_known_to_be_exact(arguments, form):
    assert choose_focus_implementation(*arguments) == form


def test_a_capability_that_was_measured_gets_the_columns(monkeypatch):
    monkeypatch.setattr(focus, "EXACT_COLUMNS", {("cpu", None), ("cuda", AMPERE)})
    assert choose_focus_implementation(*CUDA_LONG[0]) == "columns"
    assert choose_focus_implementation("cuda", torch.float32, (9, 0), 400) == "bias"
    assert choose_focus_implementation("cuda", torch.float32, AMPERE, 400, exact_products=False) == "bias", (
        "TF32 is allowed"
    )


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
    assert focus._has_exact_products(device) == expected
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    assert not focus._has_exact_products(device)


def test_products_are_not_exact_if_torch_cannot_tell_but_are_without_a_backend(monkeypatch):
    def fail():
        raise RuntimeError("set for some operators only")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "get_float32_matmul_precision", fail)
        assert not focus._has_exact_products("cpu")
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "highest")
    monkeypatch.delattr(torch.backends, "mkldnn")
    assert focus._has_exact_products("cpu")


@pytest.mark.parametrize("kernel", ["plain", "auto"])
def test_without_exact_products_long_documents_are_divided_into_blocks(monkeypatch, caplog, kernel):
    """The default also says why it needs memory for each pair of words."""
    monkeypatch.setattr(focus, "_has_exact_products", lambda device: False)
    focus._log_memory_use.cache_clear()
    with caplog.at_level(logging.INFO, logger=focus.logger.name):
        for length, form in ((LONGEST_BIAS, "bias"), (LONGEST_BIAS + 1, "blocks")):
            q = torch.empty(2, 3, length, 4)
            assert choose_focus_implementation_for_kernel(kernel, q, torch.float32, 0.0) == form
    expected = [] if kernel == "plain" else ["the bias of all queries is", "the bias of a block of queries is"]
    assert [text in caplog.text for text in expected] == [True] * len(expected)
    assert len(caplog.records) == len(expected)


def test_the_fused_kernel_is_used_without_a_warning_where_products_are_exact(monkeypatch, caplog):
    focus._warn_about_unused_kernel.cache_clear()
    monkeypatch.setattr(focus, "_has_exact_products", lambda device: True)
    q = torch.empty(2, 3, 5, 4)
    assert choose_focus_implementation_for_kernel("fused", q, torch.float32, 0.0) == "columns" and not caplog.records
    monkeypatch.setattr(focus, "_has_exact_products", lambda device: False)
    assert choose_focus_implementation_for_kernel("fused", q, torch.float32, 0.0) == "bias"
    assert "--attention-kernel fused is not used: its products are not known to be exact here. " in caplog.text


@pytest.mark.parametrize("kernel", ["auto", "fused", "flex"])
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_form_depends_on_the_gpu_its_products_and_the_precision(monkeypatch, caplog, kernel, exact, dtype):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: {torch.device("cuda"): AMPERE}[device])
    monkeypatch.setattr(focus, "EXACT_COLUMNS", {("cuda", AMPERE)})
    monkeypatch.setattr(focus, "_has_exact_products", lambda device: exact and device == "cuda")
    monkeypatch.setattr(focus.flex, "get_unsupported_input_reason", lambda q, dropout_p: f"(dropout {dropout_p})")
    focus._log_memory_use.cache_clear()
    focus._warn_about_unused_kernel.cache_clear()
    form = "columns" if exact or dtype == torch.float64 else "bias"
    with caplog.at_level(logging.INFO, logger=focus.logger.name):
        assert choose_focus_implementation_for_kernel(kernel, OnGpu(600), dtype, 0.25) == form
    messages = [record.getMessage() for record in caplog.records]
    memory = "focus-attention on cuda of capability 8.0: matrix products are not known to be exact there, so the bias"
    assert sum(message.startswith(memory) for message in messages) == (form == "bias")
    unused = [message for message in messages if "is not used" in message]
    assert len(unused) == (kernel == "flex" or (kernel, form) == ("fused", "bias"))
    assert all("(dropout 0.25)" in message for message in unused if kernel == "flex")


@pytest.mark.parametrize(
    "kernel,dropout_p,form", [("flex", 0.0, "flex"), ("flex", 0.1, None), ("fused", 0.0, None), ("auto", 0.0, None)]
)
@pytest.mark.parametrize("length,default", [(LONGEST_BIAS, "bias"), (LONGEST_BIAS + 1, "blocks")])
def test_inside_torch_compile_the_form_does_not_break_the_graph(monkeypatch, kernel, dropout_p, form, length, default):
    """Neither columns nor a warning would be compiled."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    monkeypatch.setattr(focus.logger, "warning", None)
    for width in (4, LONGEST_BIAS + 4):
        q = torch.empty(1, 2, length, width)
        assert choose_focus_implementation_for_kernel(kernel, q, torch.float32, dropout_p) == (form or default)


@pytest.fixture
def calls(monkeypatch):
    """The arguments with which a form of focus-attention is called, as its name followed by them."""
    found = []
    for name in (*FOCUS_FORMS, "flex"):
        monkeypatch.setitem(focus._FOCUS_FORMS, name, lambda q, *rest, name=name: found.append((name, q, *rest)) or q)
    return found


def test_a_form_multiplies_in_float32_and_flex_in_the_dtype_of_the_keys(calls):
    q, k, v, center, scope = (x.detach() for x in inputs_of(5, 2.0))
    halves = [x.bfloat16() for x in (q, k, v)]
    for form, dtype in (("bias", torch.float32), ("flex", torch.bfloat16)):
        assert focus_attention(*halves, center, scope, form=form).dtype == torch.bfloat16
        name, *tensors, parameters, _, _ = calls.pop()
        assert name == form and {x.dtype for x in tensors} == {dtype}
        assert parameters.center.dtype == parameters.scope.dtype == torch.float32
    focus_attention(q.double(), k.double(), v.double(), center, scope, form="bias")
    assert calls[0][4].center.dtype == calls[0][4].scope.dtype == torch.float64


def test_without_a_kernel_the_default_form_is_used_without_a_warning(calls, monkeypatch, caplog):
    monkeypatch.setattr(focus, "_has_exact_products", lambda device: False)
    monkeypatch.setattr(focus.flex, "get_unsupported_input_reason", lambda q, dropout_p: dropout_p or None)
    focus._warn_about_unused_kernel.cache_clear()
    inputs = inputs_of(5, 2.0)
    focus_attention(*inputs)
    focus_attention(*(x.double() for x in inputs))
    assert "is not used" not in caplog.text
    focus_attention(*inputs, kernel="flex")
    focus_attention(*inputs, kernel="flex", dropout_p=0.25)
    assert [name for name, *_ in calls] == ["bias", "columns", "flex", "bias"]
    assert "--attention-kernel flex is not used: 0.25." in caplog.text


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_where_flex_cannot_be_compiled_the_default_form_is_used(monkeypatch, caplog, dtype):
    positions = []
    monkeypatch.setattr(focus.flex, "flex_attention", lambda *args: positions.append(args[4]))
    monkeypatch.setattr(focus, "_has_exact_products", lambda device: False)
    focus._warn_about_unused_kernel.cache_clear()
    inputs = [torch.cat([x, x + 1]) for x in inputs_of(7, 2.0, heads=3)]
    inputs[:3] = [x.to(dtype) for x in inputs[:3]]
    padding = torch.tensor([[False] * 5 + [True] * 2, [False] * 7])
    form = "columns" if dtype == torch.float64 else "bias"
    assert torch.equal(focus_attention(*inputs, padding, form="flex"), focus_attention(*inputs, padding, form=form))
    assert caplog.text.count("--attention-kernel flex is not used") == 1
    focus_attention(*inputs, form="flex")
    assert [x.tolist() for x in positions] == [[[0, 1, 2, 3, 4, 0, 0], [*range(7)]], [[*range(7)]] * 2]
    with pytest.raises(ValueError, match=r"^the form flex of focus-attention does not .* weights: dropout_p 0\.25$"):
        focus_attention(*inputs, form="flex", dropout_p=0.25)


@pytest.mark.parametrize("side", [None, "left", "right"])
def test_columns_are_the_same_without_the_kernel_for_cpus(monkeypatch, side):
    """GPUs and dropout need the form without it."""
    inputs = inputs_of(40, 2.0, heads=2, dtype=torch.float64)
    padding = None
    if side:
        padding = (torch.arange(40) < 15)[None] if side == "left" else (torch.arange(40) >= 25)[None]
    kept = torch.ones(40) if padding is None else (~padding[0]).double()
    asked, found = [], []
    for has_it in (True, False):
        monkeypatch.setattr(focus, "has_flash_attention", lambda dtype, has_it=has_it: asked.append(dtype) or has_it)
        out = focus_attention(*inputs, padding, form="columns") * kept[:, None]
        found.append((out, *torch.autograd.grad(out.square().sum(), inputs)))
    assert asked == [torch.float64] * 2
    for one, other in zip(*found):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("has_kernel", [False, True])
def test_padding_alone_passes_no_gradient_to_centre_and_scope(monkeypatch, has_kernel):
    """All of it has the same score, and so a weight, in a document of nothing else."""
    monkeypatch.setattr(focus, "has_flash_attention", lambda dtype: has_kernel)
    inputs = inputs_of(40, 2.0, heads=2)
    padding = torch.ones(1, 40, dtype=torch.bool)
    for form in FOCUS_FORMS:
        out = focus_attention(*inputs, padding, form=form)
        gradients = torch.autograd.grad(out.square().sum(), inputs)
        assert gradients[2].abs().max() > 0 and not gradients[3].any() and not gradients[4].any(), form


def test_a_bias_without_a_fused_kernel_is_reported_with_its_properties(monkeypatch):
    found = []
    monkeypatch.setattr(focus, "warn_without_fused_kernel", lambda *args, **named: found.append((args[1:], named)))
    focus_attention(*inputs_of(5, 2.0), form="bias", dropout_p=0.25)
    assert found == [((16, 0.25), {"masked": True})]


@pytest.mark.parametrize("gradient", [False, True])
def test_blocks_have_one_query_at_least(monkeypatch, gradient):
    rows = []
    plain = focus._compute_focus_attention_by_bias
    monkeypatch.setattr(
        focus, "_compute_focus_attention_by_bias", lambda q, *rest: rows.append(len(q[0, 0])) or plain(q, *rest)
    )
    inputs = inputs_of(6, 2.0, heads=2)
    for elements, expected in ((1, [1] * 6), (12, [1] * 6), (24, [2] * 3), (59, [4, 2])):
        monkeypatch.setattr(focus, "BIAS_ELEMENTS", elements)
        with torch.set_grad_enabled(gradient):
            out = focus_attention(*inputs, form="blocks")
        assert rows == expected
        torch.testing.assert_close(out, focus_attention(*inputs, form="bias"))
        rows.clear()


def inputs_of(length, scope, heads=1, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, heads, length, 16, generator=generator) for _ in range(3))
    center = torch.rand(1, heads, length, generator=generator) * length
    sigma = scope * (1 + torch.rand(1, heads, length, generator=generator))
    return [x.to(dtype).requires_grad_() for x in (q, k, v, center, sigma)]


@pytest.mark.parametrize("precision,form", [("highest", "columns"), ("high", "bias")])
def test_the_form_follows_the_precision_that_torch_is_told_to_multiply_in(monkeypatch, precision, form):
    seen = []
    for name in FOCUS_FORMS:
        monkeypatch.setitem(focus._FOCUS_FORMS, name, lambda q, *_, name=name: seen.append(name) or q)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        focus_attention(*inputs_of(5, 2.0))
    finally:
        torch.set_float32_matmul_precision(before)
    assert seen == [form]


@pytest.mark.parametrize(
    "form,scope", [("blocks", 0.0), *(("columns", scope) for scope in (0.0, 0.5, 1.0, 100.0, 8192.0))]
)
def test_documents_of_eight_thousand_tokens(form, scope):
    """With one origin for the whole document, the columns are wrong by 1e-3 at a scope of one token."""
    length, rows = 8192, slice(0, None, 129)
    inputs = inputs_of(length, scope)
    out = focus_attention(*inputs, form=form)
    weight = torch.zeros_like(out)
    weight[:, :, rows] = 1.0
    gradients = torch.autograd.grad((out * weight).sum(), inputs)
    assert all(torch.isfinite(x).all() for x in (out, *gradients))

    q, k, v, center, sigma = (x.detach().double() for x in inputs)
    q, center, sigma = (x[:, :, rows].requires_grad_() for x in (q, center, sigma))
    bias = focal_bias(center, sigma, torch.arange(length, dtype=torch.float64)[None])
    expected = torch.softmax(q @ k.transpose(-1, -2) / 4 + bias, -1) @ v
    torch.testing.assert_close(out[:, :, rows].double(), expected, rtol=0, atol=2e-5)
    for got, want in zip(gradients[3:], torch.autograd.grad(expected.sum(), (center, sigma))):
        # of the largest gradient: a difference of moments, which cancel the more the narrower the scope is
        error = 5e-3 if scope < 5 else 1e-4
        assert (got[:, :, rows].double() - want).abs().max() <= error * want.abs().max()


@pytest.mark.parametrize("side", [False, True])
def test_a_long_neighbour_and_padding_change_nothing(side):
    """A short document keeps its single origin in a batch with a document that has several."""
    short = [x.detach() for x in inputs_of(300, 1.0)]
    long = [x.detach() for x in inputs_of(2500, 1.0)]
    fill = (2200, 0) if side else (0, 2200)
    batch = [
        torch.cat([torch.nn.functional.pad(a, (*((0, 0) if a.dim() == 4 else ()), *fill), value=1.0), b])
        for a, b in zip(short, long)
    ]
    columns = torch.arange(2500)
    mask = torch.stack([columns < 2200 if side else columns >= 300, torch.zeros(2500, dtype=torch.bool)])
    together = focus_attention(*batch, key_padding_mask=mask)
    torch.testing.assert_close(together[:1][:, :, ~mask[0]], focus_attention(*short), rtol=0, atol=2e-6)
    torch.testing.assert_close(together[1:], focus_attention(*long), rtol=0, atol=2e-6)


def test_blocks_hold_no_more_than_their_share_of_the_bias(monkeypatch):
    monkeypatch.setattr(focus, "BIAS_ELEMENTS", 40_000)
    inputs = inputs_of(600, 30.0, heads=2)
    with LargestTensor() as seen:
        focus_attention(*inputs, form="blocks").sum().backward()
    assert 600 * 2 * 16 < seen.elements <= 40_000
