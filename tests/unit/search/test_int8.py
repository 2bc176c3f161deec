"""8-bit products: each kernel against float64, the choice of kernel, and messages about it."""

import itertools
import logging
import math

import pytest
import torch
from decoding import sharpened

from fairseq_etads.kernels import cpu as kernels
from fairseq_etads.kernels.linear import BlockedOutputProjection, Int8Linear
from fairseq_etads.search import inference


@pytest.fixture(autouse=True)
def fresh_answers():
    """Forget results and messages that are cached once per process."""
    cached = (kernels.find_exact_int8_levels, kernels.can_pack_weights, inference._log_products)
    cached += (inference.find_fastest_cpu_dtype,)
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


def as_rounded(x, weight, levels):
    """The product of weights and inputs rounded to steps of their row's largest, exactly."""
    scales = [a.abs().amax(1, keepdim=True).double().clamp(min=1e-9) / n for a, n in ((x, levels), (weight, 127))]
    x, weight = ((a.double() / s).round() * s for a, s in zip((x, weight), scales))
    return x @ weight.t(), scales[0] * scales[1].t()


@pytest.mark.parametrize("levels", kernels.INT8_LEVELS)
@pytest.mark.parametrize("layer", ["plain", "relu", "wide"])
def test_sums_are_exact_even_of_the_largest_numbers(layer, levels, monkeypatch):
    """The sum of two 8-bit products exceeds the 16 bits in which processors without VNNI add them."""
    if levels > (kernels.find_exact_int8_levels() or 0):
        pytest.skip("torch was built without FBGEMM, or this processor has no VNNI")
    monkeypatch.setattr(kernels, "find_exact_int8_levels", lambda: levels)
    monkeypatch.setattr("fairseq_etads.kernels.linear.OUTPUT_BLOCK", 16)
    weights, bias = torch.randn(40, 64), torch.arange(40.0) - 20
    largest = (torch.full((3, 64), 2.0), torch.full((40, 64), -3.0))
    none, negative = (torch.zeros(3, 64), torch.zeros(40, 64)), (-torch.rand(3, 64), weights)
    for x, weight in ((torch.randn(9, 64), weights), largest, none, negative):
        if layer == "wide":
            out = BlockedOutputProjection(weight, bias, Int8Linear)(x)
        else:
            out = Int8Linear(weight, bias, relu=layer == "relu")(x)
        exact, step = as_rounded(x, weight, levels)
        exact = (exact + bias).clamp(min=0 if layer == "relu" else -math.inf)
        # a number half-way between two steps may be rounded either way
        assert ((out.double() - exact).abs() <= 130 * step + 1e-5).all()


def test_as_many_levels_are_used_as_the_processor_adds_exactly(monkeypatch):
    """Without VNNI, a sum of two products saturates at 16 bits: 2 * 255 * 127 does, 2 * 127 * 127 does not."""

    def saturating(x, packed, levels):
        zero = levels + 1  # inputs are numbers without sign
        pairs = (((x * levels).round().int() + zero) * 127).unflatten(1, (-1, 2)).sum(2)
        sums = pairs.clamp(max=2**15 - 1).sum(1, keepdim=True) - zero * 64 * 127
        return sums.expand(-1, 32) / levels

    def exact(x, packed, levels):
        return (x * 127).sum(1, keepdim=True).expand(-1, 32)

    monkeypatch.setattr(kernels, "pack_int8", lambda weight, scale: weight)
    for product, levels in ((saturating, 63), (exact, 127)):
        kernels.find_exact_int8_levels.cache_clear()
        monkeypatch.setattr(kernels, "int8_linear", product)
        assert kernels.find_exact_int8_levels() == levels

    def missing(*_):
        raise RuntimeError("Didn't find engine for operation quantized::linear_prepack")

    kernels.find_exact_int8_levels.cache_clear()
    monkeypatch.setattr(kernels, "pack_int8", missing)
    assert kernels.find_exact_int8_levels() is None


@pytest.mark.parametrize("arch", ["etads", "etads_basic", "aggregation_transformer", "gated_es_transformer"])
def test_the_encoder_is_in_8_bits_too(arch, documents):
    """All layers are in 8 bits except layers that decide on positions and fairseq's attentions, which read weights."""
    if not kernels.find_exact_int8_levels():
        pytest.skip("torch was built without FBGEMM")
    copied = inference.InferenceModel(sharpened(arch), "int8").get_current_copy()
    for layer in copied.encoder.layers:
        assert all(isinstance(part, Int8Linear) for part in (layer.fc1, layer.fc2, layer.self_attn.out_proj))
        assert isinstance(layer.activation_fn, torch.nn.Identity)
        if arch == "etads":
            assert isinstance(layer.self_attn.q_proj, inference.PackedLinear), "mu and sigma are computed from it"


@pytest.mark.parametrize("fastest", ["fp32", "bf16", "int8"])
def test_auto_takes_the_fastest_format_and_says_so(fastest, monkeypatch, caplog, documents):
    """The clock runs slowly for one dtype, and the copy then uses the products of the fastest one."""
    there = {"fp32": True, "bf16": kernels.can_pack_weights(torch.bfloat16), "int8": kernels.find_exact_int8_levels()}
    if not there[fastest]:
        pytest.skip(f"no fast {fastest} on this processor")
    names = [name for name in there if there[name]]
    calls, passed = itertools.count(), [0.0]

    def ticks():
        call = next(calls)
        if call % 2:
            passed[0] += 1.0 if names[call // 2 % len(names)] == fastest else 2.0
        return passed[0]

    monkeypatch.setattr(inference.time, "perf_counter", ticks)
    with caplog.at_level(logging.INFO, "fairseq_etads"):
        copies = [inference.InferenceModel(sharpened(), "auto").get_current_copy() for _ in range(2)]
    said = [record.message.split(" (")[0] for record in caplog.records if "auto" in record.message]
    assert said == [f"--infer-dtype auto: {fastest}"]
    for block in (model.decoder.output_projection.blocks[0] for model in copies):
        assert isinstance(block, Int8Linear) == (fastest == "int8")
        if fastest != "int8":
            assert block.dtype == {"fp32": torch.float32, "bf16": torch.bfloat16}[fastest]
