"""Following one step: few files of the package run in an update of a training, and in a batch of a search.

docs/overview.md lists them.
"""

import re
import sys
from pathlib import Path

import pytest
import torch
from documented import ROOT
from fairseq.dataclass.configs import GenerationConfig
from fairseq.logging import metrics
from helpers import SMALL, model_config
from omegaconf import OmegaConf
from steps import make_criterion, make_sample, make_trainer, steps_task

import fairseq_etads

PACKAGE = Path(fairseq_etads.__file__).parent
MOST = {"U": 11, "D": 14}
"""Limits, without the files of ``kernels/``, which only make the same results faster, and depend on the processor."""


def files_of(run):
    """Files of the package with a function that ``run`` calls, relative to it, without those of ``kernels/``."""
    found = set()

    def note(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and PACKAGE in path.parents:
            found.add(path.relative_to(PACKAGE).as_posix())

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return sorted(name for name in found if not name.startswith("kernels/"))


@pytest.mark.parametrize("letter", MOST)
def test_a_step_runs_through_few_files(letter):
    """An update of ETADS with a soft pointer (U), and a batch of a search (D); with ``-s``, the files are printed."""
    task = steps_task()
    torch.manual_seed(1)
    model = task.build_model(model_config("etads", **{**SMALL, "pointer": "soft"}))
    sample = make_sample(model)
    if letter == "U":
        trainer = make_trainer(task, model, make_criterion(task))
    else:
        model.eval()
        generator = task.build_generator([model], OmegaConf.structured(GenerationConfig(beam=2, max_len_b=6)))

    def step():
        if letter == "D":
            task.inference_step(generator, [model], sample)
            return
        with metrics.aggregate("train", new_root=True):
            trainer.train_step([sample])

    step()  # the first one also makes the optimiser, or the copy for inference
    files = files_of(step)
    print(f"\n{len(files)} files: {', '.join(files)}")
    rows = re.findall(
        r"^\| `([\w/]+\.py)` \| ([UD ]+) \|", (ROOT / "docs/overview.md").read_text("utf-8"), re.MULTILINE
    )
    assert len(files) <= MOST[letter] and files == sorted(name for name, letters in rows if letter in letters)
