"""Focus-attention's columns: gradients in long documents, widths, dtypes, devices; edge cases of attention."""

import math

import pytest
import torch
import torch.nn.functional as F

from fairseq_etads.attention import compute_token_positions, focal_bias, focus_attention, hierarchical_attention
from fairseq_etads.kernels import focus_columns


def random_inputs(length, scope, width=16, dtype=torch.float32):
    """q, k, v, ``center`` and ``scope`` of two heads over one document, float32 numbers."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, length, width, generator=generator) for _ in range(3))
    center = torch.rand(1, 2, length, generator=generator) * length
    sigma = scope * (1 + torch.rand(1, 2, length, generator=generator))
    return [x.to(dtype) for x in (q, k, v, center, sigma)]


def direct(q, k, v, center, scope):
    positions = torch.arange(q.shape[2], dtype=torch.float64)[None]
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[3]) + focal_bias(center, scope, positions)
    return torch.softmax(scores, -1) @ v


@pytest.mark.parametrize("scope,error", [(1.0, 4e-4), (5.0, 5e-5), (20.0, 2e-5)])
def test_gradients_of_center_and_scope_in_long_documents(scope, error):
    """Differences of moments: with one origin for the document instead of one per quarter, the scope's gradient is
    wrong by 1 % or more.
    """
    gradients = []
    for function, dtype in ((direct, torch.float64), (focus_attention, torch.float32)):
        inputs = [x.requires_grad_() for x in random_inputs(400, scope, dtype=dtype)]
        out = function(*inputs)
        weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
        gradients.append(torch.autograd.grad((out * weight).sum(), inputs[3:]))
    for want, got in zip(*gradients):
        assert (got.double() - want).abs().max() <= error * want.abs().max()


@pytest.mark.parametrize("side", ["none", "left", "right"])
@pytest.mark.parametrize("strength", [False, True])
def test_long_documents_are_computed_in_parts(monkeypatch, side, strength):
    """Outputs and gradients are equal with parts of at most five tokens; one document has words in only one part."""
    monkeypatch.setattr(focus_columns, "LARGEST_PART", 5)
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
    assert calls == [5, 5, 5, 2]
    for want, got in zip(*results):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("which", [3, 4])
def test_center_and_scope_get_gradient_without_each_other(which):
    inputs = random_inputs(9, 2.0)
    inputs[which].requires_grad_()
    focus_attention(*inputs).square().sum().backward()
    assert inputs[which].grad.abs().max() > 0


@pytest.mark.parametrize("width", [4, 6, 8, 12, 16])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("gradient", [False, True])
def test_fused_kernels_get_the_smallest_width_that_is_a_multiple_of_eight(monkeypatch, width, padded, gradient):
    """There are 6 columns for the bias, 1 for padding, 9 more in the backward pass if a gradient is needed, and the
    columns of the head.
    """
    seen, kernel = [], F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *a, **k: seen.append([*a]) or kernel(*a, **k))
    for name in ("flash_attention", "flash_attention_backward"):
        plain = getattr(focus_columns, name)
        monkeypatch.setattr(focus_columns, name, lambda *a, plain=plain: seen.append(a) or plain(*a))
    inputs = random_inputs(5, 2.0, width)
    inputs[3].requires_grad_(gradient)
    out = focus_attention(*inputs, torch.tensor([[False] * 4 + [padded]]) if padded else None)
    if gradient:
        out.sum().backward()
    widths = [[x.shape[-1] for x in call[:3]] for call in seen]
    expected = []
    for columns in [6 + padded] + [6 + 9 + padded] * gradient:
        expected.append([8 * math.ceil((8 * math.ceil(columns / 8) + width) / 8)] * 3)
    assert widths == expected


def test_everything_is_computed_in_the_widest_format():
    """The result is float64 if the queries are, regardless of the dtype of ``center`` and ``scope``; a bias has the
    dtype of its ``center``.
    """
    inputs = random_inputs(7, 2.0, dtype=torch.float64)
    mixed = [x.float() if n > 2 else x for n, x in enumerate(inputs)]
    exact = focus_attention(*inputs[:3], *(x.double() for x in mixed[3:]))
    torch.testing.assert_close(focus_attention(*mixed), exact, rtol=0, atol=1e-12)
    torch.testing.assert_close(exact, direct(*inputs[:3], *(x.double() for x in mixed[3:])), rtol=0, atol=1e-12)
    for dtype in (torch.float16, torch.float64):
        assert focal_bias(*(x.to(dtype) for x in mixed[3:]), torch.arange(7.0)[None]).dtype == dtype


def test_half_precision_queries_are_scaled_in_float32():
    q, k, v, center, scope = random_inputs(6, 2.0, width=12)
    q, k, v = (4 * q).half(), (4 * k).half(), v.half()
    out = focus_attention(q, k, v, center, scope)
    exact = direct(*(x.double() for x in (q, k, v, center, scope)))
    torch.testing.assert_close(out, exact.half(), rtol=2 * torch.finfo(torch.float16).eps, atol=1e-4)


@pytest.mark.parametrize("padded", [False, True])
def test_everything_is_on_the_device_of_the_queries(padded):
    """Tensors are not created on the default device, here another one: torch would refuse to mix the two."""
    inputs = [x.requires_grad_() for x in random_inputs(5, 2.0)]
    mask = torch.tensor([[False] * 4 + [True]]) if padded else None
    with torch.device("meta"):
        assert focus_attention(*inputs, key_padding_mask=mask).device == inputs[0].device


def test_positions_without_a_mask_are_float32_for_each_document():
    positions, lengths = compute_token_positions(None, 2, 3, torch.device("cpu"))
    assert positions.dtype == lengths.dtype == torch.float32
    assert positions.tolist() == [[0, 1, 2]] * 2 and lengths.tolist() == [3, 3]


def test_a_document_has_at_least_length_one():
    mask = torch.tensor([[True, True], [False, True]])
    assert compute_token_positions(mask, 2, 2, mask.device)[1].tolist() == [1, 1]


def test_hierarchical_attention_at_its_edges():
    """A single word has probability 1; words in a sentence of probability 0 get none, even if the others' probabilities
    are tiny.
    """
    one, ids = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[0, 1]])
    assert hierarchical_attention(one, torch.tensor([[[0.5, 0.5]]]), ids).tolist() == [[[1, 0]]]
    even = torch.tensor([[[0.5, 0.5]]])
    assert hierarchical_attention(even, torch.tensor([[[0.0, 1e-30]]]), ids).tolist() == [[[0, 1]]]
