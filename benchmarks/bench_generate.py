"""Measure the speed of beam search in fairseq, this project and CTranslate2 at the sizes in the paper.

    python benchmarks/bench_generate.py [--instructions native avx2] [--runs 3]    run the benchmark and print the table
    python benchmarks/bench_generate.py --table [--docs docs/experiments.md]          print the table of earlier results

The benchmark uses documents of 400 tokens, a vocabulary of 50,000 words, a beam of 10 and summaries of exactly 100
words, so that all systems run the same number of steps. Three systems use the same weights: "fairseq" is fairseq's
``transformer`` with fairseq's search, "etads_basic" is the same model in this project, and "ctranslate2" is measured if
this package is installed. "etads" uses both mechanisms and the decoding options of the paper: Wu's length penalty, a
coverage penalty of 1, and no repeated trigrams. "+ shortlist" uses a shortlist that is as long as for real text.
Weights are random, because they do not affect the time of a step. The systems alternate, and medians are reported.

Each system runs in the same way as in its own command. fairseq's model is prepared with the same calls as in
``fairseq-generate``: the generator of its task, ``prepare_for_inference_`` and ``inference_step``. A profile of a short
search is stored with the results. The measurement is rejected if fairseq's product with the vocabulary is batched.
torch batches this product if parameters do not require a gradient, and the search then takes twice as long. This never
happens in fairseq's own command.

Each system runs in a separate process, which also measures its peak memory. "avx2" shows the speed on a processor
without AVX-512. The results for each processor and instruction set are stored in a file in
``benchmarks/results/generate/``. docs/experiments.md contains a table of all results.
"""

import argparse
import contextlib
import json
import logging
import os
import statistics
import sys
import tempfile
import time
import warnings
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import generate_table
import torch
from bench_training_step import build_model
from benchmark_records import compare_with_reference_system, write_record
from fairseq.dataclass.configs import GenerationConfig
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from machines import describe_machine, describe_processor
from peer_processes import ScriptProcess
from torch.profiler import ProfilerActivity, profile

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.jobs.architectures import make_numbered_dictionary
from fairseq_etads.vocabulary.dictionary import count_known_words
from fairseq_etads.vocabulary.shortlist import Shortlist

PAPER = {"len_penalty": 0.9, "length_penalty_type": "wu", "coverage_penalty": 1.0, "no_repeat_ngram_size": 3}
FORMATS = ("fp32", "bf16", "int8")
SHORTLIST = "+ shortlist"
SYSTEMS = (
    "fairseq",
    *(f"{arch} {infer_dtype}" for infer_dtype in FORMATS for arch in ("etads_basic", "etads")),
    *(f"etads {infer_dtype} {SHORTLIST}" for infer_dtype in ("fp32", "int8")),
    "ctranslate2 float32",
    "ctranslate2 int8",
)
INSTRUCTIONS = {
    "native": {},
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "FBGEMM_ENABLE_INSTRUCTIONS": "AVX2",
        "CT2_FORCE_CPU_ISA": "AVX2",
    },
}
LIMITED = " (AVX2)"
"""Name suffix for CTranslate2 systems that are limited to AVX2.

AVX2 can be faster than AVX-512; only the faster setting is reported.
"""
PROFILED_WORDS = 5
FREQUENT, PER_WORD, POOL = 1000, 2, 600
"""Sizes for the random shortlist.

The shortlist of a document contains 1,830 words, like a shortlist from etads-shortlist for SumPubMed with 400 tokens
and 50,000 words. Together, the shortlists of 8 documents contain 4,700 words (3,370 in SumPubMed, where texts have more
words in common).
"""


def create_fairseq_summariser(args, dictionary):
    """Create a function that summarises documents with fairseq's transformer, as ``fairseq-generate`` does."""
    model = build_model("transformer", args.vocabulary)
    task = TranslationTask(TranslationConfig(), dictionary, dictionary)
    generation = GenerationConfig(beam=args.beam, min_len=args.words, max_len_b=args.words)
    model.prepare_for_inference_(Namespace(generation=generation))
    generator = task.build_generator([model], generation)

    def run(source, limit=None):
        generator.min_len = generator.max_len_b = limit or args.words
        results = task.inference_step(generator, [model], create_sample(source))
        return [row[0]["tokens"][:-1].tolist() for row in results]

    return run


def create_random_shortlist(args, dictionary):
    """Create random shortlists with lengths and overlaps as for real text.

    The shortlist of a document contains the FREQUENT words, the words of the document, and further words from a pool.
    The pool represents words that are associated with many documents.
    """
    words = count_known_words(dictionary)
    generator = torch.Generator().manual_seed(0)
    pool = torch.randperm(words - FREQUENT, generator=generator)[:POOL] + FREQUENT
    chosen = torch.randint(len(pool), (words, PER_WORD), generator=generator)
    return Shortlist.from_arrays(
        torch.arange(FREQUENT).int().numpy(), pool[chosen].int().numpy(), dictionary, dictionary
    )


def create_summary_generator(system, args, dictionary):
    """Create this project's search with one of its models. Systems with the same architecture use the same weights."""
    torch.manual_seed(0)
    arch, infer_dtype, *more = system.split()
    model = build_model(arch, args.vocabulary).eval()
    options = PAPER if arch == "etads" else {}
    return SummaryGenerator(
        [model],
        dictionary,
        args.beam,
        min_len=args.words,
        max_len_b=args.words,
        infer_dtype=infer_dtype,
        keep_attention=False,
        shortlist=create_random_shortlist(args, dictionary) if more else None,
        **options,
    )


def create_etads_summariser(generator, args):
    """Create a function that summarises documents with this project's search."""

    def run(source, limit=None):
        longest = limit or args.words
        generator.settings = replace(generator.settings, min_len=longest, max_len_b=longest)
        return [row[0]["tokens"][:-1].tolist() for row in generator.generate(None, create_sample(source))]

    return run


def create_ctranslate2_summariser(args, dictionary, compute_type):
    """Create a function that summarises documents with CTranslate2 and the weights of fairseq's transformer.

    Return None if CTranslate2 is not installed.
    """
    try:
        import ctranslate2
        from ctranslate2.converters import fairseq as converter
    except ImportError:
        return None
    spec = ctranslate2.specs.TransformerSpec.from_config((4, 4), 8, pre_norm=False)
    names = ["<blank>" if token == "<pad>" else token for token in dictionary.symbols]
    model = build_model("transformer", args.vocabulary).eval()
    with torch.no_grad():
        converter.set_transformer_encoder(spec.encoder, model.encoder)
        converter.set_transformer_decoder(spec.decoder, model.decoder)
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.decoder_start_token = spec.config.eos_token
    spec.config.add_source_eos = False
    spec.validate()
    spec.optimize()
    with tempfile.TemporaryDirectory() as directory:
        spec.save(directory)
        threads = torch.get_num_threads()
        translator = ctranslate2.Translator(
            directory, device="cpu", compute_type=compute_type, inter_threads=1, intra_threads=threads
        )

    def run(source, limit=None):
        limit = limit or args.words
        texts = [[names[token] for token in row if token != 1] for row in source.tolist()]
        results = translator.translate_batch(
            texts, beam_size=args.beam, min_decoding_length=limit, max_decoding_length=limit, length_penalty=1
        )
        return [[dictionary.index(word) for word in result.hypotheses[0]] for result in results]

    return run


def create_sample(source):
    """Convert documents (B, S) to a batch in the same format as the batches of a fairseq dataset."""
    return {"net_input": {"src_tokens": source, "src_lengths": source.ne(1).sum(1)}}


def create_summariser(system, args, dictionary):
    """Create a function that summarises documents (B, 400), optionally with a fixed number of words per summary.

    Return None if the system is not installed.
    """
    torch.manual_seed(0)
    name, *number_format = system.split()
    if name == "fairseq":
        return create_fairseq_summariser(args, dictionary)
    if name == "ctranslate2":
        return create_ctranslate2_summariser(args, dictionary, *number_format)
    return create_etads_summariser(create_summary_generator(system, args, dictionary), args)


def create_random_documents(args, dictionary):
    """Create random documents (B, 400). The result is the same in all processes."""
    source = torch.randint(4, args.vocabulary, (args.documents, 400), generator=torch.Generator().manual_seed(0))
    source[:, -1] = dictionary.eos()
    return source


class BenchmarkSystemProcess(ScriptProcess):
    """System that runs in a separate process.

    The process first describes the system (``about``) and then measures times on request.

    Several systems in the same process would affect each other's times. If CTranslate2 and torch both start threads,
    the OpenMP runtime detects more threads than cores and puts waiting threads to sleep. Searches with many small
    operations then take twice as long.
    """

    def __init__(self, system, environment):
        super().__init__(__file__, *sys.argv[1:], "--peer", system, env=environment)
        self.about = self.read_reply()

    def measure_seconds(self, count, at_once):
        """Measure the time for summarising the first ``count`` documents in batches of ``at_once`` documents."""
        return self.ask([count, at_once])


def answer_requests(system, args):
    """Answer requests in the process of a :class:`BenchmarkSystemProcess`.

    The first line of output describes the system (null if it is not installed). Each further line is the time for a
    request.
    """
    clock = time.process_time if args.processor_time else time.perf_counter
    dictionary = make_numbered_dictionary(args.vocabulary)
    run = create_summariser(system, args, dictionary)
    source = create_random_documents(args, dictionary)
    print(json.dumps(run and describe_search(system, run, source, args)), flush=True)
    for line in sys.stdin:
        count, at_once = json.loads(line)
        started = clock()
        for batch in source[:count].split(at_once):
            run(batch)
        print(json.dumps(clock() - started), flush=True)


def describe_search(system, run, source, args):
    """Return the memory, machine, generated words and profile of a system. The first search is a warm-up."""
    about = {"megabytes": measure_peak_memory(run, source), "machine": {**describe_machine(), **describe_processor()}}
    about["words"] = run(source[:1], PROFILED_WORDS)
    if not system.startswith("ctranslate2"):  # torch cannot profile CTranslate2
        about["operations"] = find_vocabulary_operation(run, source, args.vocabulary)
        if system == "fairseq":
            check_product_not_batched(about["operations"])
    return about


def measure_speeds(peers, count, at_once, runs):
    """Measure the documents per second of each system in each run. The systems alternate."""
    measured = {name: [] for name in peers}
    for _ in range(runs):
        for name, peer in peers.items():
            measured[name].append(count / peer.measure_seconds(count, at_once))
    return measured


def compute_medians(measured):
    """Return a dictionary from each system to its median documents per second.

    For CTranslate2, the faster setting is used.
    """
    found = {name: round(statistics.median(values), 3) for name, values in measured.items()}
    for name in list(found):
        other = found.pop(name) if name.endswith(LIMITED) else 0
        whole = name[: -len(LIMITED)] if other else name
        found[whole] = max(found.get(whole, 0), other)
    return found


def find_vocabulary_operation(run, source, vocabulary):
    """Profile a short search in order to find the torch operation that computes the product with the vocabulary."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
        run(source, PROFILED_WORDS)
    totals = sorted(profiled.key_averages(), key=lambda event: -event.self_cpu_time_total)
    whole = sum(event.self_cpu_time_total for event in totals)
    products = [
        event
        for event in profiled.key_averages(group_by_input_shape=True)
        if event.key in ("aten::addmm", "aten::mm", "aten::bmm")
        and any(vocabulary in shape[-2:] for shape in event.input_shapes if isinstance(shape, list))
    ]
    longest = max(products, key=lambda event: event.self_cpu_time_total, default=None)
    most_time = {event.key: f"{event.self_cpu_time_total / whole:.0%}, {event.count} calls" for event in totals[:6]}
    if longest is None:  # the kernel of this project computes the product for one part of the vocabulary at a time
        return {"most time": most_time}
    product = {
        "operation": longest.key,
        "inputs": str([shape for shape in longest.input_shapes if shape]),
        "milliseconds a call": round(longest.self_cpu_time_total / longest.count / 1000, 2),
    }
    return {"most time": most_time, "product with the vocabulary": product}


def check_product_not_batched(profiled):
    """Raise an error if fairseq's product with the vocabulary is batched.

    In ``fairseq-generate``, this product is never batched.
    """
    operation = profiled["product with the vocabulary"]["operation"]
    if operation == "aten::bmm":
        raise RuntimeError(f"fairseq's product with the vocabulary is {operation}; fairseq-generate's is a plain one")


def measure_peak_memory(run, source):
    """Measure the memory of this process in megabytes before a search, and the peak during the search."""
    before = read_resident_memory("VmRSS")
    # Writing 5 resets the peak, so that it does not include the memory required for loading.
    Path("/proc/self/clear_refs").write_text("5")
    run(source)
    return {"before": before, "peak": read_resident_memory("VmHWM")}


def read_resident_memory(what):
    """Return the current ("VmRSS") or peak ("VmHWM") memory of this process in megabytes, as reported by Linux."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return round(next(int(line.split()[1]) for line in lines if line.startswith(what)) * 1024 / 1e6)


def measure_all_systems(instructions, args):
    """Measure all systems with one instruction set and return the report."""
    environment = {**os.environ, **INSTRUCTIONS[instructions]}
    with contextlib.ExitStack() as running:
        started = {
            name: running.enter_context(BenchmarkSystemProcess(name, environment)) for name in choose_systems(args)
        }
        if instructions == "native":
            limited = {**environment, "CT2_FORCE_CPU_ISA": "AVX2"}
            for name in [name for name in started if name.startswith("ctranslate2")]:
                started[name + LIMITED] = running.enter_context(BenchmarkSystemProcess(name, limited))
        peers = {name: peer for name, peer in started.items() if peer.about is not None}
        if not peers:
            raise SystemExit(f"--only {' '.join(args.only)}: none is installed; choose from {', '.join(SYSTEMS)}")
        about = {name: peer.about for name, peer in peers.items()}
        fairseq = about.get("fairseq")
        measured = {
            "together": measure_speeds(peers, args.documents, args.documents, args.runs),
            "one at a time": measure_speeds(peers, min(2, args.documents), 1, args.runs),
        }
        return {
            "machine": next(iter(about.values()))["machine"],
            "instructions": instructions,
            "task": f"400 tokens, {args.vocabulary} words, beam {args.beam}, {args.words} words out",
            "runs": args.runs,
            "quiet": not args.busy,
            "clock": "processor" if args.processor_time else "wall",
            "documents": args.documents,
            "words": args.words,
            "same words as fairseq": {
                name: told["words"] == fairseq["words"] for name, told in about.items() if not name.startswith("etads ")
            }
            if fairseq
            else {},
            "documents per second": {batches: compute_medians(figures) for batches, figures in measured.items()},
            "runs, compared with the first system": {
                batches: compare_with_reference_system(figures, next(iter(figures)))
                for batches, figures in measured.items()
            },
            "operations": {name: told["operations"] for name, told in about.items() if "operations" in told},
            "megabytes": {name: told["megabytes"] for name, told in about.items()},
        }


def choose_systems(args):
    return [name for name in SYSTEMS if not args.only or name.startswith(tuple(args.only))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=generate_table.RESULTS, help="output folder for the results")
    parser.add_argument("--instructions", nargs="+", choices=list(INSTRUCTIONS), default=list(INSTRUCTIONS))
    parser.add_argument("--runs", type=int, default=3, help="number of timed runs per system (default: %(default)s)")
    parser.add_argument("--documents", type=int, default=8, help="number of documents per batch (default: %(default)s)")
    parser.add_argument("--words", type=int, default=100, help="number of words per summary (default: %(default)s)")
    parser.add_argument("--beam", type=int, default=10)
    parser.add_argument("--vocabulary", type=int, default=50000)
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="SYSTEM",
        help="measure only systems with names that begin with one of these words; the systems are "
        f"{', '.join(SYSTEMS)}",
    )
    parser.add_argument(
        "--busy", action="store_true", help="record in the results that other programs were using the CPU"
    )
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="measure the CPU time of a single thread; use this option on a busy machine",
    )
    parser.add_argument(
        "--table", action="store_true", help="print the table of all stored results without running the benchmark"
    )
    parser.add_argument("--docs", type=Path, help="update the table of results on this documentation page")
    parser.add_argument("--peer", metavar="SYSTEM", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        if args.processor_time:
            torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        logging.disable(logging.INFO)
        answer_requests(args.peer, args)
        return
    for instructions in [] if args.table else args.instructions:
        report = measure_all_systems(instructions, args)
        place = args.output / generate_table.make_file_name(report)
        write_record(place, report, args)
        print(f"{place} written", file=sys.stderr)
    generate_table.print_table(
        generate_table.format_markdown_table(generate_table.read_reports(args.output)), args.docs
    )


if __name__ == "__main__":
    main()
