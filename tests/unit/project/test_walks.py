"""Following one step: few files of the package run in an update of a training, and in a batch of a search.

docs/overview.md lists them.
"""

import re
import sys
from pathlib import Path

import pytest
import torch
from fairseq.dataclass.configs import GenerationConfig
from fairseq.logging import metrics
from helpers import SMALL, model_config
from omegaconf import OmegaConf
from steps import make_criterion, make_sample, make_trainer, steps_task

import fairseq_etads

PACKAGE = Path(fairseq_etads.__file__).parent
OVERVIEW = Path(__file__).parents[3] / "docs" / "overview.md"
MOST_IN_TRAINING, MOST_IN_SEARCH = 11, 14
"""Limits, without the files of ``kernels/``, which only make the same results faster, and depend on the processor."""


@pytest.fixture(scope="module")
def etads():
    """ETADS with a soft pointer, its task, and a batch."""
    task = steps_task()
    torch.manual_seed(1)
    model = task.build_model(model_config("etads", **{**SMALL, "pointer": "soft"}))
    return task, model, make_sample(model)


def files_of(run):
    """Files of the package with a function that ``run`` calls, relative to it, in the order of the first calls."""
    found = {}

    def note(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and PACKAGE in path.parents:
            found.setdefault(path.relative_to(PACKAGE).as_posix(), frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return list(found)


def documented_files(letter):
    """Files of the table in docs/overview.md that run in an update ("U") or in decoding ("D")."""
    rows = re.findall(r"^\| `([\w/]+\.py)` \| ([UD ]+) \|", OVERVIEW.read_text(encoding="utf-8"), re.MULTILINE)
    return [name for name, letters in rows if letter in letters]


def check(files, most, letter):
    """With ``-s`` the test prints the files."""
    outside = [name for name in files if not name.startswith("kernels/")]
    print(f"\n{len(files)} files, {len(outside)} of them outside kernels/: {', '.join(files)}")
    assert len(outside) <= most
    assert sorted(outside) == sorted(documented_files(letter))


def test_an_update_runs_through_few_files(etads):
    task, model, sample = etads
    trainer = make_trainer(task, model, make_criterion(task))

    def update():
        with metrics.aggregate("train", new_root=True):
            trainer.train_step([sample])

    update()  # the first update also makes the optimiser
    files = files_of(update)
    assert {"training/task.py", "training/losses.py", "models/transformer.py", "layers/pointer.py"} <= {*files}
    check(files, MOST_IN_TRAINING, "U")


def test_a_batch_of_a_search_runs_through_few_files(etads):
    task, model, sample = etads
    model.eval()
    generator = task.build_generator([model], OmegaConf.structured(GenerationConfig(beam=2, max_len_b=6)))
    task.inference_step(generator, [model], sample)  # the first batch also makes the copy for inference
    files = files_of(lambda: task.inference_step(generator, [model], sample))
    assert {"search/generator.py", "search/beam_search.py", "models/transformer.py"} <= {*files}
    check(files, MOST_IN_SEARCH, "D")
