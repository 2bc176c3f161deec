"""Measure the loss scale over many steps of --fp16 on a CPU, with fairseq's trainer and FP16Optimizer.

    python tests/loss_scale.py --steps 300 --out benchmarks/results/loss_scale.json

A small model of each architecture learns from random batches with Adam. It begins with the scale 128, fairseq's
default. An update with a gradient that is not finite halves the scale and is skipped; then the same gradient in float64
tells whether it is too large for float16 or a fault of the arithmetic. fairseq doubles the scale only after 16,384
updates without an overflow, so no skipped update here is a trial of a larger scale.
"""

import argparse
import copy
import json
import math
import random
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "gpu")]

import steps  # noqa: E402
import torch  # noqa: E402
from device_steps import TAGGERS, distinct_presets, make_trainer, sample_for  # noqa: E402
from fairseq.logging import metrics  # noqa: E402

FIRST_SCALE = 128
LARGEST = torch.finfo(torch.float16).max
BATCHES = 20
CRITERIONS = {
    "word_tagger": "selection_nll",
    "sentence_extractor": "selection_nll",
    "pointer_extractor": "extractor_nll",
}


def random_batches(arch, model, seed=1):
    """Batches of three pairs; documents have up to 60 words, and summaries repeat some of them."""
    draw, words = random.Random(seed), [number for number in range(4, 53) if number != steps.MARK]
    batches = []
    for _ in range(BATCHES):
        documents = [draw.choices(words, k=draw.randint(4, 60)) for _ in range(3)]
        documents[0].insert(2, steps.MARK)  # its labels name two sentences
        summaries = [draw.sample(document, min(len(document), draw.randint(1, 10))) for document in documents]
        batches.append(sample_for(arch, model, documents, summaries))
    return batches


def overflow(trainer, sample, scale):
    """Parameters with a gradient that is not finite in float16, after a skipped update, which changed no parameter.

    Returns:
        parameter -> its largest gradient with this scale in float64, as a share of float16's largest number.
    """
    gradients = []
    for dtype in (torch.float16, torch.float64):
        model = copy.deepcopy(trainer.get_model()).to(dtype).train()
        model.zero_grad(set_to_none=True)
        loss, _, _ = trainer.get_criterion()(model, sample)
        (loss * scale).backward()
        gradients.append({name: x.grad for name, x in model.named_parameters() if x.grad is not None})
    narrow, wide = gradients
    return {
        name: round(float(wide[name].abs().max()) / LARGEST, 3)
        for name, gradient in narrow.items()
        if not gradient.isfinite().all()
    }


def scales(arch, count, first=FIRST_SCALE, seed=1):
    """Train a small model for ``count`` updates.

    Args:
        first: the scale at the beginning.
        seed: seed of the batches.

    Returns:
        the scale after each update, the mean loss, in bits, of the first and of the last ten updates, and number and
        :func:`overflow` of each skipped update.
    """
    criterion = (CRITERIONS[arch], {}) if arch in TAGGERS else None
    trainer, _ = make_trainer(arch, "cpu", "fp16", "adam", criterion)
    trainer.optimizer.scaler.loss_scale = first
    batches = random_batches(arch, trainer.get_model(), seed)
    found, losses, skipped = [], [], {}
    with metrics.aggregate("train", new_root=True):
        for update in range(count):
            before, sample = trainer.optimizer.scaler.loss_scale, batches[update % len(batches)]
            trainer.train_step([sample])
            meters = metrics.get_active_aggregators()[-1]
            losses.append(float(meters["loss"].val) if "loss" in meters else math.nan)
            found.append(trainer.optimizer.scaler.loss_scale)
            if found[-1] < before:
                skipped[update] = overflow(trainer, sample, before)
    return found, [sum(part) / len(part) for part in (losses[:10], losses[-10:])], skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=300, help="number of updates for each model")
    parser.add_argument("--models", nargs="+", help="architectures (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the batches")
    parser.add_argument(
        "--out", type=Path, required=True, help="JSON file for the figures; other figures in it are kept"
    )
    options = parser.parse_args()
    record = {"torch": torch.__version__, "device": "cpu", "steps": options.steps, "first_scale": FIRST_SCALE}
    record["models"] = json.loads(options.out.read_text())["models"] if options.out.exists() else {}
    for arch in options.models or [*distinct_presets(), *TAGGERS]:
        found, losses, skipped = scales(arch, options.steps, seed=options.seed)
        record["models"][arch] = {
            "least_scale": min(found),
            "last_scale": found[-1],
            "skipped": skipped,
            "bits": [round(loss, 3) for loss in losses],
        }
        print(arch, record["models"][arch], flush=True)
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
