"""Search on a GPU: each option finds the same summaries as on a CPU, token for token."""

import pytest
import torch
from convolutional import conv, conv_task
from decoding import DICTIONARY, TASK, sharpened
from device_steps import PRETENDED, counted, on_the_cpu
from fairseq import search as fairseq_search
from fairseq.token_generation_constraints import pack_constraints
from helpers import PAD, make_batch, make_task
from recurrent import recurrent, recurrent_task

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.search.beam_search import BeamSearch
from fairseq_etads.search.inference import InferenceModel
from fairseq_etads.search.strategies import DiverseSiblingsSearch, SamplingWithGreedyHypothesis, draw_indices

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

DOCUMENTS = [[5, 6, 43, 7, 46, 9, 12, 15, 20], [8, 9, 47, 47, 10, 30], [10], [11, 22, 31, 48, 12]]
PREFIX = torch.tensor([[5, 6], [8, PAD], [10, 2], [PAD, PAD]])
PHRASES = [[torch.tensor([5, 6]), torch.tensor([20])], [torch.tensor([8])], []]
REQUIRED = pack_constraints([*PHRASES, [torch.tensor([22])]])
COPIED = pack_constraints([*PHRASES, [torch.tensor([48])]])
ALLOWED = [number for number in range(2, 50) if number % 3]
OPTIONS = {
    "plain": {},
    "early": {"early_stopping": "heuristic", "length_penalty_type": "wu", "len_penalty": 0.9},
    "admissible": {"early_stopping": "admissible", "max_len_per_document": True, "max_len_a": 2.0, "max_len_b": 3},
    "coverage": {"coverage_penalty": 0.3, "stepwise_coverage_penalty": True},
    "wu coverage": {"coverage_penalty": 0.3, "coverage_penalty_type": "wu", "length_penalty_type": "wu"},
    "blocked": {"no_repeat_ngram_size": 2, "ngram_ignore_tokens": ("w5",)},
    "recombined": {"recombine": 2},
    "sentences": {"min_sentences": 2, "no_repeat_ngram_size": 3},
    "exact length": {"exact_length": 7},
    "as long as the source": {"match_source_len": True},
    "unknown words": {"unk_penalty": 1.0, "allow_unk": True, "temperature": 1.5},
    "suppressed": {"tokens_to_suppress": ("w5", "w6"), "min_len": 4},
    "kept attention": {"print_alignment": "hard", "copied_positions": True},
    "unnormalised": {"normalize_scores": False, "beam_size": 1},
    "prefix": {"prefix_tokens": PREFIX},
    "diverse": {"search_strategy": lambda d: fairseq_search.DiverseBeamSearch(d, 2, 0.5)},
    "siblings": {"search_strategy": lambda d: DiverseSiblingsSearch(d, 0.5)},
    "length": {"search_strategy": lambda d: fairseq_search.LengthConstrainedBeamSearch(d, 1, 0, 1, 0)},
    "sampled": {"search_strategy": lambda d: fairseq_search.Sampling(d, 3)},
    "allowed": {"search_strategy": lambda d: fairseq_search.PrefixConstrainedBeamSearch(d, lambda *_: ALLOWED)},
    "required, ordered": {
        "search_strategy": lambda d: fairseq_search.LexicallyConstrainedBeamSearch(d, "ordered"),
        "constraints": COPIED,
    },
    "required, unordered": {
        "search_strategy": lambda d: fairseq_search.LexicallyConstrainedBeamSearch(d, "unordered"),
        "constraints": REQUIRED,
    },
}
"""Tested searches: arguments of the generator, and of a call."""
CALL = ("prefix_tokens", "constraints")
ONE_LAYER = {"encoder_layers": 1, "decoder_layers": 1}
"""The search does not depend on the number of layers, but its time on a simulated GPU does."""


RECURRENT = {"recurrent": "feats_lvt2k_ptr", "see": "pointer_generator_coverage", "sentences": "all_selected"}


@on_the_cpu()
def models_of(kind):
    """Make a list of models with peaked distributions, more than one of which form an ensemble, and their task."""
    if kind in RECURRENT:
        return [recurrent(RECURRENT[kind], recurrent_task())], recurrent_task()
    if kind == "convolutions":
        return [conv("soft")], conv_task()
    task, pointer = make_task(tail=9, mark=True), {"plain": "none", "switch": "switch"}.get(kind, "soft")
    models = [sharpened("etads", task=task, pointer=pointer, **ONE_LAYER)]
    if kind == "ensemble":
        models.append(sharpened("gated_es_transformer", task=task, seed=2, **ONE_LAYER))
    return models, task


def batch(models, device):
    tokens = make_batch(DOCUMENTS)
    net_input = {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)}
    count = max(len(getattr(model, "factors", ())) for model in models)
    if count:
        net_input["factors"] = torch.full((*tokens.shape, count), 5)
    net_input = {name: value.to(device) for name, value in net_input.items()}
    return {"net_input": net_input, "id": torch.arange(len(tokens)).to(device)}


def search(kind, device, **options):
    """Search; returns the hypotheses of all documents, the number of decoder calls, and the waits."""
    models, task = models_of(kind)
    dictionary = task.target_dictionary
    options = {"beam_size": 4, "max_len_b": 9, "min_len": 1, **options}
    if "search_strategy" in options:
        options["search_strategy"] = options["search_strategy"](dictionary)
    call = {name: options.pop(name).to(device) for name in CALL if name in options}
    generator = SummaryGenerator([model.to(device) for model in models], dictionary, **options)
    sample, steps = batch(models, device), []
    advance = BeamSearch._run_step

    def counting(self, *args):
        steps.append(1)
        return advance(self, *args)

    torch.manual_seed(0)
    BeamSearch._run_step = counting
    try:
        if device == "cpu":
            with on_the_cpu():
                return generator.generate(None, sample, **call), len(steps), None
        with counted() as waits:
            found = generator.generate(None, sample, **call)
    finally:
        BeamSearch._run_step = advance
    return found, len(steps), waits


def as_lists(results):
    return [[hypothesis["tokens"].tolist() for hypothesis in row] for row in results]


def assert_same(found, expected, exact=PRETENDED):
    for mine, other in zip(found, expected):
        assert len(mine) == len(other)
    if exact:
        assert as_lists(found) == as_lists(expected)
    best = [[row[0] for row in results] for results in (found, expected)]
    for mine, other in zip(*best):
        torch.testing.assert_close(mine["score"].cpu(), other["score"], rtol=1e-3, atol=1e-3)
        if mine["tokens"].tolist() == other["tokens"].tolist():
            for name in ("positional_scores", "attention"):
                torch.testing.assert_close(mine[name].cpu(), other[name], rtol=1e-3, atol=1e-3)
            for name in {"alignment", "copied_from"} & other.keys():
                assert str(mine[name]) == str(other[name]) or torch.equal(mine[name].cpu(), other[name])


@pytest.mark.parametrize("option", [option for option in OPTIONS if option != "sampled"])
def test_an_option_finds_the_summaries_of_a_cpu(option):
    expected, _, _ = search("pointer", "cpu", **OPTIONS[option])
    found, _, _ = search("pointer", "cuda", **OPTIONS[option])
    assert_same(found, expected)


@pytest.mark.parametrize("kind", ["plain", "switch", "ensemble", "recurrent", "see", "sentences", "convolutions"])
@pytest.mark.parametrize("options", [["coverage", "prefix"], ["required, unordered"]], ids=", ".join)
def test_a_model_finds_the_summaries_of_a_cpu(kind, options):
    together = {name: value for option in options for name, value in OPTIONS[option].items()}
    expected, _, _ = search(kind, "cpu", **together)
    found, _, _ = search(kind, "cuda", **together)
    assert_same(found, expected)


def test_documents_that_are_finished_change_nothing_until_they_leave():
    """Documents of very different lengths get the same summaries one by one and in a batch."""
    options = {"early_stopping": "heuristic", "max_len_per_document": True, "max_len_a": 1.0, "max_len_b": 2}
    together, steps, _ = search("pointer", "cuda", **options)
    expected, cpu_steps, _ = search("pointer", "cpu", **options)
    assert as_lists(together) == as_lists(expected) or not PRETENDED
    assert cpu_steps <= steps < cpu_steps + 4


@pytest.mark.parametrize(
    "strategy",
    [
        lambda d: fairseq_search.Sampling(d, 3),
        lambda d: fairseq_search.Sampling(d, sampling_topp=0.6),
        lambda d: fairseq_search.Sampling(d),
        SamplingWithGreedyHypothesis,
    ],
    ids=["topk", "topp", "plain", "greedy"],
)
def test_drawn_summaries_differ(strategy):
    """Their scores are compared with the model's on a CPU, by tests/unit/search/test_search_rules.py."""
    found, _, _ = search("pointer", "cuda", search_strategy=strategy, beam_size=5, max_len_b=9)
    assert [len(row) for row in found] == [5] * len(DOCUMENTS)
    for row in found:
        assert len({str(hypothesis["tokens"].tolist()) for hypothesis in row}) > 1
        assert all(hypothesis["positional_scores"].isfinite().all() for hypothesis in row)


def test_words_are_drawn_as_often_as_they_are_likely():
    torch.manual_seed(0)
    probs = torch.tensor([0.5, 0.25, 0.15, 0.1, 0.0], device="cuda")
    counts = torch.bincount(draw_indices(probs.expand(20000, -1)).cpu(), minlength=5) / 20000
    torch.testing.assert_close(counts, probs.cpu(), rtol=0, atol=0.015)


@pytest.mark.parametrize("name", ["fp32", "fp16", "bf16", "auto"])
def test_a_copy_in_another_format_finds_summaries(name):
    model = sharpened("etads", task=TASK).cuda()
    generator = SummaryGenerator([model], DICTIONARY, beam_size=3, max_len_b=8, infer_dtype=name)
    found = generator.generate(None, batch([model], "cuda"))
    assert all(torch.isfinite(hypothesis["score"]) for row in found for hypothesis in row)


@pytest.mark.parametrize(
    "capability, auto", [((6, 1), torch.float32), ((7, 0), torch.float16), ((7, 5), torch.float16)]
)
def test_a_gpu_before_ampere_gets_float16_and_refuses_bfloat16(capability, auto, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)
    model = sharpened("etads", task=TASK).cuda()
    assert next(InferenceModel(model, "auto").get_current_copy().parameters()).dtype == auto
    assert next(InferenceModel(model, "fp16").get_current_copy().parameters()).dtype == torch.float16
    with pytest.raises(ValueError, match=r"--infer-dtype bf16: .*capability .* choose fp16, fp32 or auto"):
        InferenceModel(model, "bf16").get_current_copy()
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (8, 0))
    assert next(InferenceModel(model, "auto").get_current_copy().parameters()).dtype == torch.bfloat16
