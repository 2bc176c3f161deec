#!/usr/bin/env bash
# Measure the effect of a pointer with a small vocabulary: word-level etads on the Debian sample corpus, with and without a pointer.
#
#   scripts/reproduce/debian_pointer.sh [--out DIR] [--steps N] [--seeds "1 2"] [--pointers "none soft switch"]
#
#   --out DIR         output folder (default: runs/debian_pointer in the repository)
#   --text DIR        output folder of etads-debian (default: the sample corpus)
#   --size N          vocabulary size (default: 8000; smaller if the text is smaller than the sample corpus)
#   --steps N         number of training steps of each model (default: 1000, 4 to 5 minutes on 2 cores)
#   --seeds LIST      random seeds for training (default: "1")
#   --pointers LIST   values of --pointer to compare (default: "none soft switch")
#
# Without a pointer, the model sees every unknown word as <unk>. In addition to ROUGE, the recipe counts two kinds of
# exact matches of lower-cased words. (a) Names: the number of summaries that contain the package's name (or its stem,
# such as "foo" for libfoo2-dev), if the synopsis contains it. (b) Rare words: the number of the synopses' unknown words
# that occur in the description and also in the summary.
#
# The recipe can be interrupted and started again. It prints a Markdown table; the scores are in
# DIR/POINTER-SEED/rouge.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

out=$ROOT/runs/debian_pointer steps=1000 seeds="1" size=8000 systems="none soft switch"
read_comparison --pointers "$@"
[ -f "$text/test.package" ] || die "--text $text: no test.package in it; etads-debian makes it"

GENERATE=(--min-len 5 --max-len 30 --cpu)
for seed in $seeds; do
    for pointer in $systems; do
        run_system "$out/$pointer-$seed" "$text" "$out/prepared" train_small "$steps" --text "$text" --cpu --arch etads \
            --tokens word --size "$size" --pointer "$pointer" -- --seed "$seed" "${SINUSOIDAL[@]}" --dropout 0.25
    done
done

python - "$out" "$text" "$seeds" $systems <<'PYTHON'
import json, pathlib, re, sys
from fairseq_etads.vocabulary.dictionary import SummarizationDictionary
from etads_preprocess.debian_index import stem_package_name

out, text, seeds, pointers = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3].split(), sys.argv[4:]
dictionary = SummarizationDictionary.load(str(out / "prepared" / "bin" / "dict.target.txt"))
known = set(dictionary.symbols[: dictionary.known_words])

def lines(path):
    return path.read_text(encoding="utf-8").split("\n")[:-1]

def raw_words(line):
    return set(re.findall(r"[\w.+-]*\w[+]*", line.lower()))

packages = [line.split("\t")[0].lower() for line in lines(text / "test.package")]
references = [raw_words(line) for line in lines(text / "test.target")]
names = [{package, stem_package_name(package)} & words for package, words in zip(packages, references)]
source = [set(line.split()) for line in lines(out / "prepared" / "tokens" / "test.source")]
target = [set(line.split()) for line in lines(out / "prepared" / "tokens" / "test.target")]
rare = [(summary & document) - known for document, summary in zip(source, target)]
print(f"names: {sum(map(bool, names))} of {len(names)} pairs; rare words: {sum(map(len, rare))}\n")
print("| pointer | seed | ROUGE-1 | ROUGE-2 | ROUGE-L | names | rare words |\n|---|---|---|---|---|---|---|")
for pointer in pointers:
    for seed in seeds:
        run = out / f"{pointer}-{seed}"
        report = json.loads((run / "rouge.json").read_text())
        cells = [f"{s['f1']:.2f} [{s['f1_interval'][0]:.2f}, {s['f1_interval'][1]:.2f}]" for s in report["scores"].values()]
        found = [raw_words(line) for line in lines(run / "summaries.txt")]
        named = sum(bool(name & summary) for name, summary in zip(names, found)) / max(1, sum(map(bool, names)))
        kept = sum(len(words & summary) for words, summary in zip(rare, found)) / max(1, sum(map(len, rare)))
        print(f"| `{pointer}` | {seed} | {' | '.join(cells)} | {named:.0%} | {kept:.0%} |")
print(report["signature"])
PYTHON
