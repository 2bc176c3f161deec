"""One training step at the paper's sizes: fairseq's own transformer, and the ETADS systems.

    python benchmarks/bench_training_step.py [--output benchmarks/results/training_step.json]

Forward, cross-entropy and backward, without the optimiser, of 10 documents of 400 tokens with summaries of 100 tokens
and 50,000 words: the systems take turns in one process. fairseq's transformer has the sizes and the shared embeddings
of etads_basic.
"""

import argparse
import json
import statistics
import time
import warnings
from argparse import Namespace
from pathlib import Path

import torch
import torch.nn.functional as F
from bench_focus_attention import machine
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

from fairseq_etads.commands.architectures import numbered_dictionary
from fairseq_etads.options import SummarizationConfig
from fairseq_etads.task import SummarizationTask

SYSTEMS = ("transformer", "etads_basic", "etads_focus", "etads_saliency", "etads")
SIZES = {
    "encoder_layers": 4,
    "decoder_layers": 4,
    "encoder_learned_pos": True,
    "decoder_learned_pos": True,
    "share_all_embeddings": True,
    "dropout": 0.2,
    "max_source_positions": 401,
    "max_target_positions": 101,
}


def build(system, vocabulary):
    dictionary = numbered_dictionary(vocabulary)
    task = SummarizationTask(SummarizationConfig(), dictionary, dictionary)
    args = Namespace(arch=system, **(SIZES if system == "transformer" else {}))
    ARCH_CONFIG_REGISTRY[system](args)
    cfg = args if system == "transformer" else convert_namespace_to_omegaconf(args).model
    return ARCH_MODEL_REGISTRY[system].build_model(cfg, task).train()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "training_step.json")
    parser.add_argument("--runs", type=int, default=7, help="counted steps of each system (default: %(default)s)")
    parser.add_argument("--vocabulary", type=int, default=50000)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    models = {system: build(system, args.vocabulary) for system in SYSTEMS}
    generator = torch.Generator().manual_seed(0)
    # one shorter document, so that there is padding to mask as in real batches
    source = torch.randint(4, args.vocabulary, (10, 400), generator=generator)
    source[-1, 350:] = 1
    target = torch.randint(4, args.vocabulary, (10, 100), generator=generator)
    lengths = source.ne(1).sum(1)
    seconds = {system: [] for system in SYSTEMS}
    for run in range(args.runs + 1):
        for system, model in models.items():
            model.zero_grad()
            started = time.perf_counter()
            out, _ = model(source, lengths, target)
            F.cross_entropy(out.flatten(0, 1), target.flatten()).backward()
            if run:
                seconds[system].append(time.perf_counter() - started)
    medians = {system: statistics.median(values) for system, values in seconds.items()}
    report = {
        "machine": machine(),
        "step": "10 documents x 400 tokens, 10 summaries x 100 tokens, forward and backward, float32",
        "vocabulary": args.vocabulary,
        "median seconds": {system: round(value, 3) for system, value in medians.items()},
        "ratio to transformer": {s: round(v / medians["transformer"], 3) for s, v in medians.items()},
    }
    print(json.dumps(report, indent=2))
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
