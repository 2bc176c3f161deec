"""Measure how the time and the memory of a training step depend on the length of documents, for each model family.

    python benchmarks/bench_long_documents.py [--docs docs/experiments.md]    run, and print the table (45 minutes)
    python benchmarks/bench_long_documents.py --table                         print the table of earlier results

A step uses one document of 400 to 8,192 tokens, a summary of 100 words and a vocabulary of 50,000 words. Steps are
defined and measured in bench_training_step.py. Each system has the sizes of its preset, which are the sizes in the
paper. fairseq's transformer has the same sizes as ``etads``.
"""

import argparse
import json
from pathlib import Path

import bench_training_step
import generate_table

RESULTS = Path(__file__).parent / "results" / "long_documents.json"
BEGIN = "<!-- benchmarks/bench_long_documents.py --table -->\n\n"
LENGTHS = (400, 1024, 2048, 4096, 8192)
SYSTEMS = (
    "transformer",
    "etads",
    "etads --checkpoint-activations",
    "aggregation_transformer",
    "gated_es_transformer",
    "convs2s",
    "pg_coverage",
)


def format_table(report):
    """Format a Markdown table with one column for each document length.

    The table contains the seconds and MiB for fairseq's transformer, and the ratios of the other systems to these
    values.
    """
    lengths = list(report["lengths"].values())
    lines = ["| tokens | " + " | ".join(f"{int(length):,}" for length in report["lengths"]) + " |"]
    lines.append("|---|" + "---|" * len(lengths))
    first = bench_training_step.SYSTEMS[0]
    for system in lengths[0]["systems"]:
        cells = []
        for measured in lengths:
            row = measured["systems"][system]
            if system == first:
                cells.append(f"{row['CPU seconds']:.1f} s, {row['peak MiB']:,} MiB")
            else:
                cells.append(f"{row['time ratio']:.2f}, {row['memory ratio']:.2f}")
        lines.append(f"| `{system}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--runs", type=int, default=3, help="number of timed steps per system (default: %(default)s)")
    parser.add_argument(
        "--table", action="store_true", help="print the table of stored results without running the benchmark"
    )
    parser.add_argument("--docs", type=Path, help="update the table of results on this documentation page")
    args = parser.parse_args()
    if not args.table:
        lengths = ",".join(map(str, LENGTHS))
        command = ["--documents", "1", "--lengths", lengths, "--systems", ",".join(SYSTEMS), "--runs", str(args.runs)]
        bench_training_step.main([*command, "--output", str(args.output)])
    generate_table.print_table(format_table(json.loads(args.output.read_text())), args.docs, BEGIN)


if __name__ == "__main__":
    main()
