"""Measure how long ROUGE takes for 11,490 pairs of three-sentence summaries, the size of CNN/Daily Mail's test set.

    python benchmarks/bench_rouge.py [--hypotheses FILE --references FILE] [--output benchmarks/results/rouge.json]

If no files are given, the script creates pairs of about 55 words from the sample corpus. A reference consists of three
sentences of a description. A hypothesis consists of three other sentences from the same description and the next one,
so that it has some words in common with the reference. The time of the command etads-rouge includes its start-up and
the bootstrap with 1,000 resamples. Perl is measured only if it is installed.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmark_records import write_record
from etads_preprocess.debian import main as debian

PAIRS = 11_490
SENTENCE = (16, 21)


def write_pairs(directory):
    """Create PAIRS pairs from the sample corpus, and write a file with hypotheses and a file with references."""
    debian(["--sample", "--out", str(directory / "debian")])
    words = (directory / "debian" / "train.source").read_text(encoding="utf-8").split()
    generator = random.Random(1)
    with open(directory / "hyp.txt", "w") as hypotheses, open(directory / "ref.txt", "w") as references:
        for _ in range(PAIRS):
            start = generator.randrange(len(words) - 200)
            for file, shift in ((hypotheses, generator.randrange(15, 35)), (references, 0)):
                place, sentences = start + shift, []
                for _ in range(3):
                    length = generator.randint(*SENTENCE)
                    sentences.append(" ".join(words[place : place + length]))
                    place += length
                file.write(" <q> ".join(sentences) + "\n")
    return directory / "hyp.txt", directory / "ref.txt"


def time_command(command, runs):
    """Run a command several times. Return the wall-clock seconds of each run, and the output of the last run."""
    found = []
    for _ in range(runs):
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        found.append(round(time.perf_counter() - started, 2))
        if done.returncode:
            return [], done.stderr.strip().splitlines()[-1]
    return found, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "rouge.json")
    parser.add_argument("--hypotheses", type=Path)
    parser.add_argument("--references", type=Path)
    parser.add_argument("--runs", type=int, default=3, help="number of runs per command (default: %(default)s)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        files = (args.hypotheses, args.references) if args.hypotheses else write_pairs(Path(directory))
        lines = [file.read_text(encoding="utf-8").split("\n")[:-1] for file in files]
        words = [round(statistics.mean(len(line.replace("<q>", "").split()) for line in text), 1) for text in lines]
        load = round(os.getloadavg()[0], 2)
        timed = {}
        command = [str(Path(sys.executable).parent / "etads-rouge"), *map(str, files)]
        for name, options, runs in (
            ("python, 1 process", [], args.runs),
            ("python, 2 processes", ["--jobs", "2"], args.runs),
            ("perl, 2 processes", ["--backend", "perl", "--jobs", "2"], 1),
        ):
            found, printed = time_command([*command, *options], runs)
            timed[name] = {"median": statistics.median(found), "runs": found} if found else printed
    report = {
        "pairs": len(lines[0]),
        "words per hypothesis and reference": words,
        "load average of the machine at the start": load,
        "seconds, start and interval included": timed,
    }
    print(json.dumps(report, indent=2))
    write_record(args.output, report, args)


if __name__ == "__main__":
    main()
