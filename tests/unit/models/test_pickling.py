"""Tasks, models, generators and settings can be sent to other processes, and decode there as they did here."""

import copy
import multiprocessing
import pickle

import pytest
import torch
from decoding import DICTIONARY, make_sample, sharpened
from fairseq import search
from helpers import make_task
from scripted import scripted_language_model, scripted_model

from fairseq_etads.generation import SummaryGenerator

DOCUMENTS = [[5, 6, 7, 50], [9, 8], [], [51, 10, 52, 11, 50]]


class Options:
    """Options that fairseq's commands pass to build_generator, in part."""

    beam, nbest, max_len_b, score_reference, print_alignment = 3, 2, 8, False, None


def used(task, model, **settings):
    """A generator of the task that has already decoded, so it holds packed weights."""
    generator = task.build_generator([model], Options(), extra_gen_cls_kwargs=settings)
    decode(task, generator)
    return generator


def decode(task, generator):
    """Tokens and scores of the documents."""
    found = task.inference_step(generator, generator.models, make_sample(DOCUMENTS))
    return [[(h["tokens"].tolist(), h["score"].item()) for h in row] for row in found]


def test_everything_goes_through_a_process_that_is_spawned():
    task = make_task(tail=30, coverage_penalty=0.3)
    model = sharpened(task=task, pointer="switch")
    model.make_generation_fast_()  # as in fairseq's commands
    generator = used(task, model, infer_dtype="int8")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there, settings = pool.starmap(decode, [(task, generator)]), pool.map(copy.copy, [generator.options])
    assert there == [decode(task, generator)]
    assert settings == [generator.options]


@pytest.mark.parametrize(
    "strategy",
    [
        search.Sampling(DICTIONARY, 5),
        search.DiverseBeamSearch(DICTIONARY, 2, 0.5),
        search.LengthConstrainedBeamSearch(DICTIONARY, 1, 0, 1, 0),
    ],
    ids=lambda strategy: type(strategy).__name__,
)
def test_generators_with_other_searches_and_models_of_others(strategy):
    model = scripted_model(DICTIONARY)
    language_model = scripted_language_model(DICTIONARY)
    generator = SummaryGenerator([model], DICTIONARY, 4, max_len_b=9, search_strategy=strategy, lm_model=language_model)
    sample = make_sample([[5, 6, 7], [9, 8]])
    found = []
    for each in (generator, pickle.loads(pickle.dumps(generator)), copy.deepcopy(generator)):
        torch.manual_seed(0)
        found.append([[h["tokens"].tolist() for h in row] for row in each.generate(None, sample)])
    assert found[0] == found[1] == found[2]
