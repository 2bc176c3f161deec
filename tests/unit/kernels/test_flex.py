"""FlexAttention as the kernel of focus-attention: exact, refused where it cannot be used, and never used unasked."""

import copy
import logging
import os

import pytest
import torch
from helpers import PAD, SMALL, make_batch, make_model, make_task, model_config
from omegaconf import open_dict

from fairseq_etads.kernels import flex, focus
from fairseq_etads.kernels.focus import (
    KERNELS,
    choose_focus_implementation,
    choose_focus_implementation_for_kernel,
    focal_bias,
    focus_attention,
)

DOCUMENTS = [[5, 6, 7, 8, 9, 10], [11, 12], [13, 14, 15]]
SUMMARIES = [[5, 9], [11], [14, 15]]
needs_flex = pytest.mark.skipif(
    flex.get_unsupported_version_reason() is not None, reason="this torch has no FlexAttention"
)


@pytest.fixture
def trainable(monkeypatch):
    """FlexAttention with a backward pass on this CPU, which torch has but refuses, and chosen as on a GPU."""
    from torch.nn.attention import flex_attention

    monkeypatch.setattr(flex_attention, "_validate_device", lambda *_: None)
    monkeypatch.setattr(flex, "get_unsupported_input_reason", lambda q, dropout_p: None)


def inputs_of(length, dtype):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 2, length, 16, generator=generator, dtype=torch.float64) for _ in range(3))
    center = torch.rand(2, 2, length, generator=generator, dtype=torch.float64) * 100
    scope = 2 + 9 * torch.rand(2, 2, length, generator=generator, dtype=torch.float64)
    strength = torch.tensor([0.5, 1.5], dtype=torch.float64)
    return [x.to(dtype).requires_grad_() for x in (q, k, v, center, scope, strength)]


def padded(length, side):
    """Padding (2, S) of more than a block in the first document, and of none in the second; None without a side."""
    if side is None:
        return None
    mask = torch.zeros(2, length, dtype=torch.bool)
    mask[0, 100:] = True
    return mask.flip(1) if side == "left" else mask


def exact(inputs, padding):
    """Focus-attention by its definition, in float64."""
    q, k, v, center, scope, strength = (x.double() for x in inputs)
    real = torch.ones(2, q.shape[2], dtype=torch.bool) if padding is None else ~padding
    positions = (real.double().cumsum(1) - 1).clamp(min=0)
    bias = focal_bias(center, scope, positions, strength[None, :, None].expand_as(center))
    scores = (q @ k.transpose(-1, -2) / q.shape[3] ** 0.5 + bias).masked_fill(~real[:, None, None], -float("inf"))
    return scores.softmax(-1) @ v


@needs_flex
@pytest.mark.parametrize("side", [None, "left", "right"])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12), (torch.float32, 3e-6)])
def test_outputs_and_gradients_are_those_of_the_definition(dtype, tolerance, side, trainable):
    """300 tokens are blocks without padding, with some, and of nothing else."""
    length = 300
    inputs, padding = inputs_of(length, dtype), padded(length, side)
    shown = torch.ones(2, 1, length, 1, dtype=dtype) if padding is None else (~padding)[:, None, :, None].to(dtype)
    found = focus_attention(*inputs[:5], padding, form="flex", strength=inputs[5]) * shown
    wanted = exact(inputs, padding) * shown
    assert (found - wanted).abs().max() <= tolerance
    gradients = [torch.autograd.grad(x.square().sum(), inputs) for x in (found, wanted)]
    for one, other in zip(*gradients):
        assert (one - other).abs().max() <= 50 * tolerance * other.abs().max()


@needs_flex
@pytest.mark.parametrize("side", [None, "left", "right"])
def test_blocks_of_padding_are_left_out(side):
    padding = padded(300, side) if side else torch.zeros(2, 300, dtype=torch.bool)
    blocks = flex.make_padding_block_mask(padding)
    listed = {None: [3, 3], "right": [1, 3], "left": [2, 3]}[
        side
    ]  # the last block has 44 tokens, 100 tokens are in two
    found = blocks.kv_num_blocks + blocks.full_kv_num_blocks
    assert found[:, 0, 0].tolist() == listed


@needs_flex
def test_a_document_of_padding_only_is_finite(trainable):
    inputs, padding = inputs_of(20, torch.float32), torch.ones(2, 20, dtype=torch.bool)
    padding[1, :5] = False
    out = focus_attention(*inputs[:5], padding, form="flex", strength=inputs[5])
    for x in (out, *torch.autograd.grad(out.square().sum(), inputs)):
        assert x.isfinite().all()


@needs_flex
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_products_but_not_the_bias(dtype, trainable):
    inputs = [x.detach() for x in inputs_of(300, torch.float32)]
    inputs[:3] = [x.to(dtype) for x in inputs[:3]]
    found = focus_attention(inputs[0].float(), *inputs[1:5], form="flex", strength=inputs[5])
    wanted = exact(inputs, None)
    assert found.dtype == torch.float32
    assert (found - wanted).abs().max() <= torch.finfo(dtype).eps * wanted.abs().max()


def losses_and_gradients(kernel, left, arch="etads"):
    model = make_model(arch, attention_kernel=kernel, encoder_attention_heads=2, focus_strength="learned").train()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("strength"):
                parameter.fill_(0.5)
    tokens, summaries = make_batch(DOCUMENTS, left=left), make_batch(SUMMARIES)
    output = model(tokens, tokens.ne(PAD).sum(1), summaries.roll(1, 1))
    loss = -model.get_normalized_probs(output, log_probs=True).gather(2, summaries[:, :, None]).sum()
    loss.backward()
    return loss, {name: parameter.grad for name, parameter in model.named_parameters()}


@needs_flex
@pytest.mark.parametrize("kernel", ["flex", "fused", "plain"])
@pytest.mark.parametrize("left", [False, True])
def test_every_parameter_gets_the_gradient_of_the_default(kernel, left, trainable, monkeypatch):
    used = []
    monkeypatch.setitem(
        focus._FOCUS_FORMS,
        "flex",
        lambda *args, plain=focus._compute_focus_attention_by_flex: used.append("flex") or plain(*args),
    )
    loss, gradients = losses_and_gradients(kernel, left)
    assert used == ["flex"] * (2 if kernel == "flex" else 0), "two layers of the encoder"
    expected, wanted = losses_and_gradients("auto", left)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    assert gradients.keys() == wanted.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(
            gradient, wanted[name], rtol=1e-4, atol=1e-5, msg=lambda text, name=name: name + text
        )


def test_without_the_option_the_model_is_what_it_was():
    """Checkpoints from before the option load and give the same numbers, bit for bit."""
    model, task = make_model("etads"), make_task()
    config = copy.deepcopy(model_config("etads", **SMALL))
    with open_dict(config):
        del config["attention_kernel"]
    old = task.build_model(config)
    old.load_state_dict(model.state_dict())
    tokens, previous = make_batch(DOCUMENTS), make_batch(SUMMARIES).roll(1, 1)
    found, wanted = (m.eval()(tokens, tokens.ne(PAD).sum(1), previous)[0] for m in (old, model))
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("device", ["cpu", "cuda", "mps"])
@pytest.mark.parametrize("length", [100, 5000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_never_used_unasked(device, length, dtype):
    assert choose_focus_implementation(device, dtype, (9, 0) if device == "cuda" else None, length) != "flex"


class OnGpu:
    """Queries that say that they are on a GPU."""

    device, is_cuda, shape = torch.device("cuda"), True, (1, 8, 400, 64)

    def __init__(self, width=64):
        self.shape = (1, 8, 400, width)


@needs_flex
@pytest.mark.parametrize(
    "kernel, width, dropout_p, form, reason",
    [
        ("flex", 64, 0.0, "flex", None),
        ("flex", 8, 0.0, "bias", "its heads need a width of 16 or more, and these have 8"),
        ("flex", 64, 0.1, "bias", "it has no dropout of attention weights, here 0.1"),
        ("fused", 64, 0.0, "bias", "its products are not known to be exact here"),
        ("plain", 64, 0.0, "bias", None),
        ("auto", 64, 0.0, "bias", None),
    ],
)
def test_a_gpu_gets_what_was_asked_for_or_the_log_says_why_not(
    kernel, width, dropout_p, form, reason, caplog, monkeypatch
):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (8, 0))
    focus._warn_about_unused_kernel.cache_clear()
    with caplog.at_level(logging.WARNING, "fairseq_etads.kernels.focus"):
        for _ in range(2):
            assert choose_focus_implementation_for_kernel(kernel, OnGpu(width), torch.float32, dropout_p) == form
    said = f"--attention-kernel {kernel} is not used: {reason}. Focus-attention uses its form {form} instead"
    assert [record.getMessage() for record in caplog.records] == ([said] if reason else [])


def test_on_a_cpu_flex_gives_the_numbers_of_auto_and_a_warning(caplog):
    inputs = inputs_of(30, torch.float32)
    focus._warn_about_unused_kernel.cache_clear()
    with caplog.at_level(logging.WARNING, "fairseq_etads.kernels.focus"):
        found = focus_attention(*inputs[:5], kernel="flex")
    assert torch.equal(found, focus_attention(*inputs[:5]))
    assert caplog.text.count("--attention-kernel flex is not used: it has no backward pass on cpu") == 1


@needs_flex
def test_a_kernel_that_cannot_be_compiled_is_replaced_once_and_for_all(caplog, monkeypatch):
    from torch._dynamo.exc import TorchDynamoException

    calls = []

    def failing(*args, **kwargs):
        calls.append(1)
        raise TorchDynamoException("no compiler\nmore")

    monkeypatch.setattr(flex, "_get_kernel", lambda device_type: failing)
    monkeypatch.setattr(flex, "_failures", {})
    monkeypatch.setattr(flex, "get_unsupported_input_reason", lambda q, dropout_p: flex._failures.get(q.device.type))
    focus._warn_about_unused_kernel.cache_clear()
    inputs = inputs_of(30, torch.float32)
    with caplog.at_level(logging.WARNING, "fairseq_etads.kernels.focus"):
        found = [focus_attention(*inputs[:5], kernel="flex") for _ in range(2)]
    assert all(torch.equal(x, focus_attention(*inputs[:5])) for x in found) and len(calls) == 1
    assert caplog.text.count("torch cannot compile it here (no compiler). Focus-attention uses its form columns") == 1


@pytest.mark.parametrize(
    "options, message",
    [
        ({"attention_dropout": 0.1}, "flex does not go with --attention-dropout 0.1: FlexAttention has no dropout"),
        ({"focus_layers": "none"}, "--attention-kernel flex has no effect with --focus-layers none: choose layers"),
    ],
)
def test_it_is_refused_where_it_has_no_meaning(options, message):
    with pytest.raises(ValueError, match=message):
        make_model("etads", attention_kernel="flex", **options)


def test_an_older_torch_refuses_it_for_a_new_model_and_loads_an_old_one(monkeypatch, caplog):
    monkeypatch.setattr(torch, "__version__", "2.5.1")
    with pytest.raises(
        ValueError, match=r"flex: it needs torch 2\.6 or newer, and this is torch 2\.5\.1; choose auto, fu"
    ):
        make_model("etads", attention_kernel="flex")
    task = make_task()
    monkeypatch.setattr(type(task), "is_loading", True)
    model = make_model("etads", task, attention_kernel="flex")
    tokens = make_batch(DOCUMENTS)
    assert model(tokens, tokens.ne(PAD).sum(1), make_batch(SUMMARIES).roll(1, 1))[0].isfinite().all()
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (8, 0))
    focus._warn_about_unused_kernel.cache_clear()
    assert choose_focus_implementation_for_kernel("flex", OnGpu(), torch.float32, 0.0) == "bias"
    assert "--attention-kernel flex is not used: it needs torch 2.6 or newer, and this is torch 2.5.1" in caplog.text


def test_an_unknown_kernel_is_refused_with_the_choices():
    assert KERNELS == ("auto", "flex", "fused", "plain")
    with pytest.raises(Exception, match=r"flash|auto"):
        make_model("etads", attention_kernel="flash")


@needs_flex
@pytest.mark.skipif("ETADS_COMPILE" not in os.environ, reason="compiling takes a minute: set ETADS_COMPILE=1")
@pytest.mark.parametrize("side", [None, "right"])
def test_the_compiled_kernel_is_exact_on_a_cpu(side, monkeypatch):
    monkeypatch.setattr(flex, "_get_kernel", lambda device_type: flex._compile_flex_attention())
    inputs, padding = [x.detach() for x in inputs_of(300, torch.float32)], padded(300, side)
    shown = 1 if padding is None else (~padding)[:, None, :, None]
    found = focus_attention(*inputs[:5], padding, form="flex", strength=inputs[5])
    assert ((found - exact(inputs, padding)) * shown).abs().max() <= 2e-6
