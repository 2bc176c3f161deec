"""Measure how much time the large-vocabulary trick saves in a training step, compared with the full softmax.

    python benchmarks/bench_recurrent.py [--output benchmarks/results/recurrent.json]

A training step consists of the forward and backward passes with --criterion summarization_nll, gradient clipping, and
the optimiser step. Batches contain 50 documents of up to 35 words with summaries of up to 10 words, which are the
lengths in Gigaword. Words are drawn according to Zipf's law. The variants alternate in one process, and each step uses
a different batch:

- words_lvt5k with 20,000 and with 400,000 words, and --optimizer lazy_adadelta;
- the same model with 400,000 words and the full softmax (gru_seq2seq), and fairseq's --optimizer adadelta;
- words_lvt5k with 400,000 words and fairseq's --optimizer adadelta, that is, the trick without a lazy optimiser.
"""

import argparse
import json
import statistics
import time
import warnings
from argparse import Namespace
from pathlib import Path

import torch
from benchmark_records import compare_with_reference_system, write_record
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.optim import OPTIMIZER_REGISTRY

from fairseq_etads.jobs.architectures import make_architecture_config, make_numbered_dictionary
from fairseq_etads.training.losses import SummarizationNLL
from fairseq_etads.training.options import SummarizationConfig
from fairseq_etads.training.task import SummarizationTask

OPTIMIZER = Namespace(lr=[1.0], adadelta_rho=0.95, adadelta_eps=1e-6, weight_decay=0.0)


def make_sample(vocabulary, generator):
    """Create a batch. Lower ids belong to more frequent words, and half of the words in a summary are copied."""

    def words(*shape):
        share = torch.rand(*shape, generator=generator)
        # The probability of a word is proportional to 1/rank.
        return (4 + vocabulary**share).long().clamp(max=vocabulary - 1)

    source, target = words(50, 35), words(50, 10)
    target[:, ::2] = source[:, :5]
    source[25:, 30:] = 1
    previous = target.roll(1, 1)
    previous[:, 0] = target[:, -1] = 2
    net_input = {"src_tokens": source, "src_lengths": source.ne(1).sum(1), "prev_output_tokens": previous}
    return {"id": torch.arange(50), "net_input": net_input, "target": target, "ntokens": target.numel()}


class ModelWithOptimizer:
    """A model and its optimiser."""

    def __init__(self, arch, vocabulary, optimizer):
        dictionary = make_numbered_dictionary(vocabulary)
        task = SummarizationTask(SummarizationConfig(), dictionary, dictionary)
        cfg = make_architecture_config(arch)
        self.model = ARCH_MODEL_REGISTRY[arch].build_model(cfg, task).train()
        self.criterion = SummarizationNLL(task, False, 0.0, 0.0, 0, 0, 1.0)
        options = Namespace(**vars(OPTIMIZER), arch=arch)
        self.optimizer = OPTIMIZER_REGISTRY[optimizer](options, list(self.model.parameters()))
        self.vocabulary = vocabulary
        self.generator = torch.Generator().manual_seed(0)

    def time_training_step(self):
        """Run one step and return its time in seconds."""
        sample = make_sample(self.vocabulary, self.generator)
        started = time.perf_counter()
        self.optimizer.zero_grad()
        loss, size, _ = self.criterion(self.model, sample)
        self.optimizer.backward(loss)
        self.optimizer.multiply_grads(1 / size)
        self.optimizer.clip_grad_norm(1.0)
        self.optimizer.step()
        return time.perf_counter() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "recurrent.json")
    parser.add_argument("--runs", type=int, default=7, help="number of timed steps per variant (default: %(default)s)")
    parser.add_argument(
        "--small", type=int, default=20000, help="size of the smaller dictionary (default: %(default)s)"
    )
    parser.add_argument(
        "--large", type=int, default=400000, help="size of the larger dictionary (default: %(default)s)"
    )
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    systems = {
        f"words_lvt5k, {args.small:,} words": ModelWithOptimizer("words_lvt5k", args.small, "lazy_adadelta"),
        f"words_lvt5k, {args.large:,} words": ModelWithOptimizer("words_lvt5k", args.large, "lazy_adadelta"),
        f"full softmax, {args.large:,} words": ModelWithOptimizer("gru_seq2seq", args.large, "adadelta"),
        f"words_lvt5k, {args.large:,} words, plain optimiser": ModelWithOptimizer(
            "words_lvt5k", args.large, "adadelta"
        ),
    }
    seconds = {name: [] for name in systems}
    for run in range(args.runs + 1):
        for name, system in systems.items():
            taken = system.time_training_step()
            if run:  # the first step also creates the optimiser state
                seconds[name].append(taken)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    small, large, full, plain = medians.values()
    names = list(systems)
    report = {
        "step": "50 documents x 35 words, 50 summaries x 10 words, with optimiser, float32",
        "runs": args.runs,
        "median seconds of a step": {name: round(value, 3) for name, value in medians.items()},
        "long dictionary to short": round(large / small, 2),
        "full softmax to words_lvt5k": round(full / large, 1),
        "plain optimiser to lazy": round(plain / large, 1),
        "compared with the long dictionary, lazily": compare_with_reference_system(seconds, names[1]),
    }
    print(json.dumps(report, indent=2))
    write_record(args.output, report, args)


if __name__ == "__main__":
    main()
