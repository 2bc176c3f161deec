"""SummaryGenerator: fairseq's results without its options, the same in any batch, and an answer for any input."""

import copy
import itertools
import math

import pytest
import torch
from decoding import DICTIONARY, assert_same, generate, make_sample, sharpened
from fairseq import search
from fairseq.sequence_generator import SequenceGenerator, SequenceGeneratorWithAlignment
from fairseq.token_generation_constraints import pack_constraints
from helpers import EOS, PAD
from scripted import scripted_model

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.search.strategies import SamplingWithGreedyHypothesis

SETTINGS = [
    {"beam_size": 4, "max_len_b": 14},
    {"beam_size": 1, "max_len_b": 6},
    {"beam_size": 3, "max_len_a": 0.5, "max_len_b": 4, "min_len": 3, "len_penalty": 2.0},
    {"beam_size": 5, "max_len_b": 9, "unk_penalty": 0.5, "temperature": 1.4, "normalize_scores": False},
    {"beam_size": 2, "max_len_b": 9, "tokens_to_suppress": ("w3", "w4"), "unk_penalty": -1.0},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_without_options_it_returns_what_fairseq_returns(settings, documents):
    scripted = [scripted_model(DICTIONARY, seed, end=end) for seed, end in enumerate((-2.0, 0.0, 3.0))]
    for model in (sharpened(), *scripted):
        for left in (False, True):
            sample = make_sample(documents, left=left)
            want = generate(SequenceGenerator, [model], sample, settings)
            assert_same(generate(SummaryGenerator, [model], sample, settings), want)


class _EndsEnd:
    """fairseq's search class, but finished hypotheses have no continuation, which fairseq allows."""

    def step(self, step, lprobs, scores, prev_output_tokens=None, original_batch_idxs=None):
        if step:
            ended = prev_output_tokens[:, 1:].eq(EOS).any(1).view(*lprobs.shape[:2], 1)
            lprobs = lprobs.masked_fill(ended, -math.inf)
        return super().step(step, lprobs, scores, prev_output_tokens, original_batch_idxs)


class _DiverseBeams(_EndsEnd, search.DiverseBeamSearch):
    pass


class _AllowedWords(_EndsEnd, search.PrefixConstrainedBeamSearch):
    pass


STRATEGIES = {
    "sampling": lambda: search.Sampling(DICTIONARY),
    "top-k sampling": lambda: search.Sampling(DICTIONARY, sampling_topk=5),
    "top-p sampling": lambda: search.Sampling(DICTIONARY, sampling_topp=0.8),
    "diverse beams": lambda: search.DiverseBeamSearch(DICTIONARY, 2, 0.5),
    "diverse siblings": lambda: search.DiverseSiblingsSearch(DICTIONARY, 0.5),
    "allowed words": lambda: search.PrefixConstrainedBeamSearch(DICTIONARY, lambda _, sent: [EOS, 5, 6, 7, 8, 9]),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_fairseqs_search_classes_work(name, documents):
    settings, sample = {"beam_size": 4, "max_len_b": 8, "search_strategy": STRATEGIES[name]}, make_sample(documents)
    fairseqs = {
        "diverse beams": lambda: _DiverseBeams(DICTIONARY, 2, 0.5),
        "allowed words": lambda: _AllowedWords(DICTIONARY, lambda _, sent: [EOS, 5, 6, 7, 8, 9]),
    }
    theirs = {**settings, "search_strategy": fairseqs.get(name, STRATEGIES[name])}
    for model in (sharpened("etads"), scripted_model(DICTIONARY)):
        want = generate(SequenceGenerator, [model], sample, theirs)
        assert_same(generate(SummaryGenerator, [model], sample, settings), want)


@pytest.mark.parametrize("early_stopping", ["fairseq", "heuristic"])
def test_the_greatest_length_is_the_documents_own_or_of_the_batch(early_stopping):
    sample, model = make_sample([[5, 6, 7], list(range(4, 18)), [9], [8, 4] * 3]), scripted_model(DICTIONARY, end=-30.0)
    for per_document, lengths in ((True, [3, 10, 1, 5]), (False, [10] * 4)):  # no summary is longer than its document
        settings = {"max_len_a": 0.6, "max_len_b": 1, "max_len_per_document": per_document}
        found = generate(SummaryGenerator, [model], sample, {**settings, "early_stopping": early_stopping})
        assert [len(row[0]["tokens"]) - 1 for row in found] == lengths


def with_constraints(order):
    return {"search_strategy": lambda: search.LexicallyConstrainedBeamSearch(DICTIONARY, order), "max_len_b": 8}


def test_words_to_include(documents):
    constraints = pack_constraints([[torch.tensor([6, 7])], [], [torch.tensor([9])], [torch.tensor([5])], []])
    model, sample, settings = scripted_model(DICTIONARY), make_sample(documents), with_constraints("ordered")
    got, want = (
        generate(cls, [model], sample, {"beam_size": 4, **settings}, constraints=constraints)
        for cls in (SummaryGenerator, SequenceGenerator)
    )
    # fairseq loses a hypothesis, because impossible extensions with more of the required words take its place
    assert [len(row) >= len(other) for row, other in zip(got, want)] == [True] * 5 and len(got[0]) > len(want[0])
    assert_same([mine[: len(other)] for mine, other in zip(got, want)], want)
    with pytest.raises(NotImplementedError, match="BeamSearch does not support constraints"):
        generate(SummaryGenerator, [model], sample, {}, constraints=constraints)


@pytest.mark.parametrize("order", ["ordered", "unordered"])
@pytest.mark.parametrize("beam", [1, 2, 5])
def test_words_to_include_come_after_a_prefix(beam, order, documents):
    """Within the prefix, the required words have probability 0."""
    prefix, required = [[5, 8, 6], [7, PAD, PAD]], [[torch.tensor([9, 12]), torch.tensor([11])], []]
    sample, settings = make_sample(documents[:2]), {"beam_size": beam, **with_constraints(order)}
    given = {"prefix_tokens": torch.tensor(prefix), "constraints": pack_constraints(required)}
    found, free = generate(SummaryGenerator, [sharpened()], sample, settings, **given)
    words = found[0]["tokens"].tolist()
    assert words[:3] == prefix[0] and "9, 12" in str(words) and 11 in words
    assert free[0]["tokens"][0] == 7 and all(row[0]["score"].isfinite() for row in (found, free))


def test_a_narrower_member_gives_the_rest_no_probability(documents):
    narrow = scripted_model(DICTIONARY)
    narrow.decoder.table = narrow.decoder.table[:, :30]
    wide = scripted_model(DICTIONARY, seed=1)
    sample, settings = make_sample(documents), {"beam_size": 3, "max_len_b": 6}
    both = generate(SummaryGenerator, [narrow, wide], sample, settings)
    filled = copy.deepcopy(narrow)
    filled.decoder.table = torch.nn.functional.pad(narrow.decoder.table, (0, 14), value=-1e9)
    assert_same(both, generate(SummaryGenerator, [filled, wide], sample, settings))
    alone = generate(SummaryGenerator, [narrow], sample, {"beam_size": 43, "max_len_b": 3})
    assert max(max(h["tokens"].tolist()) for row in alone for h in row) < 30
    assert len(alone[0]) == 29, "the distribution is narrower than the dictionary, and with it the beam"


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_alignments(kind, documents):
    settings = {"beam_size": 2, "max_len_b": 7}
    model, sample = sharpened(), make_sample(documents)
    got, want = (
        generate(cls, [model], sample, {"print_alignment": kind, **settings})
        for cls in (SummaryGenerator, SequenceGeneratorWithAlignment)
    )
    for mine, other in zip(itertools.chain(*got), itertools.chain(*want)):
        pairs = [[[float(x) for x in pair] for pair in h["alignment"]] for h in (mine, other)]
        torch.testing.assert_close(torch.tensor(pairs[0]), torch.tensor(pairs[1]), rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["sampling", "top-k sampling", "top-p sampling", "greedy"])
def test_a_word_of_a_tiny_probability_is_drawn_if_nothing_else_is_allowed(name):
    """At the maximum length only the end is allowed, and here its probability is 0 in float32."""
    strategy = {**STRATEGIES, "greedy": lambda: SamplingWithGreedyHypothesis(DICTIONARY)}[name]
    options = {"beam_size": 2, "max_len_b": 4, "temperature": 0.02, "search_strategy": strategy}
    found = generate(SummaryGenerator, [sharpened()], make_sample([[5, 6, 7], [8]]), options)
    scores = torch.stack([hypothesis["positional_scores"][-1] for row in found for hypothesis in row[1:]])
    assert all(row[0]["tokens"][-1] == EOS for row in found)
    assert scores.min() < -110 and scores.isfinite().all()


def test_a_model_without_an_answer_still_gives_one(documents):
    model = scripted_model(DICTIONARY)
    model.decoder.table[:] = float("nan")
    for options in ({"max_len_b": 4}, {"max_len_b": 4, "beam_size": 3, "coverage_penalty": 1.0}):
        results = generate(SummaryGenerator, [model], make_sample(documents), options)
        assert all(len(row) == 1 and row[0]["score"] == -math.inf for row in results)
