"""Attention functions against the loop-written oracles, and their invariances."""

import math

import pytest
import reference
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_etads import attention
from fairseq_etads.attention import (
    FOCUS_FORMS,
    attention_weights,
    compute_token_positions,
    focal_bias,
    focus_attention,
    gate_logits,
    saliency_attention,
)
from fairseq_etads.layers.encoder import FocalNetwork

LENGTHS = (9, 1, 6, 12)
HEADS, WIDTH = 3, 8


def padding_mask(lengths, left, size=None):
    size = size or max(lengths)
    columns = torch.arange(size)
    return torch.stack([columns < size - length if left else columns >= length for length in lengths])


def random_inputs(left=False):
    """q, k, v, ``center``, ``scope`` (fractions of the document) for a ragged batch, as float64 leaves."""
    generator = torch.Generator().manual_seed(0)
    batch, size = len(LENGTHS), max(LENGTHS)
    q, k, v = (torch.randn(batch, HEADS, size, WIDTH, generator=generator, dtype=torch.float64) for _ in range(3))
    m = torch.tensor(LENGTHS, dtype=torch.float64)[:, None, None]
    center = m * torch.rand(batch, HEADS, size, generator=generator, dtype=torch.float64)
    scope = m * (0.15 + torch.rand(batch, HEADS, size, generator=generator, dtype=torch.float64))
    return [x.requires_grad_() for x in (q, k, v, center, scope)], padding_mask(LENGTHS, left)


def oracle(inputs, mask, strengths=()):
    """The loop-written focus-attention of each document and head; 0 at padding."""
    q = inputs[0]
    out = torch.zeros_like(q)
    for b in range(q.shape[0]):
        real = ~mask[b]
        for h in range(q.shape[1]):
            out[b, h, real] = reference.focus_attention(*(x[b, h, real] for x in inputs), *(x[h] for x in strengths))
    return out


def test_focal_bias_is_equation_7():
    (_, _, _, center, scope), mask = random_inputs()
    positions, _ = compute_token_positions(mask, *mask.shape, mask.device)
    bias = focal_bias(center, scope, positions)
    for b in range(len(LENGTHS)):
        expected = [reference.focal_bias(center[b, h], scope[b, h], positions[b]) for h in range(HEADS)]
        torch.testing.assert_close(bias[b], torch.stack(expected), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("form", FOCUS_FORMS)
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("strengths", [[], [0.0, 1.7, -0.2]], ids=["whole", "with strengths"])
def test_focus_attention_and_gradients_match_the_oracle(strengths, left, form, monkeypatch):
    """A head with a strength of 0 begins to focus, also if nothing else learns."""
    monkeypatch.setattr(attention, "LONGEST_BIAS", 6)
    monkeypatch.setattr(attention, "BIAS_ELEMENTS", 5 * HEADS * 4 * 12)  # blocks of 5, 5 and 2 queries
    inputs, mask = random_inputs(left=left)
    strengths = [torch.tensor(strengths, dtype=torch.float64, requires_grad=True)] if strengths else []
    real = (~mask)[:, None, :, None]
    weight = torch.randn(inputs[0].shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64) * real
    expected = oracle(inputs, mask, strengths)
    wanted = torch.autograd.grad((expected * weight).sum(), [*inputs, *strengths])

    singles = [x.detach().float().requires_grad_() for x in (*inputs, *strengths)]
    out = focus_attention(*singles[:5], mask, 0.0, form, *singles[5:])
    gradients = torch.autograd.grad((out * weight.float()).sum(), singles)
    torch.testing.assert_close((out * real).double(), expected, rtol=0, atol=1e-5)
    # at scopes below a token, gradients are differences of large numbers; without vector units the error is 1.6e-5
    for name, got, want in zip(("q", "k", "v", "center", "scope", "strength"), gradients, wanted):
        torch.testing.assert_close(got.double(), want, rtol=2e-4, atol=2e-4, msg=lambda m, name=name: f"{name}: {m}")
    if strengths:
        assert wanted[5][0].abs() > 1e-3
        out = focus_attention(*(x.detach() for x in singles[:5]), mask, 0.0, form, singles[5])
        (gradient,) = torch.autograd.grad((out * weight.float()).sum(), singles[5])
        torch.testing.assert_close(gradient.double(), wanted[5], rtol=2e-4, atol=2e-4)


def in_float64(*inputs):
    """Focus-attention by a whole bias."""
    q, k, v, center, scope = (x.detach().double() for x in inputs)
    bias = focal_bias(center, scope, torch.arange(k.shape[2], dtype=torch.float64)[None])
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[3]) + bias, -1) @ v


@pytest.mark.parametrize("width", [4, 8, 16, 32, 48, 64, 128])
@pytest.mark.parametrize("length,scope", [(60, 0.5), (400, 0.5), (400, 20.0), (1024, 1.0)])
def test_focus_attention_is_as_exact_as_the_direct_form_in_long_documents(length, scope, width):
    """The plain rank-2 product is wrong by 5e-3 at a scope of 1 token in 400. Columns scaled by sqrt(D) would be
    rounded for D = 32.
    """
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(1, 2, length, width, generator=generator) for _ in range(3)]
    inputs.append(torch.rand(1, 2, length, generator=generator) * length)
    inputs.append(scope * (1 + torch.rand(1, 2, length, generator=generator)))
    torch.testing.assert_close(focus_attention(*inputs).double(), in_float64(*inputs), rtol=0, atol=1e-5)


class LargestTensor(TorchDispatchMode):
    """Records the size of the largest tensor that any operation makes."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage().nbytes():
                self.elements = max(self.elements, tensor.untyped_storage().nbytes() // tensor.element_size())
        return out


@pytest.mark.parametrize("padded", [False, True])
def test_focus_attention_never_holds_a_square_tensor(padded):
    length = 600
    inputs = [torch.randn(2, 2, length, 16, requires_grad=True) for _ in range(3)]
    inputs += [torch.full((2, 2, length), 30.0, requires_grad=True) for _ in range(2)]
    mask = padding_mask((length, 50), False) if padded else None
    with LargestTensor() as seen:
        focus_attention(*inputs, key_padding_mask=mask).sum().backward()
    assert 0 < seen.elements < 2 * length * length


@pytest.mark.parametrize("form", FOCUS_FORMS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("extreme_center", [0.0, 1e-4, 399.99, 400.0])
@pytest.mark.parametrize("extreme_scope", [0.0, 1e-6, 400.0])
def test_half_precision_stays_finite_and_close_for_extreme_center_and_scope(dtype, extreme_center, extreme_scope, form):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 400, 16, generator=generator).to(dtype).requires_grad_() for _ in range(3))
    center = torch.full((1, 2, 400), extreme_center, requires_grad=True)
    scope = torch.full((1, 2, 400), extreme_scope, requires_grad=True)
    out = focus_attention(q, k, v, center, scope, padding_mask((380,), False, 400), form=form)
    out.sum().backward()
    assert out.dtype == dtype
    for tensor in (out, q.grad, k.grad, v.grad, center.grad, scope.grad):
        assert torch.isfinite(tensor).all()
    # as good as rounding the exact result to this dtype, twice
    exact = in_float64(q, k[:, :, :380], v[:, :, :380], center, scope)
    assert (out.double() - exact)[:, :, :380].abs().max() <= 2 * torch.finfo(dtype).eps * exact.abs().max()


@pytest.mark.parametrize("form", FOCUS_FORMS)
def test_focus_attention_ignores_autocast(form):
    inputs, mask = random_inputs()
    singles = [x.detach().float().requires_grad_() for x in inputs]
    results = []
    for enabled in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            out = focus_attention(*singles, key_padding_mask=mask, form=form)
        results.append((out, *torch.autograd.grad(out.sum(), singles)))
    assert all(map(torch.equal, *results))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_saliency_stays_finite_in_a_row_without_real_tokens(dtype):
    given = [torch.randn(2, HEADS, 3, WIDTH, dtype=dtype, requires_grad=True) for _ in range(5)]
    out = saliency_attention(*given, key_padding_mask=torch.tensor([[False] * 3, [True] * 3]))
    assert all(x.isfinite().all() for x in (out, *torch.autograd.grad(out.sum(), given)))


@pytest.mark.parametrize("left", [False, True])
def test_focal_network_is_equations_5_and_6(left):
    torch.manual_seed(0)
    network = FocalNetwork(HEADS * WIDTH, HEADS).double()
    mask = padding_mask(LENGTHS, left)
    queries = torch.randn(len(LENGTHS), max(LENGTHS), HEADS * WIDTH, dtype=torch.float64)
    found = network(queries, mask)
    weights = (network.query_proj.weight, network.document_proj.weight, network.center_weight, network.scope_weight)
    for b in range(len(LENGTHS)):
        real = ~mask[b]
        expected = reference.focal_network(queries[b, real], *weights)
        for got, want in zip(found, expected):
            torch.testing.assert_close(got[b][:, real].double(), want, rtol=1e-5, atol=1e-5)


def test_scores_are_products_of_float32_unless_the_inputs_own_format_is_asked_for():
    q, k = (3 * torch.randn(2, 3, 5, 12).bfloat16() for _ in range(2))
    exact, own = q.float() @ k.float().mT, (q @ k.mT).float()
    assert torch.equal(gate_logits(q, k), exact) and torch.equal(gate_logits(q, k, own_format=True), own)
    weights = ((q.float() * 12**-0.5) @ k.float().mT).softmax(-1)
    torch.testing.assert_close(attention_weights(q, k), weights, rtol=0, atol=0)
    out = saliency_attention(q, k, k, q, k)
    torch.testing.assert_close(out, (exact.sigmoid() * weights).bfloat16() @ k, rtol=0, atol=0)
