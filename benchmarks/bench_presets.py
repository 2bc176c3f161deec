"""Measure the speed of the presets as in Tian et al. 2020, Table 2.

The table contains the hours per training epoch on Gigaword and the number of summaries per second.

    python benchmarks/bench_presets.py [--output benchmarks/results/presets.json] [--archs ras_elman,abs]
    python benchmarks/bench_presets.py --table [--docs docs/experiments.md]        print the table of earlier results

Batches contain 64 articles of 31 words with titles of 8 words, which are the average lengths in Gigaword. The
dictionary, which is shared by articles and titles, contains 68,885 words, as for titles in Rush et al. and Nallapati et
al. Each preset uses its own sizes. BART's presets are omitted, because they are not trained on titles. An epoch
consists of 3,803,957 pairs. A step is the work of fairseq-train for one batch: fairseq's ``Trainer`` with the forward
pass, loss, backward pass, clipping, Adam and logging. If a preset includes the large-vocabulary trick, the trick is
used for both columns. Summaries contain exactly 8 words and are generated with a beam of 5, 64 documents at a time.
Weights are random, because they do not affect the time of a step. For systems with further training methods (entailment
pairs, rewards), only likelihood training is measured.

Times are CPU seconds of this process on one thread. Other processes affect them less than wall-clock time. They are
medians over steps, and the steps of --together presets alternate.
"""

import argparse
import json
import statistics
import time
import warnings
from pathlib import Path

import generate_table
import torch
from bench_training_step import create_batch
from benchmark_records import write_record
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks import TASK_REGISTRY
from fairseq.trainer import Trainer

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.jobs.architectures import FACTOR_VALUES, PRESETS, make_numbered_dictionary
from fairseq_etads.text.words import SENTENCE_MARK

PAIRS = 3_803_957
BEGIN = "<!-- benchmarks/bench_presets.py --table -->\n\n"
"""Comment that precedes the table in docs/experiments.md."""
COMMAND = [
    *("data", "--task", "summarization", "--criterion", "summarization_nll", "--optimizer", "adam", "--lr", "1e-5"),
    *("--clip-norm", "2", "--cpu", "--max-update", "1000"),
]


class PresetSystem:
    """Model of a preset, with fairseq's Trainer and this project's search."""

    def __init__(self, arch, args):
        dictionary = make_numbered_dictionary(args.vocabulary - 1)
        dictionary.add_symbol(SENTENCE_MARK)
        command = [*COMMAND, "--arch", arch]
        cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), command))
        torch.manual_seed(1)
        task = TASK_REGISTRY["summarization"](cfg.task, dictionary, dictionary)
        task.factor_dictionaries = dict.fromkeys(("pos", "ner", "tf", "idf"), make_numbered_dictionary(FACTOR_VALUES))
        self.trainer = Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))
        self.trainer.lr_step_begin_epoch(1)
        self.model = self.trainer.get_model()
        self.sample = create_batch(args.documents, args.article, args.title, args.vocabulary - 1)
        if getattr(self.model, "factors", ()):
            shape = (*self.sample["net_input"]["src_tokens"].shape, len(self.model.factors))
            self.sample["net_input"]["factors"] = torch.full(shape, 5)
        lengths = {"min_len": args.title, "max_len_b": args.title}
        self.generator = SummaryGenerator([self.model], dictionary, args.beam, **lengths)

    def train(self):
        self.trainer.train_step([self.sample])

    def summarise(self):
        self.model.eval()
        self.generator.generate([self.model], {"net_input": self.sample["net_input"]})


def time_presets(archs, args):
    """For each preset, measure the median CPU seconds of a training step and of a search for one batch.

    The presets alternate.
    """
    systems = {arch: PresetSystem(arch, args) for arch in archs}
    found = {arch: ([], []) for arch in archs}
    for run in range(args.runs + 1):
        for arch, system in systems.items():
            for action, times in zip((system.train, system.summarise), found[arch]):
                started = time.process_time()
                action()
                if run:  # the first run also creates the optimiser state and the packed weights
                    times.append(time.process_time() - started)
    return {arch: [statistics.median(times) for times in both] for arch, both in found.items()}


def measure_presets(args):
    """Measure all presets and return the report as JSON types.

    Rows for other presets that --output already contains are kept.
    """
    rows = json.loads(args.output.read_text())["presets"] if args.output.exists() else {}
    for start in range(0, len(args.archs), args.together):
        for arch, (step, search) in time_presets(args.archs[start : start + args.together], args).items():
            rows[arch] = {
                "seconds of a step": round(step, 3),
                "hours of an epoch": round(step * PAIRS / args.documents / 3600, 1),
                "summaries a second": round(args.documents / search, 1),
            }
            print(f"{arch}: {rows[arch]}", flush=True)
    return {
        "batch": f"{args.documents} articles of {args.article} words, titles of {args.title}, float32",
        "beam": args.beam,
        "vocabulary": args.vocabulary,
        "runs": args.runs,
        "presets": rows,
    }


def format_table(report):
    """Format a Markdown table. The first row is the preset with the fastest training."""
    lines = ["| preset | hours of an epoch | summaries a second |", "|---|---|---|"]
    for arch, row in sorted(report["presets"].items(), key=lambda item: item[1]["hours of an epoch"]):
        lines.append(f"| `{arch}` | {row['hours of an epoch']:,.1f} | {row['summaries a second']:.1f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "presets.json")
    others = [arch for arch in PRESETS if "bart" not in arch]
    parser.add_argument(
        "--archs",
        type=lambda text: text.split(","),
        default=others,
        help="comma-separated presets to measure (default: all except the BART presets)",
    )
    parser.add_argument(
        "--runs",
        type=int,
        default=3,
        help="number of timed training steps and beam searches per preset (default: %(default)s)",
    )
    parser.add_argument(
        "--together",
        type=int,
        default=3,
        help="number of presets to alternate between while measuring (default: %(default)s)",
    )
    parser.add_argument("--vocabulary", type=int, default=68885, help="vocabulary size (default: %(default)s)")
    parser.add_argument(
        "--documents", type=int, default=64, help="number of documents per batch (default: %(default)s)"
    )
    parser.add_argument("--article", type=int, default=31, help="number of words per article (default: %(default)s)")
    parser.add_argument("--title", type=int, default=8, help="number of words per title (default: %(default)s)")
    parser.add_argument("--beam", type=int, default=5, help="beam size (default: %(default)s)")
    parser.add_argument(
        "--table", action="store_true", help="print the table of the results in --output without running the benchmark"
    )
    parser.add_argument("--docs", type=Path, help="update the table of results on this documentation page")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if not args.table:
        report = measure_presets(args)
        write_record(args.output, report, args)
    generate_table.print_table(format_table(json.loads(args.output.read_text())), args.docs, BEGIN)


if __name__ == "__main__":
    main()
