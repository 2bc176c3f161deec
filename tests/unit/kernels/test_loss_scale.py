"""--fp16 on a CPU: the loss scale does not change while nothing overflows, and the model learns."""

import copy
import random
import sys
from pathlib import Path

import pytest
import steps
import torch
from fairseq.logging import metrics

sys.path.append(str(Path(__file__).parents[2] / "gpu"))

from device_steps import make_trainer, sample_for

FIRST_SCALE = 128
"""fairseq's default. fairseq doubles it only after 16,384 updates without an overflow, so none here is a trial."""


def make_fp16_trainer(arch, scale):
    trainer, _ = make_trainer(arch, "cpu", "fp16", "adam")
    trainer.optimizer.scaler.loss_scale = scale
    return trainer


def train(arch, trainer, count):
    """Train with four random batches in turn; return the first one, scales and losses in bits."""
    draw, words = random.Random(1), [number for number in range(4, 53) if number != steps.MARK]
    batches = []
    for _ in range(4):  # of three pairs, where summaries repeat words of their documents
        documents = [draw.choices(words, k=draw.randint(4, 60)) for _ in range(3)]
        summaries = [draw.sample(document, min(len(document), draw.randint(1, 10))) for document in documents]
        batches.append(sample_for(arch, trainer.get_model(), documents, summaries))
    scales, losses = [], []
    for number in range(count):
        with metrics.aggregate("train", new_root=True):
            logged = trainer.train_step([batches[number % 4]])
        losses.append(float(logged["loss"]) if logged else None)
        scales.append(trainer.optimizer.scaler.loss_scale)
    return batches[0], scales, losses


@pytest.mark.parametrize("arch", ["etads", "pg_coverage"])
def test_the_loss_scale_stays_in_twenty_updates(arch):
    _, scales, losses = train(arch, make_fp16_trainer(arch, FIRST_SCALE), 20)
    assert set(scales) == {FIRST_SCALE}
    assert all(last < first - 0.2 for first, last in zip(losses[:4], losses[-4:]))


def test_a_scale_that_is_too_large_shrinks():
    """The gradients that overflow are too large for float16 in float64, too: nothing else makes them infinite."""
    first, arch = 2.0**24, "pg_coverage"
    trainer = make_fp16_trainer(arch, first)
    sample, scales, _ = train(arch, trainer, 1)
    assert scales == [first / 2]
    model = copy.deepcopy(trainer.get_model()).double().train()  # the skipped update has not changed it
    (trainer.get_criterion()(model, sample)[0] * first).backward()
    assert max(x.grad.abs().max() for x in model.parameters() if x.grad is not None) > torch.finfo(torch.float16).max
    _, scales, _ = train(arch, trainer, 20)
    assert scales[-1] == scales[-2] < first / 2
