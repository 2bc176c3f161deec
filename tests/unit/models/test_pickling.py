"""Tasks, models, generators and settings can be sent to other processes, and decode there as they did here."""

import copy
import multiprocessing

from decoding import make_sample, options, sharpened
from helpers import make_task

DOCUMENTS = [[5, 6, 7, 50], [9, 8], [], [51, 10, 52, 11, 50]]


def decode(task, generator):
    """Tokens and scores of the documents."""
    found = task.inference_step(generator, generator.models, make_sample(DOCUMENTS))
    return [[(h["tokens"].tolist(), h["score"].item()) for h in row] for row in found]


def test_everything_goes_through_a_process_that_is_spawned():
    task = make_task(tail=30, coverage_penalty=0.3)
    model = sharpened(task=task, pointer="switch")
    model.make_generation_fast_()  # as in fairseq's commands
    generator = task.build_generator([model], options(nbest=2), extra_gen_cls_kwargs={"infer_dtype": "int8"})
    decode(task, generator)  # which packs the weights
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there, settings = pool.starmap(decode, [(task, generator)]), pool.map(copy.copy, [generator.options])
    assert there == [decode(task, generator)]
    assert settings == [generator.options]
