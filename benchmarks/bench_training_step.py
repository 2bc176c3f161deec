"""Measure the time and memory of a training step with the sizes in the paper, for fairseq's transformer and ETADS.

    python benchmarks/bench_training_step.py [--output benchmarks/results/training_step.json]
    python benchmarks/bench_training_step.py --tiny --lengths 400 --runs 3 --output /tmp/try.json    (a minute)

A step is the work of fairseq-train for one batch: fairseq's ``Trainer`` with forward pass, loss, backward pass,
clipping of the gradient norm, Adam and logging. fairseq's transformer is trained as in fairseq-train, with the task
``translation`` and the criterion ``cross_entropy``. It has the sizes, the dropout and the shared embeddings of
etads_basic. Each system runs in a separate process. When systems shared a process, fairseq's step with one document of
400 tokens took 1.77 s instead of 1.33 s, because the memory had been fragmented by another system. Times are CPU
seconds, because other processes affect them less than wall-clock time. The systems alternate. The report contains the
medians over steps, and their ratios to fairseq's medians. Peak memory is the largest resident set of the process.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
import warnings
from argparse import Namespace
from pathlib import Path

import torch
from benchmark_records import write_record
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerModelBase
from fairseq.tasks import TASK_REGISTRY
from fairseq.trainer import Trainer
from peer_processes import ScriptProcess

from fairseq_etads.jobs.architectures import make_numbered_dictionary
from fairseq_etads.training.options import SummarizationConfig
from fairseq_etads.training.task import SummarizationTask

SYSTEMS = ("transformer", "etads_basic", "etads_focus", "etads_saliency", "etads", "etads --pointer soft")
LENGTHS = (400, 1024, 4096)
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
OF_FAIRSEQ = ["--encoder-learned-pos", "--decoder-learned-pos", "--share-all-embeddings"]
COMMON = [
    *("--optimizer", "adam", "--adam-betas", "(0.9, 0.998)", "--lr", "1e-5", "--clip-norm", "2"),
    *("--dropout", "0.2", "--max-tokens", "4096", "--cpu", "--max-update", "1000"),
]
OF_TRANSFORMERS = ["--encoder-layers", "4", "--decoder-layers", "4"]  # other families use the sizes in their papers
TINY = [
    *("--encoder-layers", "2", "--decoder-layers", "2", "--encoder-embed-dim", "128", "--encoder-ffn-embed-dim", "512"),
    *("--encoder-attention-heads", "4", "--decoder-attention-heads", "4"),
]


def build_model(system, vocabulary):
    dictionary = make_numbered_dictionary(vocabulary)
    task = SummarizationTask(SummarizationConfig(), dictionary, dictionary)
    args = Namespace(arch=system, **(SIZES if system == "transformer" else {}))
    ARCH_CONFIG_REGISTRY[system](args)
    cfg = args if system == "transformer" else convert_namespace_to_omegaconf(args).model
    return ARCH_MODEL_REGISTRY[system].build_model(cfg, task).train()


def create_trainer(system, length, summary, args):
    """Create fairseq's Trainer for one system in the same way as fairseq-train."""
    ours = system != "transformer"
    arch, *more = system.split(" ")
    command = ["data", "--arch", arch, "--task", "summarization" if ours else "translation", *COMMON]
    command += ["--criterion", "summarization_nll" if ours else "cross_entropy"]
    if issubclass(ARCH_MODEL_REGISTRY[arch], TransformerModelBase):
        command += [*OF_TRANSFORMERS, *(TINY if args.tiny else [])]
        command += ["--max-source-positions", str(length + 1), "--max-target-positions", str(summary + 1)]
    command += args.option
    command += ["--truncate-source", str(length), "--truncate-target", str(summary)] if ours else OF_FAIRSEQ
    command += more  # these options come last, so that a system can override the optimiser
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), command))
    torch.manual_seed(1)
    dictionary = make_numbered_dictionary(args.vocabulary)
    task = TASK_REGISTRY["summarization" if ours else "translation"](cfg.task, dictionary, dictionary)
    made = Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))
    made.lr_step_begin_epoch(1)
    return made


def create_batch(documents, length, summary, vocabulary):
    """Create a batch in the format of a dataset.

    The last document is shorter than the others, so that the batch contains padding.
    """
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(4, vocabulary, (documents, length), generator=generator)
    source[:, -1] = 2
    if documents > 1:
        source[-1] = torch.cat([torch.full((length // 8,), 1), source[-1, length // 8 :]])  # fairseq pads on the left
    target = torch.randint(4, vocabulary, (documents, summary), generator=generator)
    target[:, -1] = 2
    return {
        "id": torch.arange(documents),
        "nsentences": documents,
        "ntokens": target.numel(),
        "net_input": {
            "src_tokens": source,
            "src_lengths": source.ne(1).sum(1),
            "prev_output_tokens": target.roll(1, dims=1),
        },
        "target": target,
    }


def choose_document_count(length, args):
    return args.documents or max(1, args.tokens // length)


def read_peak_memory():
    """Return the peak resident set size of this process in KiB. (getrusage would include the parent process.)"""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def train_on_request(system, length, args):
    """Train one system step by step. Each line of standard input requests one step.

    The response contains the CPU seconds of the step, the peak memory so far and the peak memory before the first step,
    both in MiB.
    """
    training = create_trainer(system, length, args.summary, args)
    before = read_peak_memory() / 1024
    sample = create_batch(choose_document_count(length, args), length, args.summary, args.vocabulary)
    for _ in sys.stdin:
        started = time.process_time()
        training.train_step([sample])
        seconds = time.process_time() - started
        print(json.dumps({"seconds": seconds, "peak": read_peak_memory() / 1024, "before": before}), flush=True)


def divide_systems_into_groups(systems, at_once):
    """Divide the systems into groups of at most ``at_once`` systems. The first system is part of each group."""
    first, others = systems[0], systems[1:]
    return [[first, *others[i : i + at_once - 1]] for i in range(0, len(others), at_once - 1)] or [[first]]


def measure_training(length, args, arguments):
    report = {"documents": choose_document_count(length, args), "systems": {}}
    for group in divide_systems_into_groups(args.systems, args.at_once):
        with contextlib.ExitStack() as stack:
            peers = [
                stack.enter_context(
                    ScriptProcess(
                        __file__, *arguments, "--train", system, "--lengths", str(length), stderr=subprocess.DEVNULL
                    )
                )
                for system in group
            ]
            # The first round is a warm-up.
            turns = [[peer.ask("step") for peer in peers] for _ in range(args.runs + 1)][1:]
        for number, system in enumerate(group):
            if system in report["systems"]:
                continue
            steps = [turn[number] for turn in turns]
            ratios = [turn[number]["seconds"] / turn[0]["seconds"] for turn in turns]
            median, first = (statistics.median(turn[place]["seconds"] for turn in turns) for place in (number, 0))
            row = report["systems"][system] = {
                "CPU seconds": round(median, 3),
                "time ratio": round(median / first, 3),
                "range of time ratios": [round(min(ratios), 3), round(max(ratios), 3)],
                "peak MiB": round(steps[-1]["peak"]),
                "before the first step": round(steps[-1]["before"]),
                "memory ratio": round(steps[-1]["peak"] / turns[-1][0]["peak"], 3),
            }
            print(f"{length} tokens, {system}: {row}", flush=True)
    return report


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "training_step.json")
    parser.add_argument("--lengths", type=lambda text: [int(n) for n in text.split(",")], default=list(LENGTHS))
    parser.add_argument("--systems", type=lambda text: text.split(","), default=list(SYSTEMS))
    parser.add_argument(
        "--tokens", type=int, default=4096, help="number of source tokens per batch (default: %(default)s)"
    )
    parser.add_argument(
        "--documents", type=int, help="number of documents per batch (default: the largest number allowed by --tokens)"
    )
    parser.add_argument("--summary", type=int, default=100, help="number of words per summary (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=5, help="number of timed steps per system (default: %(default)s)")
    parser.add_argument(
        "--at-once",
        type=int,
        default=3,
        help="number of systems to alternate between while measuring, including the first system (default: 3)",
    )
    parser.add_argument("--vocabulary", type=int, default=50000)
    parser.add_argument("--threads", type=int, default=1, help="number of threads used by torch (default: 1)")
    parser.add_argument(
        "--tiny", action="store_true", help="use the model sizes of the quickstart (2+2 layers, width 128)"
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        help="additional argument for every fairseq-train command; may be repeated",
    )
    parser.add_argument("--train", metavar="SYSTEM", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.at_once < 2:
        parser.error(f"--at-once {args.at_once}: choose 2 or more, because every system alternates with the first")
    warnings.simplefilter("ignore")
    torch.set_num_threads(args.threads)
    if args.train:
        train_on_request(args.train, args.lengths[0], args)
        return
    size = f"{args.documents} documents" if args.documents else f"{args.tokens} source tokens"
    report = {
        "step": f"fairseq's Trainer, {size} a batch, summaries of {args.summary} words, float32",
        "vocabulary": args.vocabulary,
        "lengths": {},
    }
    args.output.parent.mkdir(parents=True, exist_ok=True)
    for length in args.lengths:
        report["lengths"][str(length)] = measure_training(length, args, arguments)
        # The report is saved after each length, because measuring long documents takes a long time.
        write_record(args.output, report, args)


if __name__ == "__main__":
    main()
