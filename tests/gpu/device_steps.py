"""Training steps on a CPU and on a GPU, in one process: a real GPU, or the simulated one of tests/pretended."""

import argparse
import collections
import contextlib
import re
import sys
import warnings
from dataclasses import fields
from types import SimpleNamespace

import steps
import torch
from fairseq.logging import metrics
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.optim import OPTIMIZER_REGISTRY
from helpers import SMALL, model_config
from omegaconf import OmegaConf
from recurrent import recurrent_task
from small_models import FAMILIES, options_of_criterion, sizes_of
from steps import DOCUMENTS, SUMMARIES, make_sample
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.data._utils.pin_memory import pin_memory

PRETENDED = "pretended_gpu" in sys.modules
"""Whether the GPU is simulated: a CPU computes for it, and its speed means nothing."""
FORMATS = ("fp32", "amp", "fp16", "memory-efficient-fp16", "bf16", "memory-efficient-bf16")
TOLERANCE = {"fp32": 1e-4, "amp": 0.01, "fp16": 0.01, "bf16": 0.04}
"""Maximum relative difference from the loss on a CPU in float32, by the end of the format's name."""


def tolerance(name):
    return TOLERANCE[name.rpartition("-")[2]]


@contextlib.contextmanager
def on_the_cpu():
    """Compute without the simulated GPU, which slows down all operators; for tensors of the CPU only."""
    with _disable_current_modes() if PRETENDED else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def counted():
    """Count where the CPU waits for the GPU in the block, and uploads from memory that is not pinned.

    ``syncs`` and ``uploads`` are complete at the end of the block: (operator, file:line) -> count. A real GPU reports
    neither the names of operators nor uploads.
    """
    waits = SimpleNamespace(syncs=collections.Counter(), uploads=collections.Counter())
    if PRETENDED:
        gpu = sys.modules["pretended_gpu"]
        gpu.WAITS.clear()
        gpu.UPLOADS.clear()
        yield waits
        waits.syncs, waits.uploads = gpu.WAITS.copy(), gpu.UPLOADS.copy()
        return
    torch.cuda.synchronize()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield waits
        finally:
            torch.cuda.set_sync_debug_mode("default")
    for warning in found:
        if "synchroniz" in str(warning.message):
            waits.syncs["wait", re.sub(r".*/(fairseq\w*/)", r"\1", warning.filename) + f":{warning.lineno}"] += 1


PRESETS = [arch for family, presets in FAMILIES.items() if family != "selectors" for arch in presets]
"""This project's summarisation architectures."""


def distinct_presets():
    """List the presets, leaving out any that differs from an earlier one only in size."""
    found = {}
    for arch in PRESETS:
        config = {**model_config(arch, **sizes_of(arch))}
        found.setdefault(str({name: config[name] for name in sorted(config) if name != "_name"}), arch)
    return list(found.values())


def _defaults(name):
    """The options of an optimiser, with their defaults."""
    optimiser = OPTIMIZER_REGISTRY[name]
    config = getattr(optimiser, "__dataclass", None)
    if config is None:  # one of fairseq's older optimisers, configured by argparse
        parser = argparse.ArgumentParser()
        optimiser.add_args(parser)
        found = vars(parser.parse_args([]))
    else:
        found = {option.name: option.default for option in fields(config)}
    plain = {key: v for key, v in found.items() if isinstance(v, (int, float, str)) and "$" not in str(v)}
    return {**plain, "lr": [0.01], "_name": name, **({"tpu": False, "use_old_adam": False} if name == "adam" else {})}


def make_trainer(arch, device, number_format="fp32", optimizer="sgd", criterion=None, optimization=(), **options):
    """fairseq's trainer with a small model on a device.

    Args:
        number_format: of :data:`FORMATS`. criterion: its name and options. options: of the model.
    """
    task = recurrent_task()
    task.cfg.data = "/nowhere"
    name, more = criterion or ("summarization_nll", {})

    def change(cfg):
        cfg.common.cpu = device == "cpu"
        cfg.common.fp16_init_scale, cfg.common.fp16_no_flatten_grads = 8, True
        if number_format != "fp32":
            option = number_format.replace("-", "_")
            cfg.common[option] = True
            if option.startswith("memory_efficient"):
                cfg.common[option.rpartition("_")[2]] = True
        cfg.optimization.lr, cfg.optimization.clip_norm = [0.01], 1.0
        cfg.optimizer = OmegaConf.create({**_defaults(optimizer), **dict(optimization)})
        cfg.lr_scheduler.lr = [0.01]
        cfg.model, cfg.criterion, cfg.task = ({"_name": part} for part in (arch, name, "summarization"))  # checkpoints

    torch.manual_seed(1)
    with on_the_cpu():
        if arch == "transformer":
            model = ARCH_MODEL_REGISTRY[arch].build_model(model_config(arch, **{**SMALL, **options}), task)
        else:
            model = task.build_model(model_config(arch, **{**sizes_of(arch), **options}))
    trainer = steps.make_trainer(task, model, task.build_criterion(options_of_criterion(name, **more)), change)
    sample = sample_for(arch, model)
    return trainer, sample if device == "cpu" else pin_memory(sample)  # like the iterators of fairseq


def sample_for(arch, model, documents=DOCUMENTS, summaries=SUMMARIES):
    """A batch of three pairs, with labels for selectors; the first document has at least two sentences."""
    sample = make_sample(model, documents, summaries)
    if arch in FAMILIES["selectors"]:
        tokens = sample["net_input"]["src_tokens"]
        sample["labels"] = (tokens % 2).float().masked_fill(tokens < 4, -1.0)
        sample["net_input"].pop("prev_output_tokens")
    if arch == "pointer_extractor":
        sample["labels"] = torch.tensor([[1, 0], [0, -1], [0, -1]])
    return sample


def run_steps(trainer, sample, steps=1):
    """Losses of training steps and then of a validation step, in bits."""
    losses = []
    with metrics.aggregate("train"):
        for _ in range(steps):
            logged = trainer.train_step([sample])
            losses.append(float(logged["loss"]) if logged else float("nan"))
    with metrics.aggregate("valid"):
        losses.append(float(trainer.valid_step(sample)["loss"]))
    return losses


def waits_of_a_step(trainer, sample):
    """Counts of one training step after the first, in which nothing is logged beyond what fairseq keeps."""
    with metrics.aggregate("train"):
        trainer.train_step([sample])
        with counted() as waits:
            trainer.train_step([sample])
    return waits
