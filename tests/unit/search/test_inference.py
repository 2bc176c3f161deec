"""Copies for inference, and documents encoded once for many searches; data types, 8-bit products and waits."""

import math
import subprocess
import sys
from pathlib import Path

import convolutional
import language_models
import pytest
import torch
from convolutional import conv, conv_task
from decoding import DICTIONARY, TASK, assert_same, generate, make_sample, sharpened
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from folders import make_folder
from helpers import make_batch, make_model, make_task
from recurrent import recurrent, recurrent_task

from fairseq_etads import Summarizer
from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.kernels import operators
from fairseq_etads.kernels.linear import BlockedOutputProjection, Int8Linear
from fairseq_etads.search import inference
from fairseq_etads.search.inference import InferenceModel
from fairseq_etads.summarizer.encoded_documents import EncodedDocuments


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
        before = torch.random.get_rng_state()
        for infer_dtype in (None, "bf16", "int8"):
            generator = SummaryGenerator([model], DICTIONARY, 3, max_len_b=5, infer_dtype=infer_dtype)
            generator.generate([model], sample)
        assert torch.equal(torch.random.get_rng_state(), before), "a copy draws no random numbers"

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


@pytest.mark.parametrize(
    "probe", [operators.can_pack_weights, operators.has_flash_attention, operators.find_exact_int8_levels]
)
@pytest.mark.parametrize(
    "inside", [torch.device("meta"), torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode()]
)
def test_an_answer_about_the_processor_does_not_depend_on_the_first_caller(probe, inside):
    """The answer is cached for the process. The first caller may be a model that is built without memory."""
    words = () if probe is operators.find_exact_int8_levels else (torch.float32,)
    operators.can_pack_weights.cache_clear()  # other probes call it
    outside = probe.__wrapped__(*words)
    operators.can_pack_weights.cache_clear()
    with inside:
        assert probe.__wrapped__(*words) == outside
    operators.can_pack_weights.cache_clear()


@pytest.fixture
def fresh_answers():
    """Forget results that are cached once per process."""
    cached = (operators.find_exact_int8_levels, operators.can_pack_weights, inference.find_fastest_cpu_dtype)
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


@pytest.mark.parametrize("levels", operators.INT8_LEVELS)
@pytest.mark.parametrize("layer", ["plain", "relu", "wide"])
def test_sums_are_exact_even_of_the_largest_numbers(layer, levels, monkeypatch):
    """The sum of two 8-bit products exceeds the 16 bits in which processors without VNNI add them."""
    if levels > (operators.find_exact_int8_levels() or 0):
        pytest.skip("torch was built without FBGEMM, or this processor has no VNNI")
    monkeypatch.setattr(operators, "find_exact_int8_levels", lambda: levels)
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


@pytest.mark.usefixtures("fresh_answers")
def test_as_many_levels_are_used_as_the_processor_adds_exactly(monkeypatch):
    """Without VNNI, a sum of two products saturates at 16 bits: 2 * 255 * 127 does, 2 * 127 * 127 does not."""

    def add_in_16_bits(x, packed, levels):
        zero = levels + 1  # inputs are numbers without sign
        pairs = (((x * levels).round().int() + zero) * 127).unflatten(1, (-1, 2)).sum(2)
        sums = pairs.clamp(max=2**15 - 1).sum(1, keepdim=True) - zero * 64 * 127
        return sums.expand(-1, 32) / levels

    def add_exactly(x, packed, levels):
        return (x * 127).sum(1, keepdim=True).expand(-1, 32)

    def fail(*_):
        raise RuntimeError("Didn't find engine for operation quantized::linear_prepack")

    monkeypatch.setattr(operators, "pack_int8", lambda weight, scale: weight)
    for product, levels in ((add_in_16_bits, 63), (add_exactly, 127), (fail, None)):
        operators.find_exact_int8_levels.cache_clear()
        monkeypatch.setattr(operators, "int8_linear", product)
        assert operators.find_exact_int8_levels() == levels


@pytest.mark.usefixtures("fresh_answers")
@pytest.mark.parametrize("fastest", ["fp32", "bf16", "int8"])
def test_auto_takes_the_fastest_format(fastest, monkeypatch):
    there = {
        "fp32": True,
        "bf16": operators.can_pack_weights(torch.bfloat16),
        "int8": operators.find_exact_int8_levels(),
    }
    if not there[fastest]:
        pytest.skip(f"no fast {fastest} on this processor")
    seconds = {name: 1.0 if name == fastest else 2.0 for name in there if there[name]}
    monkeypatch.setattr(inference, "_time_matrix_product_dtypes", lambda outputs, inputs: seconds)
    block = InferenceModel(sharpened(), "auto").get_current_copy().decoder.output_projection.blocks[0]
    dtype = "int8" if isinstance(block, Int8Linear) else {torch.float32: "fp32", torch.bfloat16: "bf16"}[block.dtype]
    assert dtype == fastest


TEXTS = ["w1 w2 New w3 new other w9", "", "W5 w6 w7 Zebra yak w20 w21 w22 w23 w5 w6 w7", "only unknown words here"]
TEXTS += ["w9", " ".join(f"w{number % 40} x{number}" for number in range(50)), "w3 w1 w2 w8"]
CALLS = [
    {},
    {"beam": 1, "no_repeat_ngram_size": 0},
    {"coverage_penalty": 1.0, "stepwise_coverage_penalty": True},
    {"beam": 5, "max_len": 4, "temperature": 0.7, "replace_unknown": True},
]
RUNS = [
    {"pointer": "soft", "pointer_continue": True},
    {"pointer": "switch", "target_words": 30, "aggregation": "attn"},
    {"arch": "words_lvt2k_hieratt", "mark": True, "large_vocabulary_trick": 25},
    {"arch": "unified_summarizer", "paper_init": False, "mark": True},
    {"arch": "convs2s", "pointer": "soft", **convolutional.SIZES},
    {"arch": "abs", "pointer": "soft", **language_models.SIZES},
]


def count_encoded(model):
    """A list that collects the number of documents whenever the encoder runs."""
    documents, forward = [], model.encoder.forward_torchscript

    def counting(net_input):
        documents.append(len(net_input["src_tokens"]))
        return forward(net_input)

    model.encoder.forward_torchscript = counting
    return documents


@pytest.mark.parametrize("run", RUNS, ids=lambda run: "-".join(map(str, run.values())))
def test_each_document_is_encoded_once_and_summaries_are_the_same(run, tmp_path):
    """In a small memory some documents are kept, and the others are encoded again."""
    summarizer = Summarizer.load(make_folder(tmp_path, **run)[0], "cpu")
    wanted = [summarizer.summarize(TEXTS, max_tokens=30, **call) for call in CALLS]
    copy, projected = summarizer._copies[None].get_current_copy(), []
    projections = [part for name, part in copy.decoder.named_modules() if name.endswith("encoder_attn.k_proj")]
    for projection in projections:
        projection.register_forward_hook(lambda *_: projected.append(1))
    encoded = count_encoded(copy)

    def summarize(**room):
        encoded.clear()
        repeated = EncodedDocuments(summarizer, TEXTS, max_tokens=30, **room)
        for call, summaries in zip(CALLS, wanted):
            found = repeated.summarize(**call)
            assert [(s.tokens, s.score, s.text) for s in found] == [(s.tokens, s.score, s.text) for s in summaries]
        again = repeated.documents - repeated.encoded_once
        assert sum(encoded) == repeated.documents + again * (len(CALLS) - 1)
        return repeated, again

    everything, again = summarize()
    assert everything.documents == 6 and again == 0
    assert len(encoded) > 2, "one batch would not show that batches are kept apart"
    assert len(projected) == len(projections) * len(encoded)
    for room in (0, everything.state_bytes // 2, everything.state_bytes):
        repeated, again = summarize(state_bytes=room)
        assert repeated.state_bytes <= room
        assert (again == 0) == (room == everything.state_bytes) and (again == 6) == (room == 0)


ROOT = Path(__file__).parents[3]


def test_no_step_waits_for_a_gpu_more_often_than_before():
    simulated = [sys.executable, "tests/pretended/run_pretending.py", "pytest", "-q", "-p", "no:cacheprovider"]
    command = [*simulated, "tests/gpu/test_waits_cuda.py"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0 and " skipped" not in result.stdout, result.stdout[-3000:]
