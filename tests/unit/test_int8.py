"""8-bit products: each kernel against float64, which one is chosen where, and what is said about it."""

import contextlib
import logging

import pytest
import torch
from decoding import DICTIONARY, make_sample, sharpened

from fairseq_etads import kernels
from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.search import inference
from fairseq_etads.search.inference import Int8Linear

KERNELS = {"vnni": 127, "fbgemm": kernels.FBGEMM_LEVELS}


@pytest.fixture(autouse=True)
def fresh_answers():
    """What is looked up or said once in a process is looked up and said anew."""
    for function in (kernels.int8_kernel, kernels.can_pack_weights, inference._say):
        function.cache_clear()
    yield
    for function in (kernels.int8_kernel, kernels.can_pack_weights, inference._say):
        function.cache_clear()


def use(monkeypatch, kernel):
    if kernel == "fbgemm" and "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("torch was built without FBGEMM")
    monkeypatch.setattr(kernels, "int8_kernel", lambda: kernel)


def as_rounded(x, weight, levels):
    """The product of weights and inputs rounded to steps of their row's largest, exactly."""
    scales = [a.abs().amax(1, keepdim=True).double().clamp(min=1e-9) / n for a, n in ((x, levels), (weight, 127))]
    x, weight = ((a.double() / s).round() * s for a, s in zip((x, weight), scales))
    return x @ weight.t(), scales[0] * scales[1].t()


@pytest.mark.parametrize("kernel", KERNELS)
def test_sums_are_exact_even_of_the_largest_numbers(kernel, monkeypatch):
    """Two products of 8 bits do not fit the 16 bits in which processors without VNNI add them."""
    if kernel == "vnni" and kernels.int8_kernel() != "vnni":
        pytest.skip("this processor has no VNNI")
    use(monkeypatch, kernel)
    generator = torch.Generator().manual_seed(0)
    for x, weight in (
        (torch.randn(9, 64, generator=generator), torch.randn(40, 64, generator=generator)),
        (torch.full((3, 64), 2.0), torch.full((40, 64), -3.0)),
        (torch.zeros(3, 64), torch.zeros(40, 64)),
    ):
        out = Int8Linear(weight, torch.ones(40))(x)
        exact, step = as_rounded(x, weight, KERNELS[kernel])
        # a number half-way between two steps may be rounded either way
        assert ((out.double() - 1 - exact).abs() <= 130 * step + 1e-6).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_row_does_not_depend_on_the_others(kernel, monkeypatch):
    """It would in torch's dynamic quantisation, which has one scale for a whole tensor."""
    use(monkeypatch, kernel)
    x, weight = torch.randn(4, 64), torch.randn(40, 64)
    x[0] *= 1000
    layer = Int8Linear(weight, None)
    for row in range(4):
        torch.testing.assert_close(layer(x)[row : row + 1], layer(x[row : row + 1]), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("capability", ["AVX2", "AVX512"])
@pytest.mark.parametrize("vnni", ["_is_vnni_supported", "_is_cpu_support_avx512_vnni", None])
def test_the_kernel_is_chosen_by_what_the_processor_has(monkeypatch, capability, vnni):
    """Under the names that different versions of torch have for it."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    for name in ("_is_vnni_supported", "_is_cpu_support_avx512_vnni", "_is_amx_tile_supported"):
        monkeypatch.delattr(torch.cpu, name, raising=False)
    if vnni:
        monkeypatch.setattr(torch.cpu, vnni, lambda: True, raising=False)
    monkeypatch.setattr(torch, "_int_mm", lambda a, b: a.int() @ b.int())
    expected = "vnni" if vnni and capability == "AVX512" else "fbgemm"
    if expected == "fbgemm" and "fbgemm" not in torch.backends.quantized.supported_engines:
        expected = None
    assert kernels.int8_kernel() == expected


def test_a_kernel_that_saturates_or_is_missing_is_not_used(monkeypatch):
    monkeypatch.setattr(kernels, "_has_instructions", lambda *names: True)
    monkeypatch.setattr(torch, "_int_mm", lambda a, b: (a.int() @ b.int()).clamp(max=2**15 * 16))
    assert kernels.int8_kernel() != "vnni"
    kernels.int8_kernel.cache_clear()

    def missing(*_):
        raise RuntimeError("Didn't find engine for operation quantized::linear_prepack")

    monkeypatch.setattr(kernels, "pack_fbgemm", missing)
    assert kernels.int8_kernel() is None


@pytest.mark.parametrize(
    "infer_dtype,there,level,says",
    [
        ("int8", "vnni", logging.INFO, "--infer-dtype int8: torch's 8-bit integer products with VNNI in the decoder"),
        ("int8", "fbgemm", logging.INFO, "--infer-dtype int8: FBGEMM's 8-bit integer products in the decoder"),
        ("int8", None, logging.WARNING, "--infer-dtype int8: this processor or torch has no fast 8-bit integer"),
        ("bf16", None, logging.WARNING, "--infer-dtype bf16: this processor or torch has no fast bfloat16 products"),
        ("fp32", None, logging.INFO, "--infer-dtype fp32: "),
        (None, None, logging.INFO, "generation: "),
    ],
)
def test_the_log_says_which_products_run(monkeypatch, caplog, documents, infer_dtype, there, level, says):
    if infer_dtype == "int8":
        use(monkeypatch, there)
    monkeypatch.setattr(kernels, "can_pack_weights", lambda dtype: dtype == torch.float32)
    model = sharpened()
    with contextlib.ExitStack() as stack:
        stack.enter_context(caplog.at_level(logging.INFO, "fairseq_etads"))
        for _ in range(2):
            generator = SummaryGenerator([model], DICTIONARY, 2, max_len_b=3, infer_dtype=infer_dtype)
            results = generator.generate(None, make_sample(documents))
    lines = [record for record in caplog.records if record.message.startswith(says)]
    assert [record.levelno for record in lines] == [level], "once, and not for every copy"
    assert all(torch.isfinite(row[0]["score"]) for row in results)
    if there is None:
        assert "float32 products" in caplog.text
        plain = SummaryGenerator([model], DICTIONARY, 2, max_len_b=3).generate(None, make_sample(documents))
        assert [row[0]["tokens"].tolist() for row in results] == [row[0]["tokens"].tolist() for row in plain]
