"""Measure the conversion of story files to tokenised text in documents per second, and the cost of each tokeniser.

    python benchmarks/bench_prepare.py [--output benchmarks/results/prepare.json]

The benchmark generates stories of 800 words, with capitals, numbers, quotes, brackets and abbreviations. Word
frequencies follow Zipf's law, so that each story contains new rare words. The benchmark then measures:

- "pipeline": etads-corpus cnndm (from files to sentences) and the tokenisation of etads-prepare (from sentences to
  Treebank words) with --jobs processes, with and without the start-up time;
- "tokenisers": milliseconds of CPU time for sentences that are already split. Each tokeniser runs in a process of its
  own, they alternate, and nltk's tokeniser for Treebank words is the one to compare with.

On a busy machine, the seconds of the pipeline are unreliable; the load average is recorded.
"""

import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from etads_preprocess.encode import TO_WORDS, encode_file
from measurement import ask_in_turn, compare, make_parser, serve, start_peers, write_record
from nltk.tokenize import NLTKWordTokenizer, TreebankWordTokenizer, WordPunctTokenizer

from fairseq_etads.data.preparation import PreparationSettings
from fairseq_etads.files.inputs import read_lines
from fairseq_etads.text.words import MosesWordTokenizer, PennTreebankTokenizer, split_sentences

WORDS = 800
SHAPES = ["{}"] * 30 + ["{}'s", "{}n't", "({})", '"{}"', "{}-{}", "{},", "{};", "${}.50", "Mr. {}", "{}--{}", "don't"]


def create_spacy_tokenizer():
    import spacy

    return spacy.blank("en").tokenizer


TOKENISERS = {
    "nltk TreebankWordTokenizer": lambda: TreebankWordTokenizer().tokenize,
    "ptb (nltk's rules, remembered)": lambda: PennTreebankTokenizer().encode,
    "nltk NLTKWordTokenizer": lambda: NLTKWordTokenizer().tokenize,
    "nltk WordPunctTokenizer (not Treebank words)": lambda: WordPunctTokenizer().tokenize,
    "moses (sacremoses)": lambda: MosesWordTokenizer().encode,
    "spaCy, blank English (not Treebank words)": create_spacy_tokenizer,
    "sentences by rules (Punkt)": lambda: split_sentences,
}


def create_vocabulary(size, generator):
    words = []
    for _ in range(size):
        word = "".join(generator.choices("etaoinshrdlucmfwygpbvkxqjz", k=generator.randint(2, 11)))
        words.append(generator.choice(SHAPES).format(word.title() if generator.random() < 0.15 else word, "it"))
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


def measure_pipeline(folder, count, args):
    """Return the seconds from files to sentences and from sentences to words."""
    write_corpus(folder, count)
    text, tokens = folder / "text", folder / "tokens"
    command = [Path(sys.executable).parent / "etads-corpus", "cnndm", "--stories", folder / "stories"]
    command += ["--urls", folder / "urls", "--expect", "any", "--out", text, "--jobs", str(args.jobs)]
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    read = time.perf_counter()
    for side in ("source", "target"):
        settings = PreparationSettings("word", words="ptb")
        lines = read_lines(text / f"train.{side}")
        encode_file(lines, tokens / f"train.{side}", settings, tokens, TO_WORDS, args.jobs)
    return read - started, time.perf_counter() - read


def prepare_tokeniser(name):
    """Return an empty description, and the function that measures the milliseconds per document of a file."""
    tokenise = TOKENISERS[name]()

    def measure_milliseconds(path):
        texts = [line.split(" <q> ") for line in Path(path).read_text(encoding="utf-8").splitlines()]
        if tokenise is split_sentences:
            texts = [[" ".join(sentences)] for sentences in texts]
        started = time.process_time()
        for sentence in (sentence for sentences in texts for sentence in sentences):
            tokenise(sentence)
        return (time.process_time() - started) / len(texts) * 1000

    return {}, measure_milliseconds


def main():
    parser = make_parser(__doc__, "prepare.json", runs=3)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    if args.peer:
        return serve(lambda: prepare_tokeniser(args.peer))
    if args.runs < 2:
        parser.error(f"--runs {args.runs}: the first run does not count, so choose 2 or more")
    count, few = args.documents, args.documents // 10
    report = {"jobs": args.jobs, "documents": f"{count} stories of {WORDS} words"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        read_few, split_few = measure_pipeline(folder / "few", few, args)
        read, split = measure_pipeline(folder / "all", count, args)
        report["pipeline"] = {
            "seconds for files -> sentences -> words": [round(read, 1), round(split, 1)],
            "documents per second": round(count / (read + split)),
            "documents per second without starting": round((count - few) / (read + split - read_few - split_few)),
        }
        print(json.dumps(report, indent=2), "tokenisers, ms for a document:", sep="\n")
        with open(folder / "all" / "text" / "train.source") as lines:
            (folder / "sample").write_text("".join(line for line, _ in zip(lines, range(500))))
        with start_peers({name: (name, {}) for name in TOKENISERS}) as peers:
            found = ask_in_turn(peers, str(folder / "sample"), args.runs)
    # In the first run, caches are empty.
    compared = compare({name: values[1:] for name, values in found.items()})
    report["tokenisers, ms for a document"] = {
        name: {"first": round(values[0], 3), "other runs": compared[name]} for name, values in found.items()
    }
    write_record(args.output, report, args)


if __name__ == "__main__":
    main()
