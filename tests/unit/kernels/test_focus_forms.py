"""Forms of focus-attention: the default in each case, very long documents, and memory."""

import logging
from types import SimpleNamespace

import pytest
import torch
from test_attention import LargestTensor

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
