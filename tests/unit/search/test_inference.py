"""Copies for inference: training is not affected, dtypes, and copies that follow the model."""

from collections import Counter

import pytest
import torch
from convolutional import conv, conv_task
from decoding import DICTIONARY, TASK, assert_same, generate, make_sample, sharpened
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from helpers import make_batch, make_model, make_task
from recurrent import recurrent, recurrent_task

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.kernels import cpu
from fairseq_etads.kernels.beam_state import BeamState
from fairseq_etads.layers.encoder_attention import SELF_ATTENTION_INPUTS
from fairseq_etads.search.inference import InferenceModel


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


TABLES = {"share_all_embeddings": False}
FAMILIES = {  # models of each kind of output layer, and their tasks
    "etads": lambda: (make_model("etads", TASK, **TABLES), TASK),
    "aggregation_transformer": lambda: (make_model("aggregation_transformer", TASK, **TABLES), TASK),
    "biased": lambda: (make_model("etads", TASK, output_bias=True), TASK),
    # fewer words can be generated than the table has
    "bounded": lambda: (make_model("etads", BOUNDED, output_bias=True), BOUNDED),
    "pg_coverage": lambda: (recurrent("pg_coverage", RECURRENT), RECURRENT),
    "plain": lambda: (conv("plain", CONV, sharp=False), CONV),
    "soft": lambda: (conv("soft", CONV, sharp=False), CONV),
    "tied": lambda: (conv("tied", CONV, sharp=False), CONV),
}
BOUNDED, RECURRENT, CONV = make_task(mark=True, target_words=20), recurrent_task(), conv_task()


@pytest.mark.parametrize("infer_dtype, error", [(None, 1e-4), ("fp32", 1e-4), ("bf16", 0.2), ("int8", 0.2)])
@pytest.mark.parametrize("name", FAMILIES)
def test_copies_score_a_prefix_as_the_model_does(name, infer_dtype, error, monkeypatch):
    """Also after a step of fairseq's Adam, which no version counter of torch notices, and with computed weights that
    have a gradient history. The output layer is in several blocks of words.
    """
    monkeypatch.setattr("fairseq_etads.kernels.linear.OUTPUT_BLOCK", 16)
    model, task = FAMILIES[name]()
    prefix = torch.tensor([[5, 6, 9, 10], [16, 4, 5, 16]])
    sample = make_sample([[5, 6, 43, 7, 16, 9], [16]])
    before = torch.cat([torch.full((2, 1), DICTIONARY.eos()), prefix[:, :-1]], dim=1)
    generator = SummaryGenerator([model], task.target_dictionary, 2, exact_length=4, infer_dtype=infer_dtype)
    adam = FairseqAdamConfig(adam_betas="(0.9, 0.98)", lr=[0.02], use_old_adam=True, tpu=False)
    optimizer = FairseqAdam(adam, list(model.parameters()))
    for _ in range(2):
        model.train()(**sample["net_input"], prev_output_tokens=before)[0].square().sum().backward()
        optimizer.step()
        model.eval()
        found = generator.generate([model], sample, prefix_tokens=prefix)
        with torch.no_grad():
            said = model.get_normalized_probs(model(**sample["net_input"], prev_output_tokens=before), log_probs=True)
        scores = torch.stack([row[0]["positional_scores"][:4] for row in found])
        torch.testing.assert_close(scores, said.gather(2, prefix[:, :, None])[:, :, 0], rtol=error, atol=error)
    assert next(model.parameters()).dtype == torch.float32


@pytest.mark.parametrize("probe", [cpu.can_pack_weights, cpu.has_flash_attention, cpu.find_exact_int8_levels])
@pytest.mark.parametrize(
    "inside", [torch.device("meta"), torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode()]
)
def test_an_answer_about_the_processor_does_not_depend_on_the_first_caller(probe, inside):
    """The answer is cached for the process. The first caller may be a model that is built without memory."""
    words = () if probe is cpu.find_exact_int8_levels else (torch.float32,)
    cpu.can_pack_weights.cache_clear()  # other probes call it
    outside = probe.__wrapped__(*words)
    cpu.can_pack_weights.cache_clear()
    with inside:
        assert probe.__wrapped__(*words) == outside
    cpu.can_pack_weights.cache_clear()


@torch.no_grad()
@pytest.mark.parametrize("infer_dtype", ["fp32", "int8"])
@pytest.mark.parametrize("arch", ["etads", "etads_basic", "es_transformer"])
def test_queries_keys_and_values_of_the_search_are_one_product(arch, infer_dtype, documents):
    if not cpu.can_pack_weights(torch.float32):
        pytest.skip("no packed products here")
    model, calls = InferenceModel(sharpened(arch), infer_dtype), Counter()
    before = torch.random.get_rng_state()
    copied = model.get_current_copy()
    assert torch.equal(torch.random.get_rng_state(), before), "a copy draws no random numbers"
    for name, module in copied.named_modules():
        module.register_forward_hook(lambda *_, name=name: calls.update([name]))
    state, words = BeamState(len(documents), torch.device("cpu")), torch.full((len(documents), 1), DICTIONARY.eos())
    state.begin_step()
    encoded = copied.encoder.forward_torchscript(make_sample(documents)["net_input"])
    copied.decoder(words, encoder_out=encoded, incremental_state=state)
    for part in ["decoder.layers.0.self_attn", *(["encoder.layers.0.self_attn"] if arch != "etads" else [])]:
        assert calls[f"{part}.joint_proj"] == 1
        assert not any(calls[f"{part}.{name}"] for name in SELF_ATTENTION_INPUTS)
    assert calls["encoder.layers.0.self_attn.q_proj"] == (arch == "etads"), "focus-attention has its own"
