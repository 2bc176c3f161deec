"""Measure how much time each part of the model takes in a search step.

    python benchmarks/bench_step.py [--docs docs/experiments.md]    run the benchmark and print the table (two minutes)
    python benchmarks/bench_step.py --table                         print the table of earlier results

The sizes and systems are the same as in bench_generate.py. The script generates summaries of 10 and of 50 words. The
time of a step is the difference between the two times, divided by 40, so that it does not include the encoder and other
work per document. The time is measured for each part: the product with the vocabulary, other products with weights, the
rest of attention (products with keys and values, softmax, gate), the rest of the decoder (norms, sums, word vectors),
and the rest of the search (log-softmax, mixture of the pointer, selection of hypotheses).
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import bench_generate
import generate_table
from benchmark_records import write_record
from machines import describe_machine, describe_processor

from fairseq_etads.kernels.packed_weights import BlockedOutputProjection, Int8Linear, PackedLinear
from fairseq_etads.models.transformer import BridgeAttention, DecoderSelfAttention

RESULTS = Path(__file__).parent / "results" / "step.json"
BEGIN = "<!-- benchmarks/bench_step.py --table -->\n\n"
SYSTEMS = ("etads fp32", "etads int8", f"etads int8 {bench_generate.SHORTLIST}")
FEW, MANY = 10, 50
VOCABULARY, WEIGHTS, ATTENTION, DECODER, SEARCH = (
    "product with the vocabulary",
    "other products with weights",
    "attention beside these",
    "rest of the decoder",
    "rest of the search",
)
PARTS = (VOCABULARY, WEIGHTS, ATTENTION, DECODER, SEARCH)


class DecoderTimer:
    """Clock that measures the time spent in each part of a decoder. Time spent in nested parts is not included.

    Attributes:
        seconds: mapping from parts to the total time so far.
    """

    def __init__(self, decoder):
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._running = []  # stack of [start time, seconds spent in nested parts]; the innermost part is last
        output = decoder.output_projection
        inside_output = {id(module) for module in output.modules()}
        of_words = output.restrict_to_words
        # The projection of a shortlist is created for each batch.
        output.restrict_to_words = lambda words: self._add_timing_hooks(of_words(words), VOCABULARY)
        for module in decoder.modules():
            if module is decoder:
                self._add_timing_hooks(module, DECODER)
            elif isinstance(module, BlockedOutputProjection):
                self._add_timing_hooks(module, VOCABULARY)
            elif isinstance(module, (BridgeAttention, DecoderSelfAttention)):
                self._add_timing_hooks(module, ATTENTION)
            elif isinstance(module, (PackedLinear, Int8Linear)) and id(module) not in inside_output:
                self._add_timing_hooks(module, WEIGHTS)

    def _add_timing_hooks(self, module, part):
        module.register_forward_pre_hook(lambda *_: self._running.append([time.perf_counter(), 0.0]))

        def add_time(*_):
            started, inside = self._running.pop()
            seconds = time.perf_counter() - started
            self.seconds[part] += seconds - inside
            if self._running:
                self._running[-1][1] += seconds

        module.register_forward_hook(add_time)
        return module


def measure_decoder_part_times(system, args):
    """Measure the milliseconds per step of each part and number of documents, in the run with the median time."""
    dictionary = bench_generate.make_numbered_dictionary(args.vocabulary)
    generator = bench_generate.create_summary_generator(system, args, dictionary)
    run = bench_generate.create_etads_summariser(generator, args)
    clock = DecoderTimer(generator._inference_models[0].get_current_copy().decoder)
    source = bench_generate.create_random_documents(args, dictionary)

    def seconds(words, count):
        before, started = dict(clock.seconds), time.perf_counter()
        run(source[:count], words)
        whole = time.perf_counter() - started
        parts = {part: clock.seconds[part] - before[part] for part in PARTS}
        return {**parts, SEARCH: whole - sum(parts.values())}

    result = {}
    for count in (args.documents, 1):
        seconds(FEW, count)  # a warm-up
        steps = []
        for _ in range(args.runs):
            few, many = seconds(FEW, count), seconds(MANY, count)
            steps.append({part: (many[part] - few[part]) / (MANY - FEW) * 1000 for part in PARTS})
        middle = sorted(steps, key=lambda step: sum(step.values()))[len(steps) // 2]
        result[str(count)] = {part: round(value, 2) for part, value in middle.items()}
    return result


def format_table(report):
    """Format a Markdown table with the milliseconds for a step and for its parts.

    There is one row for each combination of instruction set, dtype and number of documents.
    """
    lines = ["| instructions | format | documents | a step, ms | " + " | ".join(PARTS) + " |", "|---|---|" + "--:|" * 7]
    names = {"native": report["machine"]["has"], "avx2": "AVX2 only"}
    for used, systems in report["steps"].items():
        for system, counts in systems.items():
            for count, parts in counts.items():
                numbers = [sum(parts.values()), *(parts[part] for part in PARTS)]
                cells = [names[used], system.partition(" ")[2], count, *(f"{number:.1f}" for number in numbers)]
                lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--systems", nargs="+", default=SYSTEMS, choices=SYSTEMS, metavar="SYSTEM")
    parser.add_argument(
        "--runs", type=int, default=3, help="number of runs; the median is reported (default: %(default)s)"
    )
    parser.add_argument("--documents", type=int, default=8, help="number of documents per batch (default: %(default)s)")
    parser.add_argument("--beam", type=int, default=10)
    parser.add_argument("--vocabulary", type=int, default=50000)
    parser.add_argument(
        "--table", action="store_true", help="print the table of stored results without running the benchmark"
    )
    parser.add_argument("--docs", type=Path, help="update the table of results on this documentation page")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.words = MANY
    if args.one:
        warnings.simplefilter("ignore")
        logging.disable(logging.INFO)
        print(json.dumps({system: measure_decoder_part_times(system, args) for system in args.systems}))
        return
    if not args.table:
        steps = {}
        for used, environment in bench_generate.INSTRUCTIONS.items():
            command = [sys.executable, __file__, *sys.argv[1:], "--one"]
            told = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, check=True)
            steps[used] = json.loads(told.stdout)
        report = {
            "machine": {**describe_machine(), **describe_processor()},
            "words": [FEW, MANY],
            "runs": args.runs,
            "steps": steps,
        }
        write_record(args.output, report, args)
    generate_table.print_table(format_table(json.loads(args.output.read_text())), args.docs, BEGIN)


if __name__ == "__main__":
    main()
