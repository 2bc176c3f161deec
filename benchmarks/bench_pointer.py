"""What copying costs: a training step with and without a pointer, the vocabulary of a batch, a long dictionary.

    python benchmarks/bench_pointer.py [--output benchmarks/results/pointer.json]

A step is the forward and backward pass of etads with --criterion summarization_nll (label smoothing 0.1), without the
optimiser, on 10 documents of 400 tokens, one in twelve of them unknown, with summaries of 100 tokens and 50,000 known
words. The variants take turns in one process; the peer is the same model with --pointer none.
"""

import argparse
import json
import statistics
import tempfile
import time
import warnings
from argparse import Namespace
from pathlib import Path

import torch
from bench_focus_attention import machine
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY

from fairseq_etads.commands.architectures import numbered_dictionary
from fairseq_etads.criterions import SummarizationNLL
from fairseq_etads.options import SummarizationConfig
from fairseq_etads.task import SummarizationTask
from fairseq_etads.vocabulary.batch_vocab import BatchVocab
from fairseq_etads.vocabulary.dictionary import SummarizationDictionary

VARIANTS = {
    "none": ("none", 0.0),
    "soft": ("soft", 0.0),
    "soft, coverage loss": ("soft", 1.0),
    "switch": ("switch", 0.0),
}


def make_task(known, tail):
    dictionary = numbered_dictionary(known)
    for number in range(tail):
        dictionary.add_symbol(f"rare{number}", n=0)
    return SummarizationTask(SummarizationConfig(), dictionary, dictionary)


def make_sample(known, tail):
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(4, known, (10, 400), generator=generator)
    rare = torch.randint(known, known + tail, (10, 400), generator=generator)
    source = torch.where(torch.rand(10, 400, generator=generator) < 1 / 12, rare, source)
    source[-1, 350:] = 1  # padding, as in real batches
    target = torch.randint(4, known, (10, 100), generator=generator)
    target[:, ::10] = source[:, 10:20]  # some of it is copied
    previous = target.roll(1, 1)
    net_input = {"src_tokens": source, "src_lengths": source.ne(1).sum(1), "prev_output_tokens": previous}
    return {"id": torch.arange(10), "net_input": net_input, "target": target, "ntokens": target.numel()}


def time_steps(args):
    """Median seconds of a step of each variant."""
    task = make_task(args.vocabulary, 10000)
    sample = make_sample(args.vocabulary, 10000)
    systems = {}
    for name, (pointer, coverage) in VARIANTS.items():
        cfg = convert_namespace_to_omegaconf(Namespace(arch="etads", pointer=pointer)).model
        model = ARCH_MODEL_REGISTRY["etads"].build_model(cfg, task).train()
        systems[name] = model, SummarizationNLL(task, False, 0.1, coverage, 0, 0, 1.0)
    seconds = {name: [] for name in systems}
    for run in range(args.runs + 1):
        for name, (model, criterion) in systems.items():
            model.zero_grad()
            started = time.perf_counter()
            criterion(model, sample)[0].backward()
            if run:
                seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in seconds.items()}


def time_batch_vocab(args):
    """Median seconds of making the vocabulary of the batch."""
    source = make_sample(args.vocabulary, 10000)["net_input"]["src_tokens"]
    seconds = []
    for _ in range(50):
        started = time.perf_counter()
        BatchVocab(source, args.vocabulary, pad=1, bos=0, eos=2, unk=3)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def time_dictionary(args):
    """Median seconds of loading a dictionary of ``--vocabulary`` known words and a tail up to 800,000."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "dict.txt"
        lines = (f"someword{number} {max(0, args.vocabulary - number)}\n" for number in range(800000))
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
    parser.add_argument("--runs", type=int, default=7, help="counted steps of each variant (default: %(default)s)")
    parser.add_argument("--vocabulary", type=int, default=50000, help="known words (default: %(default)s)")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    steps = time_steps(args)
    report = {
        "machine": machine(),
        "step": "etads, 10 documents x 400 tokens, 10 summaries x 100 tokens, forward and backward, float32",
        "vocabulary": args.vocabulary,
        "runs": args.runs,
        "median seconds of a step": {name: round(value, 3) for name, value in steps.items()},
        "ratio to --pointer none": {name: round(value / steps["none"], 3) for name, value in steps.items()},
        "median seconds of BatchVocab": round(time_batch_vocab(args), 5),
        "median seconds of loading 800,000 words": round(time_dictionary(args), 2),
    }
    print(json.dumps(report, indent=2, ensure_ascii=False))
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
