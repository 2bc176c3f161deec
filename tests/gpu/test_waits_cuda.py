"""Limits of waits (of the CPU for the GPU) and uploads, per step of training and of a search.

The tables hold upper limits, to be lowered whenever a wait is removed. A simulated GPU counts every wait; a real one
does not report all of them, and its counts are compared with the same limits.
"""

import pytest
import torch
from device_steps import PRETENDED, counted, make_trainer, waits_of_a_step
from test_search_cuda import OPTIONS, search
from test_training_cuda import MECHANISMS

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

TRAINING = {
    # model, format: waits of a training step, uploads from memory that is not pinned
    # Of the waits fairseq's trainer has 2 (with --fp16 5: the norm of the gradient), its Transformer's encoder 2 here,
    # one a layer, and its decoder none with these models; 1 is for all figures that are logged. The two uploads are
    # fairseq's; the batch comes from pinned memory.
    ("fairseq's Transformer", "fp32"): (6, 2),
    ("etads_basic", "fp32"): (5, 2),
    ("etads", "fp32"): (5, 2),
    ("etads", "fp16"): (8, 2),
    ("etads", "bf16"): (5, 2),
    ("pointer", "fp32"): (5, 2),
    ("pointer", "fp16"): (8, 2),
    ("switch", "fp32"): (5, 2),
    ("coverage", "fp32"): (5, 2),
    ("edited references", "fp32"): (6, 2),
    ("pointing convolutions", "fp32"): (5, 2),
    ("abs", "fp32"): (3, 2),
    # torch's packed sequences wait once, and the decoder once for whether summaries are padded on the left
    ("gru_seq2seq", "fp32"): (5, 3),
    ("lstm", "fp32"): (5, 4),
    # the number of candidates
    ("words_lvt2k", "fp32"): (6, 3),
}
SEARCH = {
    # model, option: waits of a step on average, uploads
    ("plain", "plain"): (1.0, 0.5),
    ("pointer", "plain"): (1.0, 0.5),
    ("pointer", "admissible"): (1.1, 0.5),  # ends after ten steps, so that a wait of each search weighs more
    ("pointer", "coverage"): (1.0, 0.5),
    ("pointer", "blocked"): (1.0, 0.5),
    ("pointer", "recombined"): (1.0, 0.5),
    ("pointer", "sentences"): (1.0, 0.5),
    ("pointer", "prefix"): (1.0, 0.5),
    ("pointer", "diverse"): (1.0, 1.5),
    ("pointer", "sampled"): (1.0, 0.5),
    ("pointer", "allowed"): (2.5, 3.0),
    ("pointer", "required, unordered"): (3.5, 2.0),
    ("switch", "plain"): (1.0, 0.5),
    ("ensemble", "plain"): (1.2, 0.5),
    ("recurrent", "plain"): (1.0, 0.5),
    ("see", "plain"): (1.0, 0.5),
    ("sentences", "plain"): (1.0, 0.5),
    ("convolutions", "plain"): (1.0, 0.5),
}
WORDS = 24
"""Usual length of a summary, with which a wait that occurs once per search has its usual weight."""


def check(waits, steps, limits):
    found = [sum(counter.values()) / steps for counter in (waits.syncs, waits.uploads)]
    assert found[0] <= limits[0], f"{found[0]:.2f} waits a step: {waits.syncs.most_common()}"
    assert found[1] <= limits[1], f"{found[1]:.2f} uploads a step: {waits.uploads.most_common()}"


@pytest.mark.parametrize("name", TRAINING, ids=", ".join)
def test_a_training_step_waits_no_more_than_this(name):
    model, number_format = name
    arch, criterion, options = MECHANISMS.get(model, (model, None, {}))
    trainer, sample = make_trainer(arch, "cuda", number_format, "adam", criterion, **options)
    check(waits_of_a_step(trainer, sample), 1, TRAINING[name])


@pytest.mark.parametrize("name", SEARCH, ids=", ".join)
def test_a_search_step_waits_no_more_than_this(name):
    kind, option = name
    # On a simulated GPU, which is slow, most models stay within the limits with shorter summaries, too.
    words = 16 if PRETENDED and kind != "sentences" else WORDS
    _, steps, waits = search(kind, "cuda", **{"min_len": words - 2, **OPTIONS[option], "max_len_b": words})
    check(waits, steps, SEARCH[name])


@pytest.mark.skipif(not PRETENDED, reason="a real GPU tells nothing of them")
def test_only_fairseq_uploads_from_memory_that_is_not_pinned():
    trainer, sample = make_trainer("etads", "cuda", optimizer="adam", pointer="soft")
    uploads = waits_of_a_step(trainer, sample).uploads
    assert {where.partition(":")[0] for _, where in uploads} == {"fairseq/trainer.py"}, uploads.most_common()


@pytest.mark.skipif(not PRETENDED, reason="of the simulated device")
def test_the_simulated_gpu_refuses_both_devices_in_one_operator_and_counts_waits():
    with pytest.raises(RuntimeError, match="with the CPU's"):
        torch.ones(2, device="cuda") @ torch.ones(2)
    with counted() as waits:
        torch.ones(2, device="cuda").max().item()
    assert sum(waits.syncs.values()) == 1
