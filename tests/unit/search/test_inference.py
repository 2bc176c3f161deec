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
from fairseq_etads.kernels import operators
from fairseq_etads.kernels.beam_state import BeamState
from fairseq_etads.kernels.operators import can_pack_weights
from fairseq_etads.layers.encoder import SELF_ATTENTION_INPUTS
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


def family(name):
    """A model of each kind of output layer, and its task."""
    if name == "pg_coverage":
        task = recurrent_task()
        return recurrent(name, task), task
    if name in ("plain", "soft", "tied"):
        task = conv_task()
        return conv(name, task, sharp=False), task
    bounded = {"target_words": 20} if name == "bounded" else {}  # fewer words can be generated than the table has
    task = make_task(mark=True, **bounded)
    options = {"output_bias": True} if name in ("biased", "bounded") else {"share_all_embeddings": False}
    return make_model("etads" if options.get("output_bias") else name, task, **options), task


@pytest.mark.parametrize("infer_dtype, error", [(None, 1e-4), ("fp32", 1e-4), ("bf16", 0.2), ("int8", 0.2)])
@pytest.mark.parametrize(
    "name", ["etads", "aggregation_transformer", "biased", "bounded", "pg_coverage", "plain", "soft", "tied"]
)
def test_copies_score_a_prefix_as_the_model_does(name, infer_dtype, error, monkeypatch):
    """Also after a step of fairseq's Adam, which no version counter of torch notices, and with computed weights that
    have a gradient history. The output layer is in several blocks of words.
    """
    monkeypatch.setattr("fairseq_etads.kernels.linear.OUTPUT_BLOCK", 16)
    model, task = family(name)
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


@pytest.mark.parametrize(
    "probe, words",
    [
        (operators.can_pack_weights, (torch.float32,)),
        (operators.has_flash_attention, (torch.float32,)),
        (operators.find_exact_int8_levels, ()),
        (operators.has_faster_onednn_linear, ()),
    ],
)
@pytest.mark.parametrize(
    "inside", [torch.device("meta"), torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode()]
)
def test_an_answer_about_the_processor_does_not_depend_on_the_first_caller(probe, words, inside):
    """The answer is cached for the process. The first caller may be a model that is built without memory."""
    operators.can_pack_weights.cache_clear()  # other probes call it
    outside = probe.__wrapped__(*words)
    operators.can_pack_weights.cache_clear()
    with inside:
        assert probe.__wrapped__(*words) == outside
    operators.can_pack_weights.cache_clear()


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
