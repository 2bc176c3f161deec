"""Measure the cost of copying.

The script measures training steps with and without a pointer, the time for collecting the vocabulary of a batch, and
the time for loading a long dictionary.

    python benchmarks/bench_pointer.py [--output benchmarks/results/pointer.json]
    python benchmarks/bench_pointer.py --sizes quickstart --runs 25 --output benchmarks/results/pointer_quickstart.json

A step consists of the forward and backward passes of etads with --criterion summarization_nll (label smoothing 0.1),
without the optimiser. One in twelve words of a document is unknown. The variants alternate in one process. The baseline
is the same model with --pointer none. For --pointer-continue, --pointer soft is a second baseline. There are two sizes:
"paper" stands for 10 documents of 400 tokens, summaries of 100 tokens and 50,000 known words, and "quickstart" stands
for 66 documents of 60 tokens, summaries of 8 tokens and 1,000 known words.
"""

import argparse
import json
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, Dict, NamedTuple

import torch
from benchmark_records import compare_with_reference_system, write_record
from fairseq.models import ARCH_MODEL_REGISTRY

from fairseq_etads.jobs.architectures import make_architecture_config, make_numbered_dictionary
from fairseq_etads.training.losses import SummarizationNLL
from fairseq_etads.training.options import SummarizationConfig
from fairseq_etads.training.task import SummarizationTask
from fairseq_etads.vocabulary.dictionary import SummarizationDictionary
from fairseq_etads.vocabulary.output import BatchVocab

VARIANTS = {
    "none": ({"pointer": "none"}, 0.0),
    "soft": ({"pointer": "soft"}, 0.0),
    "soft, continuing": ({"pointer": "soft", "pointer_continue": True}, 0.0),
    "soft, coverage loss": ({"pointer": "soft"}, 1.0),
    "switch": ({"pointer": "switch"}, 0.0),
}
"""Mapping from variants to model options and the value of --coverage-loss."""


class BenchmarkSize(NamedTuple):
    """Batch size, tokens per document and per summary, vocabulary size, and model options."""

    documents: int
    source: int
    target: int
    vocabulary: int
    model: Dict[str, Any]


_SMALL = {
    f"{side}_{name}": value
    for side in ("encoder", "decoder")
    for name, value in {"layers": 2, "embed_dim": 128, "ffn_embed_dim": 512, "attention_heads": 4}.items()
}
SIZES = {"paper": BenchmarkSize(10, 400, 100, 50000, {}), "quickstart": BenchmarkSize(66, 60, 8, 1000, _SMALL)}


def make_task(known, tail):
    dictionary = make_numbered_dictionary(known)
    for number in range(tail):
        dictionary.add_symbol(f"rare{number}", n=0)
    return SummarizationTask(SummarizationConfig(), dictionary, dictionary)


def make_sample(size, tail):
    generator = torch.Generator().manual_seed(0)
    shape = size.documents, size.source
    source = torch.randint(4, size.vocabulary, shape, generator=generator)
    rare = torch.randint(size.vocabulary, size.vocabulary + tail, shape, generator=generator)
    source = torch.where(torch.rand(shape, generator=generator) < 1 / 12, rare, source)
    source[-1, size.source * 7 // 8 :] = 1  # real batches also contain padding
    target = torch.randint(4, size.vocabulary, (size.documents, size.target), generator=generator)
    copied = target[:, ::10].shape[1]
    target[:, ::10] = source[:, 10 : 10 + copied]  # some words must be copied
    previous = target.roll(1, 1)
    net_input = {"src_tokens": source, "src_lengths": source.ne(1).sum(1), "prev_output_tokens": previous}
    return {"id": torch.arange(size.documents), "net_input": net_input, "target": target, "ntokens": target.numel()}


def time_training_steps(size, runs):
    """Return a dictionary from each variant to the seconds of each step. The first step is not measured."""
    task = make_task(size.vocabulary, 10000)
    sample = make_sample(size, 10000)
    systems = {}
    for name, (options, coverage) in VARIANTS.items():
        cfg = make_architecture_config("etads", **options, **size.model)
        model = ARCH_MODEL_REGISTRY["etads"].build_model(cfg, task).train()
        systems[name] = model, SummarizationNLL(task, False, 0.1, coverage, 0, 0, 1.0)
    seconds = {name: [] for name in systems}
    for run in range(runs + 1):
        for name, (model, criterion) in systems.items():
            model.zero_grad()
            started = time.perf_counter()
            criterion(model, sample)[0].backward()
            if run:
                seconds[name].append(time.perf_counter() - started)
    return seconds


def compute_step_time_ratios(size, seconds):
    """Return the median seconds per step, and the ratios of these medians to both baselines."""
    steps = {name: statistics.median(values) for name, values in seconds.items()}
    step = f"etads, {size.documents} documents x {size.source} tokens, summaries x {size.target} tokens"
    return {
        "step": f"{step}, {size.vocabulary:,} known words, forward and backward, float32",
        "runs": len(seconds["none"]),
        "median seconds of a step": {name: round(value, 4) for name, value in steps.items()},
        "ratio to --pointer none": {name: round(value / steps["none"], 3) for name, value in steps.items()},
        "compared with --pointer none": compare_with_reference_system(seconds, "none"),
        "ratio of --pointer-continue to --pointer soft": round(steps["soft, continuing"] / steps["soft"], 3),
        "quartiles of this ratio, run by run": [
            round(value, 3)
            for value in statistics.quantiles(
                [ours / peer for ours, peer in zip(seconds["soft, continuing"], seconds["soft"])], n=4
            )
        ],
    }


def time_batch_vocab():
    """Measure the median time in seconds for collecting the vocabulary of a batch."""
    source = make_sample(SIZES["paper"], 10000)["net_input"]["src_tokens"]
    seconds = []
    for _ in range(50):
        started = time.perf_counter()
        BatchVocab(source, SIZES["paper"].vocabulary, pad=1, bos=0, eos=2, unk=3)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def time_dictionary():
    """Measure the median time in seconds for loading a dictionary.

    The dictionary contains 50,000 known words and a copy tail, 800,000 words in total.
    """
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "dict.txt"
        lines = (f"someword{number} {max(0, SIZES['paper'].vocabulary - number)}\n" for number in range(800000))
        path.write_text("".join(lines))
        seconds = []
        for _ in range(5):
            started = time.perf_counter()
            SummarizationDictionary.load(str(path))
            seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "pointer.json")
    parser.add_argument("--runs", type=int, default=15, help="number of timed steps per variant (default: %(default)s)")
    parser.add_argument(
        "--sizes", nargs="+", choices=SIZES, default=list(SIZES), help="model sizes to measure (default: both)"
    )
    args = parser.parse_args()
    if args.runs < 2:
        parser.error(f"--runs {args.runs}: quartiles need 2 or more")
    warnings.simplefilter("ignore")
    report = {}
    for name in args.sizes:
        report[name] = compute_step_time_ratios(SIZES[name], time_training_steps(SIZES[name], args.runs))
    report["median seconds of BatchVocab"] = round(time_batch_vocab(), 5)
    report["median seconds of loading 800,000 words"] = round(time_dictionary(), 2)
    print(json.dumps(report, indent=2, ensure_ascii=False))
    write_record(args.output, report, args)


if __name__ == "__main__":
    main()
