"""Measure the conversion of story files to tokenised text in documents per second, and the cost of each tokeniser.

    python benchmarks/bench_prepare.py [--output benchmarks/results/prepare.json]

The benchmark generates stories of 800 words, with capitals, numbers, quotes, brackets and abbreviations. Word
frequencies follow Zipf's law, so that each story contains new rare words. The benchmark then measures:

- "pipeline": etads-corpus cnndm (from files to sentences) and the tokenisation of etads-prepare (from sentences to
  Treebank words) with --jobs processes, with and without the start-up time;
- "processor": the same work in one process, in milliseconds of CPU time, which other programs hardly affect;
- "tokenisers": milliseconds per document in one process for sentences that are already split, with interleaved runs;
- "memory": peak resident size of the largest process of etads-corpus for a tenth of the corpus and for all of it.

On a busy machine, the seconds of the pipeline are unreliable; use "processor" and the load average instead.
"""

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmark_records import write_record
from etads_preprocess import corpus
from etads_preprocess.encode import TO_WORDS, encode_file
from nltk.tokenize import NLTKWordTokenizer, TreebankWordTokenizer, WordPunctTokenizer

from fairseq_etads.data.preparation import PreparationSettings
from fairseq_etads.text.files import read_lines
from fairseq_etads.text.words import MosesWordTokenizer, PennTreebankTokenizer, split_sentences

WORDS = 800


def create_vocabulary(size, generator):
    letters = "etaoinshrdlucmfwygpbvkxqjz"
    shapes = ["{}"] * 30 + [
        "{}'s",
        "{}n't",
        "({})",
        '"{}"',
        "{}-{}",
        "{},",
        "{};",
        "${}.50",
        "Mr. {}",
        "{}--{}",
        "don't",
    ]
    words = []
    for _ in range(size):
        word = "".join(generator.choices(letters, k=generator.randint(2, 11)))
        words.append(generator.choice(shapes).format(word.title() if generator.random() < 0.15 else word, "it"))
    return words


def create_story(generator, words, weights):
    chosen = generator.choices(words, cum_weights=weights, k=WORDS)
    sentences, start = [], 0
    while start < WORDS:
        end = start + generator.randint(12, 32)
        sentences.append(" ".join(chosen[start:end]).capitalize() + ".")
        start = end
    paragraphs = "\n\n".join(" ".join(sentences[i : i + 2]) for i in range(0, len(sentences), 2))
    return paragraphs + "".join(f"\n\n@highlight\n\n{sentence[:-1]}" for sentence in sentences[:3])


def write_corpus(folder, count):
    generator = random.Random(1)
    words = create_vocabulary(200_000, generator)
    weights, total = [], 0.0
    for rank in range(len(words)):
        total += 1 / (rank + 2.7)
        weights.append(total)
    (folder / "stories").mkdir(parents=True)
    (folder / "urls").mkdir()
    for name, number in (("train", count), ("val", 100), ("test", 100)):
        urls = [f"http://example.org/{name}/{i}" for i in range(number)]
        (folder / "urls" / f"all_{name}.txt").write_text("\n".join(urls) + "\n")
        for url in urls:
            path = folder / "stories" / f"{hashlib.sha1(url.encode()).hexdigest()}.story"
            path.write_text(create_story(generator, words, weights))


def time_call(function, *arguments):
    started = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - started, result


def run_etads_corpus(folder, out, jobs):
    """Run etads-corpus, and return the peak memory of its largest process in MB."""
    command = [str(Path(sys.executable).parent / "etads-corpus"), "cnndm", "--stories", str(folder / "stories")]
    command += ["--urls", str(folder / "urls"), "--expect", "any", "--out", str(out), "--jobs", str(jobs)]
    watched = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
    watched += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)"
    found = subprocess.run([sys.executable, "-c", watched, *command], check=True, stdout=subprocess.PIPE, text=True)
    return int(found.stdout)


def run_tokenisation(text, out, jobs):
    for side in ("source", "target"):
        settings = PreparationSettings("word", words="ptb")
        lines = read_lines(text / f"train.{side}")
        encode_file(lines, out / f"train.{side}", settings, out, TO_WORDS, jobs)


def measure_conversion_time(folder, count):
    """Measure the CPU time per document in this process, in milliseconds. Other programs hardly affect this time."""
    arguments = ["cnndm", "--stories", str(folder / "stories"), "--urls", str(folder / "urls"), "--expect", "any"]
    started = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        corpus.main([*arguments, "--out", str(folder / "one"), "--jobs", "1"])
    read_seconds = time.process_time() - started
    run_tokenisation(folder / "one", folder / "one-tokens", 1)
    both = time.process_time() - started
    total = count + 200  # includes the valid and test splits
    return round(read_seconds / total * 1000, 3), round((both - read_seconds) / count * 1000, 3)


def time_tokenisers(documents, runs):
    """Return a dictionary from each tokeniser to the milliseconds per document.

    Runs are interleaved. "first" is the time of the first run, when caches are empty. The median is computed over the
    other runs.
    """
    treebank, moses = PennTreebankTokenizer(), MosesWordTokenizer()
    forms = {
        "ptb (nltk's rules, remembered)": treebank.encode,
        "nltk NLTKWordTokenizer": NLTKWordTokenizer().tokenize,
        "nltk TreebankWordTokenizer": TreebankWordTokenizer().tokenize,
        "nltk WordPunctTokenizer (not Treebank words)": WordPunctTokenizer().tokenize,
        "moses (sacremoses)": moses.encode,
        "sentences by rules (Punkt)": None,
    }
    try:
        import spacy

        forms["spaCy, blank English (not Treebank words)"] = spacy.blank("en").tokenizer
    except ImportError:
        pass
    whole = [" ".join(sentences) for sentences in documents]
    seconds = {name: [] for name in forms}
    for _ in range(runs):
        for name, tokenizer in forms.items():
            started = time.perf_counter()
            if tokenizer is None:
                for text in whole:
                    split_sentences(text)
            else:
                for sentences in documents:
                    for sentence in sentences:
                        tokenizer(sentence)
            seconds[name].append((time.perf_counter() - started) / len(documents) * 1000)
    return {
        name: {"first": round(values[0], 3), "median of the others": round(statistics.median(values[1:]), 3)}
        for name, values in seconds.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "prepare.json")
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3, help="number of runs per tokeniser (default: %(default)s)")
    args = parser.parse_args()
    if args.runs < 2:
        parser.error(f"--runs {args.runs}: the first run does not count, so choose 2 or more")
    report = {"jobs": args.jobs, "documents": f"{args.documents} stories of {WORDS} words"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_corpus(folder / "all", args.documents)
        write_corpus(folder / "few", args.documents // 10)
        seconds = {}
        memory = {}
        for size, count in (("few", args.documents // 10), ("all", args.documents)):
            text, out = folder / size / "text", folder / size / "tokens"
            read_seconds, memory[size] = time_call(run_etads_corpus, folder / size, text, args.jobs)
            seconds[size] = (count, read_seconds, time_call(run_tokenisation, text, out, args.jobs)[0])
        (few, read_few, tokenise_few), (count, read_all, tokenise_all) = seconds["few"], seconds["all"]
        report["pipeline"] = {
            "seconds for files -> sentences -> words": [round(read_all, 1), round(tokenise_all, 1)],
            "documents per second": round(count / (read_all + tokenise_all)),
            "documents per second without starting": round(
                (count - few) / (read_all + tokenise_all - read_few - tokenise_few)
            ),
        }
        spent = measure_conversion_time(folder / "all", count)
        report["processor, ms for a document: sentences, words"] = spent
        report["documents per second of free cores, by processor time"] = round(args.jobs * 1000 / sum(spent))
        report["memory of etads-corpus's first process, MB"] = {
            f"{few} stories": memory["few"],
            f"{count} stories": memory["all"],
        }
        with open(folder / "all" / "text" / "train.source") as file:
            documents = [line.strip().split(" <q> ") for line, _ in zip(file, range(500))]
    report["tokenisers, ms for a document in one process"] = time_tokenisers(documents, args.runs)
    report["peak memory of this program, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    report["load average at the end"] = round(os.getloadavg()[0], 1)
    print(json.dumps(report, indent=2))
    write_record(args.output, report, args)


if __name__ == "__main__":
    main()
