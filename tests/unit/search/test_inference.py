"""Copies for inference: training is not affected, dtypes, and copies that follow the model."""

from argparse import Namespace
from collections import Counter

import pytest
import torch
from decoding import DICTIONARY, TASK, assert_same, generate, make_sample, sharpened
from fairseq.optim.adam import FairseqAdam
from fairseq.sequence_generator import SequenceGenerator
from helpers import make_batch, make_model

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.kernels import cpu
from fairseq_etads.kernels.beam_state import BeamState
from fairseq_etads.kernels.cpu import can_pack_weights
from fairseq_etads.kernels.precision import mark_as_float32_layer
from fairseq_etads.layers.encoder_attention import SELF_ATTENTION_INPUTS
from fairseq_etads.search.inference import InferenceModel

ARCHS = ("aggregation_transformer", "etads", "etads_basic")


def test_training_is_not_touched(documents):
    """Two training steps give the same parameters with and without a search between them, even with dropout."""
    sample, previous = make_sample(documents), make_batch([[5, 6], [7], [8, 9], [10], [11]])

    def train(between):
        model = make_model("etads", TASK, dropout=0.3).train()
        optimiser = torch.optim.Adam(model.parameters(), 0.01)
        for step in range(2):
            torch.manual_seed(step)
            out, _ = model(**sample["net_input"], prev_output_tokens=previous)
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(out.flatten(0, 1), previous.flatten()).backward()
            optimiser.step()
            between(model)
            assert all(module.training for module in model.modules())
        return [*model.parameters(), *model.buffers()]

    def use(model):
        for infer_dtype in (None, "bf16", "int8"):
            generator = SummaryGenerator([model], DICTIONARY, 3, max_len_b=5, infer_dtype=infer_dtype)
            generator.generate([model], sample)

    for got, want in zip(train(use), train(lambda model: None)):
        torch.testing.assert_close(got, want, rtol=0, atol=0)


def test_a_generator_notices_the_steps_of_fairseqs_optimisers(documents):
    """fairseq's Adam changes parameter.data, which none of torch's version counters notices."""
    model, sample = make_model("etads", TASK), make_sample(documents)
    cfg = Namespace(
        lr=[0.5],
        adam_betas="(0.9, 0.98)",
        adam_eps=1e-8,
        weight_decay=0.0,
        use_old_adam=True,
        fp16_adam_stats=False,
        tpu=False,
    )
    optimiser = FairseqAdam(cfg, [*model.parameters()])
    generator = SummaryGenerator([model], DICTIONARY, 3, max_len_b=5, infer_dtype="int8")
    generator.generate([model], sample)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimiser.step()
    fresh = SummaryGenerator([model], DICTIONARY, 3, max_len_b=5, infer_dtype="int8")
    assert_same(generator.generate([model], sample), fresh.generate([model], sample))


@pytest.mark.parametrize("infer_dtype", [None, "int8"])
@pytest.mark.parametrize("loads_inside", [False, True])
def test_inference_mode_may_begin_and_end_between_searches(loads_inside, infer_dtype, documents):
    """A search keeps tensors for the next one, which tensors of inference mode do not allow."""
    with torch.inference_mode(loads_inside):
        model = sharpened()
    sample, settings = make_sample(documents), {"beam_size": 3, "max_len_b": 9, "infer_dtype": infer_dtype}
    want = generate(SummaryGenerator, [sharpened()], sample, settings)
    generator = SummaryGenerator([model], DICTIONARY, **settings)
    for inside in (True, False, True):
        with torch.inference_mode(inside):
            assert_same(generator.generate(None, sample), want)


@pytest.mark.parametrize("infer_dtype,error", [("fp32", 1e-4), ("bf16", 0.15), ("int8", 0.15)])
@pytest.mark.parametrize("arch", ARCHS)
def test_number_formats(arch, infer_dtype, error, documents):
    """Searches have the same prefix, so that a narrow decision between two words does not separate the dtypes."""
    model = sharpened(arch)
    prefix = torch.randint(4, 40, (5, 8), generator=torch.Generator().manual_seed(0))
    options = {"beam_size": 2, "exact_length": 8}
    want = generate(
        SequenceGenerator, [model], make_sample(documents), {"beam_size": 2, "max_len_b": 8}, prefix_tokens=prefix
    )
    got = generate(
        SummaryGenerator, [model], make_sample(documents), {**options, "infer_dtype": infer_dtype}, prefix_tokens=prefix
    )
    for mine, other in zip(got, want):
        torch.testing.assert_close(
            mine[0]["positional_scores"][:-1], other[0]["positional_scores"][:-1], rtol=error, atol=error
        )
    assert next(model.parameters()).dtype == torch.float32


@pytest.mark.parametrize(
    "probe, words",
    [
        (cpu.can_pack_weights, (torch.float32,)),
        (cpu.has_flash_attention, (torch.float32,)),
        (cpu.find_exact_int8_levels, ()),
        (cpu.has_faster_onednn_linear, ()),
    ],
)
@pytest.mark.parametrize(
    "inside", [torch.device("meta"), torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode()]
)
def test_an_answer_about_the_processor_does_not_depend_on_the_first_caller(probe, words, inside):
    """The answer is cached for the process. The first caller may be a model that is built without memory."""
    cpu.can_pack_weights.cache_clear()  # other probes call it
    outside = probe.__wrapped__(*words)
    cpu.can_pack_weights.cache_clear()
    with inside:
        assert probe.__wrapped__(*words) == outside
    cpu.can_pack_weights.cache_clear()


def test_without_packed_products_it_works_as_well(monkeypatch, documents):
    monkeypatch.setattr("fairseq_etads.kernels.cpu.can_pack_weights", lambda dtype: False)
    settings = {"beam_size": 3, "max_len_b": 8}
    want = generate(SequenceGenerator, [sharpened()], make_sample(documents), settings)
    for infer_dtype in (None, "bf16"):
        options = {**settings, "infer_dtype": infer_dtype}
        assert_same(generate(SummaryGenerator, [sharpened()], make_sample(documents), options), want)


@torch.no_grad()
@pytest.mark.parametrize("infer_dtype", ["fp32", "int8"])
@pytest.mark.parametrize("arch", ["etads", "etads_basic", "es_transformer"])
def test_queries_keys_and_values_of_the_search_are_one_product(arch, infer_dtype, documents):
    if not can_pack_weights(torch.float32):
        pytest.skip("no packed products here")
    model, calls = sharpened(arch), Counter()
    model_of_search = InferenceModel(model, infer_dtype)
    before = torch.random.get_rng_state()
    copied = model_of_search.get_current_copy()
    assert torch.equal(torch.random.get_rng_state(), before), "a copy draws no random numbers"
    for name, module in copied.named_modules():
        module.register_forward_hook(lambda *_, name=name: calls.update([name]))
    state = BeamState(len(documents), torch.device("cpu"))
    sample = make_sample(documents)
    state.begin_step()
    copied.decoder(
        torch.full((len(documents), 1), DICTIONARY.eos()),
        encoder_out=copied.encoder.forward_torchscript(sample["net_input"]),
        incremental_state=state,
    )
    parts = ["decoder.layers.0.self_attn", *(["encoder.layers.0.self_attn"] if arch != "etads" else [])]
    for part in parts:
        assert calls[f"{part}.joint_proj"] == 1
        assert not any(calls[f"{part}.{name}"] for name in SELF_ATTENTION_INPUTS)
    assert calls["encoder.layers.0.self_attn.q_proj"] == (arch == "etads"), "focus-attention has its own"


def test_projections_that_stay_in_float32_are_not_joined(documents):
    model = sharpened("etads")
    mark_as_float32_layer(model.decoder.layers[0].self_attn.q_proj)
    layers = InferenceModel(model, "int8").get_current_copy().decoder.layers
    assert not hasattr(layers[0].self_attn, "joint_proj")
    if can_pack_weights(torch.float32):
        assert hasattr(layers[1].self_attn, "joint_proj")
