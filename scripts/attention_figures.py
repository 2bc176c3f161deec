#!/usr/bin/env python3
"""Measure the attention of a trained model: the centres and scopes of focus-attention, and the saliency gate, for each
layer and head.

    python scripts/attention_figures.py RUN --prepared DIR --json FILE

The same pairs are measured twice: with the initial weights and with the weights of the checkpoint. For focus-attention,
the script reports the centre mu and the scope sigma as fractions of the document length, for words in each tenth of
their document. For saliency-selection, it reports the share of the attention that passes the gate (1 for the normalised
form). Layers without these mechanisms are omitted.
"""

import argparse
import json
import logging
from collections import defaultdict
from pathlib import Path
from typing import Any, DefaultDict, Dict, List

import torch
from fairseq import checkpoint_utils, utils
from torch import Tensor

import fairseq_etads.plugin  # noqa: F401  # so that checkpoints load
from fairseq_etads.layers.attention_probe import AttentionRecord, record_attention

TENTHS = 10


class RunningMeans:
    """Sums and counts over all batches, from which means are computed."""

    def __init__(self) -> None:
        self._sums: DefaultDict[str, Any] = defaultdict(float)
        self._counts: DefaultDict[str, Any] = defaultdict(float)

    def add(self, name: str, values: Tensor, counts: Tensor) -> None:
        """Add the sums and counts of a batch, which have the same shape, to the totals for ``name``."""
        self._sums[name] = self._sums[name] + values
        self._counts[name] = self._counts[name] + counts

    def compute(self) -> Dict[str, List[Any]]:
        """Return the mean for each name."""
        return {
            name: convert_to_rounded_lists(values / self._counts[name].clamp(min=1))
            for name, values in self._sums.items()
        }


def convert_to_rounded_lists(values: Tensor) -> List[Any]:
    """Return the values as lists of numbers, rounded to four digits."""
    return torch.round(values.double(), decimals=4).tolist()


def add_focus_statistics(means: RunningMeans, found: AttentionRecord, real: Tensor) -> None:
    """Add mu / m and sigma / m (H, tenths) of each head for the queries in each tenth of their document.

    Args:
        real: mask (B, S), False at padding.
    """
    lengths = real.sum(dim=1)  # (B,)
    order = real.cumsum(dim=1) - 1
    tenth = (order * TENTHS).div(lengths[:, None], rounding_mode="floor").clamp(0, TENTHS - 1)
    inside = torch.nn.functional.one_hot(tenth, TENTHS) * real[..., None]  # (B, S, tenths)
    counts = inside.sum(dim=(0, 1)).float()
    for name, values in (("center", found.center), ("scope", found.scope)):
        assert values is not None
        parts = values / lengths[:, None, None]
        means.add(name, torch.einsum("bhs,bst->ht", parts.float(), inside.float()), counts.expand(values.shape[1], -1))


def add_gate_statistics(means: RunningMeans, found: AttentionRecord, real: Tensor, written: Tensor) -> None:
    """Add the share (H,) of the attention that passes the gate in each head. ``written`` (B, T) is False at padding."""
    assert found.gated is not None
    share = (found.gated.sum(-1) * written[:, None]).sum(dim=(0, 2))  # (H,)
    means.add("gate", share, written.sum().float().expand_as(share))


@torch.no_grad()
def measure_attention(model: Any, task: Any, subset: str, pairs: int) -> Dict[str, Dict[str, Any]]:
    """Measure the attention of each module on the first ``pairs`` pairs of a split."""
    dataset = task.dataset(subset)
    found: Dict[str, RunningMeans] = defaultdict(RunningMeans)
    model.eval()
    for start in range(0, min(pairs, len(dataset)), 20):
        sample = dataset.collater([dataset[number] for number in range(start, min(start + 20, pairs, len(dataset)))])
        with record_attention(model) as records:
            model(**sample["net_input"])
        real = sample["net_input"]["src_tokens"].ne(task.src_dict.pad())
        written = sample["target"].ne(task.tgt_dict.pad())
        for name, attention in records.items():
            if attention.center is not None:
                add_focus_statistics(found[name], attention, real)
            if attention.gated is not None:
                add_gate_statistics(found[name], attention, real, written)
    return {name: means.compute() for name, means in found.items()}


def main() -> None:
    """Measure the attention and write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="run folder created by scripts/train.sh")
    parser.add_argument("--prepared", type=Path, required=True, help="folder containing the prepared data of the run")
    parser.add_argument(
        "--checkpoint", choices=("best", "last"), default="best", help="checkpoint to measure (default: %(default)s)"
    )
    parser.add_argument("--subset", default="valid", help="split to measure (default: %(default)s)")
    parser.add_argument(
        "--pairs",
        type=int,
        default=200,
        help="number of pairs to measure, taken from the start of the split (default: %(default)s)",
    )
    parser.add_argument("--json", type=Path, required=True, help="JSON output file")
    args = parser.parse_args()
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    path = args.run / "checkpoints" / f"checkpoint_{args.checkpoint}.pt"
    overrides = {"data": str(args.prepared / "bin"), "init_from": None}
    models, cfg, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], overrides)
    task.load_dataset(args.subset)
    utils.set_torch_seed(cfg.common.seed)  # fairseq-train also sets the seed before it builds the model
    before = task.build_model(cfg.model)
    figures = {"before": measure_attention(before, task, args.subset, args.pairs)}
    figures["after"] = measure_attention(models[0], task, args.subset, args.pairs)
    args.json.write_text(json.dumps(figures) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
