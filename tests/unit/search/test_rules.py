"""The rules of a step apply to each document separately, regardless of its neighbours in the batch."""

import math

import pytest
import torch
from decoding import make_sample, sharpened
from fairseq import search
from helpers import EOS, make_task
from scripted import scripted_model

from fairseq_etads.generation import SummaryGenerator

TASK = make_task(mark=True)
DICTIONARY = TASK.target_dictionary
DOCUMENTS = [[5, 6, 7], list(range(4, 18)), [9], [8, 45, 30, 20, 8, 45]]


def tokens_of(results):
    return [[hypothesis["tokens"].tolist() for hypothesis in row] for row in results]


def generate(model, documents, prefix_tokens=None, width=None, **options):
    options = {"beam_size": 3, "max_len_b": 9, **options}
    sample = make_sample(documents) if width is None else make_sample(documents, width=width)
    return SummaryGenerator([model], DICTIONARY, **options).generate(None, sample, prefix_tokens=prefix_tokens)


@pytest.mark.parametrize("early_stopping", ["fairseq", "admissible", "heuristic"])
@pytest.mark.parametrize("coverage", [{}, {"coverage_penalty": 0.2, "coverage_penalty_type": "wu"}], ids=str)
def test_the_greatest_length_is_the_documents_own(coverage, early_stopping):
    options = {"max_len_a": 0.6, "max_len_b": 1, "max_len_per_document": True, "early_stopping": early_stopping}
    options.update(coverage)
    for model in (sharpened(task=TASK), scripted_model(DICTIONARY, end=-8.0), scripted_model(DICTIONARY, 1)):
        together = generate(model, DOCUMENTS, width=20, **options)
        for document, row in zip(DOCUMENTS, together):
            (alone,) = generate(model, [document], **options)
            assert tokens_of([row]) == tokens_of([alone])
            for mine, other in zip(row, alone):
                torch.testing.assert_close(mine["score"], other["score"], rtol=1e-4, atol=1e-4)
            longest = max(len(h["tokens"]) - 1 for h in row)
            assert longest <= int(0.6 * (len(document) + 1) + 1)
    lengths = [
        len(row[0]["tokens"]) - 1 for row in generate(scripted_model(DICTIONARY, end=-30.0), DOCUMENTS, **options)
    ]
    assert lengths == [3, 10, 1, 5], "no summary is longer than its document"
    as_fairseq = {**options, "max_len_per_document": False}
    lengths = [
        len(row[0]["tokens"]) - 1 for row in generate(scripted_model(DICTIONARY, end=-30.0), DOCUMENTS, **as_fairseq)
    ]
    assert lengths == [10] * 4


STRATEGIES = {
    "diverse beams": lambda: search.DiverseBeamSearch(DICTIONARY, 2, 0.5),
    "as many groups as beams": lambda: search.DiverseBeamSearch(DICTIONARY, 4, 0.5),
    "allowed words": lambda: search.PrefixConstrainedBeamSearch(DICTIONARY, lambda _, words: [EOS, 5, 6, 7, 8, 9]),
    "nothing but the end": lambda: search.PrefixConstrainedBeamSearch(DICTIONARY, lambda _, words: [EOS]),
    "an end that is not wanted": lambda: search.PrefixConstrainedBeamSearch(
        DICTIONARY, lambda _, words: [5, 6] if len(words) < 4 else [EOS]
    ),
    "sampling": lambda: search.Sampling(DICTIONARY, sampling_topk=3),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_no_hypothesis_has_an_end_inside(name):
    for seed in range(12):
        for end in (0.0, 3.0, 6.0):
            torch.manual_seed(seed)
            model = scripted_model(DICTIONARY, seed, end=end)
            found = generate(model, DOCUMENTS, beam_size=4, search_strategy=STRATEGIES[name](), min_len=seed % 3)
            for row in found:
                assert row
                for hypothesis in row:
                    tokens = hypothesis["tokens"].tolist()
                    assert tokens.index(EOS) == len(tokens) - 1 or hypothesis["score"] == -math.inf
