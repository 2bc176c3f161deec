"""Threads and processes decode with one generator, or share its parts: each gets the same result as alone."""

import copy
import multiprocessing
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from decoding import DICTIONARY, make_sample, options, sharpened
from fairseq import search
from fairseq.token_generation_constraints import pack_constraints
from helpers import make_task
from scripted import scripted_model

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.search import inference
from fairseq_etads.vocabulary.dictionary import SummarizationDictionary

THREADS = 8
BATCHES = [
    [[5 + (7 * batch + 3 * row + place) % 38 for place in range(2 + (batch + row) % 9)] for row in range(1 + batch % 4)]
    for batch in range(12)
]


@pytest.fixture(autouse=True)
def hasty_threads():
    """Let Python switch threads much more often than every 5 ms, so that a race shows within a few batches."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def in_threads(function, items):
    """Results of the function for each item, with all threads starting together."""
    started = threading.Barrier(THREADS)
    with ThreadPoolExecutor(THREADS, initializer=started.wait) as pool:
        return list(pool.map(function, items))


STRATEGIES = {
    "beam": lambda: None,
    "diverse": lambda: search.DiverseBeamSearch(DICTIONARY, 2, 0.5),
    "length": lambda: search.LengthConstrainedBeamSearch(DICTIONARY, 1, 0, 1, 0),
    "required": lambda: search.LexicallyConstrainedBeamSearch(DICTIONARY, "unordered"),
}


@pytest.mark.parametrize("strategy, infer_dtype", [*((strategy, None) for strategy in STRATEGIES), ("beam", "int8")])
def test_a_generator_and_its_copy_of_the_weights_are_shared(strategy, infer_dtype, monkeypatch):
    made, make = [], inference._make_inference_copy
    monkeypatch.setattr(inference, "_make_inference_copy", lambda *arguments: made.append(1) or make(*arguments))
    chosen = {"search_strategy": STRATEGIES[strategy](), "match_source_len": strategy == "length"}
    generator = SummaryGenerator([sharpened()], DICTIONARY, 4, max_len_b=12, infer_dtype=infer_dtype, **chosen)

    def summarise(documents):
        constraints = None
        if strategy == "required":
            constraints = pack_constraints([[torch.tensor([document[-1] % 30 + 5])] for document in documents])
        found = generator.generate(None, make_sample(documents), constraints=constraints)
        return [[hypothesis["tokens"].tolist() for hypothesis in row] for row in found]

    together = in_threads(summarise, BATCHES)
    assert len(made) == 1
    assert together == [summarise(documents) for documents in BATCHES]


def test_a_model_goes_back_to_training_after_the_last_search(documents):
    """With dropout, a search that ends must not change the mode under one that continues."""
    model = scripted_model(DICTIONARY)
    model.train()
    modes = []
    forward = model.decoder.forward
    model.decoder.forward = lambda *a, **k: modes.append(model.decoder.training) or forward(*a, **k)

    def summarise(longest):
        SummaryGenerator([model], DICTIONARY, 2, max_len_b=longest).generate(None, make_sample(documents))

    in_threads(summarise, [1, 30] * THREADS)
    assert not any(modes)
    assert all(module.training for module in model.modules())


class SlowList(list):
    """A list that lets other threads run between reading its length and its next entry."""

    def append(self, item):
        time.sleep(1e-5)
        super().append(item)


def test_a_dictionary_grows_by_each_word_once():
    dictionary = SummarizationDictionary()
    dictionary.grows = True
    dictionary.symbols = SlowList(dictionary.symbols)
    lines = [" ".join(f"word{(7 * line + place) % 500}" for place in range(60)) for line in range(64)]
    encoded = in_threads(lambda line: dictionary.encode_line(line, add_if_not_exist=False).tolist(), lines)
    assert [dictionary.string(torch.tensor(ids)) for ids in encoded] == lines
    assert len(dictionary.symbols) == len(set(dictionary.symbols)) == len(dictionary.count) == len(dictionary.indices)


def decode(task, generator):
    """Tokens and scores of some documents."""
    found = task.inference_step(generator, generator.models, make_sample([[5, 6, 7, 50], [], [51, 10, 52, 11, 50]]))
    return [[(h["tokens"].tolist(), h["score"].item()) for h in row] for row in found]


def test_tasks_models_generators_and_settings_go_through_a_process_that_is_spawned():
    task = make_task(tail=30, coverage_penalty=0.3)
    model = sharpened(task=task, pointer="switch")
    model.make_generation_fast_()  # as in fairseq's commands
    generator = task.build_generator([model], options(nbest=2), extra_gen_cls_kwargs={"infer_dtype": "int8"})
    here = decode(task, generator)  # which packs the weights
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there, settings = pool.starmap(decode, [(task, generator)]), pool.map(copy.copy, [generator.options])
    assert there == [here] and settings == [generator.options]
