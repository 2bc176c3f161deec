"""Measure the speed and ROUGE of decoding with a trained model, for each dtype and stopping rule.

    python benchmarks/bench_trained.py [--work DIR] [--output benchmarks/results/trained.json] [--documents 500]
    python benchmarks/bench_trained.py --run RUN --data PREPARED/bin --shortlist FILE --output FILE

``scripts/quickstart.sh`` trains the model in DIR if it does not exist yet. With --run, a model trained by
scripts/train.sh is used instead. The model summarises the first documents of the test split with the options of the
quickstart (a beam of 5, 4 to 30 tokens, no repeated bigrams). The systems are all combinations of a dtype, the full
vocabulary or a shortlist, and fairseq's or the admissible stopping rule. They alternate on each batch of 10 documents.
The time of a system is the sum of its median times for all batches. The report contains the documents per second, the
number of tokens per summary, the F1 scores of ROUGE, and the number of summaries that differ from the summaries in
float32 with the full vocabulary and the same rule. For other scores and lengths, see bench_stopping.py.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from bench_stopping import find_trained_model, load_batches
from benchmark_records import write_record

from fairseq_etads.data.shortlist_file import read_shortlist
from fairseq_etads.evaluation.rouge import rouge
from fairseq_etads.generation import SummaryGenerator

FORMATS = ("fp32", "bf16", "int8")
RULES = ("fairseq", "admissible")
OPTIONS = {"beam_size": 5, "min_len": 4, "max_len_b": 30, "no_repeat_ngram_size": 2}


def convert_to_words(dictionary, tokens):
    """Convert the ids of a summary, shape (T,), to words. The end symbol and padding are dropped."""
    specials = {dictionary.pad(), dictionary.eos()}
    return " ".join(dictionary[token] for token in tokens.tolist() if token not in specials)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "bench_trained")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "trained.json")
    parser.add_argument("--documents", type=int, default=500)
    parser.add_argument("--steps", type=int, default=1500, help="number of training steps (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="number of runs per system (default: %(default)s)")
    parser.add_argument(
        "--formats", nargs="+", choices=FORMATS, default=FORMATS, help="dtypes to measure, which must include fp32"
    )
    parser.add_argument("--rules", nargs="+", choices=RULES, default=RULES)
    parser.add_argument(
        "--run",
        type=Path,
        help="run folder of scripts/train.sh containing the model to measure (default: the run folder of the "
        "quickstart)",
    )
    parser.add_argument("--data", type=Path, help="bin folder of the data prepared for the model in --run")
    parser.add_argument(
        "--shortlist",
        type=Path,
        help="shortlist file created by etads-shortlist; measure each dtype with and without the shortlist",
    )
    args = parser.parse_args()
    if bool(args.run) != bool(args.data):
        parser.error("--run and --data: give both or neither")
    if args.run:
        data, checkpoint = args.data, args.run / "checkpoints" / "checkpoint_best.pt"
    else:
        data, checkpoint = find_trained_model(args.work, args.steps)
    task, model, samples = load_batches(data, checkpoint, args.documents)
    dictionary = task.target_dictionary
    lists = [None]
    if args.shortlist:
        lists.append(read_shortlist(args.shortlist, task.source_dictionary, dictionary))
    generators = {
        (infer_dtype, shortlist is not None, rule): SummaryGenerator(
            [model],
            dictionary,
            infer_dtype=infer_dtype,
            early_stopping=rule,
            keep_attention=False,
            shortlist=shortlist,
            **OPTIONS,
        )
        for infer_dtype in args.formats
        for shortlist in lists
        for rule in args.rules
    }
    seconds = dict.fromkeys(generators, 0.0)
    summaries = {system: [] for system in generators}
    for generator in generators.values():
        generator.generate(None, samples[0])  # the first search also packs the weights
    for sample in samples:
        took, found = {system: [] for system in generators}, {}
        for _ in range(args.runs):
            for system, generator in generators.items():
                began = time.perf_counter()
                found[system] = generator.generate(None, sample)
                took[system].append(time.perf_counter() - began)
        for system in generators:
            seconds[system] += statistics.median(took[system])
            summaries[system] += [row[0]["tokens"] for row in found[system]]
    references = [convert_to_words(dictionary, target) for sample in samples for target in sample["target"]]
    rows = [make_decoding_result(system, summaries, seconds[system], references, dictionary) for system in generators]
    report = {
        "model": args.run.name if args.run else "quickstart",
        "documents": args.documents,
        "runs": args.runs,
        "rows": rows,
    }
    write_record(args.output, report, args, indent=1)


def make_decoding_result(system, summaries, seconds, references, dictionary):
    infer_dtype, listed, rule = system
    texts, plain = (
        [convert_to_words(dictionary, x) for x in summaries[which]] for which in (system, ("fp32", False, rule))
    )
    row = {
        "infer_dtype": infer_dtype,
        "shortlist": listed,
        "early_stopping": rule,
        "documents per second": round(len(texts) / seconds, 2),
        "tokens": round(statistics.mean(len(x) for x in summaries[system]), 2),
        "others than fp32": sum(a != b for a, b in zip(texts, plain)),
        "rouge": {name: round(score.f1, 2) for name, score in rouge(texts, references, bootstrap=1).scores.items()},
    }
    print(json.dumps(row), flush=True)
    return row


if __name__ == "__main__":
    main()
