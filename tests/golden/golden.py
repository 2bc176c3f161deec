"""Compare what the commands produce with what they produced when tests/golden/*.json were recorded.

    python tests/golden/golden.py record [GROUP ...]     write GROUP.json next to this file
    python tests/golden/golden.py check [GROUP ...]      exit with status 1 if an output differs

The groups are:

data       checksums of what etads-corpus and etads-prepare make of a small corpus in each format
bundled    summaries by the bundled models, for each --choose and --infer-dtype
losses     losses of ten training steps of each family of models, uninterrupted and resumed after five
trained    summaries by models of four families that are trained for a few steps

Commands run as a user runs them, from an empty folder, with one thread. Summaries and losses depend on the processor:
on another one than the recorded, losses may differ by 0.1 % and one summary in ten may differ. All groups take about
20 minutes.
"""

import argparse
import hashlib
import json
import lzma
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

import corpora  # noqa: E402

SPLITS = {"train": 1500, "valid": 40, "test": 40}
PLUGIN = ["--user-dir", str(ROOT / "fairseq_etads"), "--task", "summarization"]
TRAIN = [
    *("--cpu", "--num-workers", "0", "--no-progress-bar", "--log-format", "json", "--log-interval", "1", "--seed", "7"),
    *("--clip-norm", "2", "--no-epoch-checkpoints", "--disable-validation", "--truncate-source", "60"),
]
SUMMARISERS = ["--criterion", "summarization_nll", "--truncate-target", "20", "--max-tokens", "2000"]
LAYERS = [
    *("--encoder-layers", "2", "--decoder-layers", "2", "--encoder-embed-dim", "64", "--encoder-ffn-embed-dim", "128"),
    *("--encoder-attention-heads", "4", "--decoder-attention-heads", "4", "--optimizer", "adam", "--lr", "2e-3"),
]
RECURRENT = [
    *("--encoder-embed-dim", "32", "--encoder-hidden-size", "32", "--optimizer", "lazy_adam", "--lr", "5e-3"),
    *("--required-batch-size-multiple", "1"),
]
CELLS = [*RECURRENT, "--attention-dim", "32"]
CONVOLUTIONS = [
    *("--encoder-embed-dim", "48", "--decoder-embed-dim", "48", "--decoder-out-embed-dim", "48", "--optimizer", "adam"),
    *("--encoder-layers", "[(48, 3)]", "--decoder-layers", "[(48, 3)]", "--lr", "2e-3"),
]
SELECTORS = ["--criterion", "selection_nll", *RECURRENT, "--batch-size", "32"]
FAMILIES = {  # name of a run: prepared data, options
    "etads": ("plain", ["--arch", "etads", "--pointer", "soft", *LAYERS, *SUMMARISERS]),
    "etads_recipe": (
        "plain",
        ["--arch", "etads", "--pointer", "soft", "--pointer-continue", "--focus-center", "relative", *LAYERS]
        + [*SUMMARISERS, "--optimizer", "muon", "--encoder-neighbours", "1", "--label-smoothing", "0.1"],
    ),
    "aggregation": ("plain", ["--arch", "aggregation_transformer", *LAYERS, *SUMMARISERS]),
    "gated_es": ("plain", ["--arch", "gated_es_transformer", "--pointer", "switch", *LAYERS, *SUMMARISERS]),
    "transformer": ("plain", ["--arch", "transformer", "--share-all-embeddings", *LAYERS, *SUMMARISERS]),
    "lvt2k": ("plain", ["--arch", "words_lvt2k_temp_att", "--large-vocabulary-trick", "200", *CELLS, *SUMMARISERS]),
    "hieratt": ("marked", ["--arch", "words_lvt2k_hieratt", *CELLS, *SUMMARISERS]),
    "pg_coverage": ("plain", ["--arch", "pg_coverage", "--coverage-loss", "1", *CELLS, *SUMMARISERS]),
    "ras": ("plain", ["--arch", "ras_elman", *RECURRENT, *SUMMARISERS]),
    "entail": ("plain", ["--arch", "entail_s2s", "--readout-dim", "16", *RECURRENT, *SUMMARISERS]),
    "abs": ("plain", ["--arch", "abs", "--optimizer", "sgd", "--lr", "0.05", *SUMMARISERS]),
    "convs2s": ("plain", ["--arch", "convs2s", *CONVOLUTIONS, *SUMMARISERS]),
    "tagger": ("marked", ["--arch", "word_tagger", *SELECTORS]),
    "extractor": ("marked", ["--arch", "sentence_extractor", *SELECTORS]),
}
STEPS, TRAINED_STEPS = 10, 150
TRAINED = {"etads": 400, "lvt2k": TRAINED_STEPS, "pg_coverage": TRAINED_STEPS, "convs2s": TRAINED_STEPS}


def run(command, cwd, status=0):
    """Run a command with one thread, and return its standard output; fail if its exit status is not ``status``."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "COLUMNS": "100"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment["PYTHONPATH"] = str(PACKAGES)
    command = [str(word) for word in command]
    streams = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    done = subprocess.run(command, cwd=cwd, env=environment, check=False, **streams)
    if status is not None and done.returncode != status:
        said = done.stdout[-2000:] + done.stderr[-3000:]
        raise SystemExit(f"{' '.join(command)}\nexit status {done.returncode}\n{said}")
    return done


def describe_processor():
    """Return the processor's name and its widest vector instructions."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    name = re.search(r"model name\s*: (.+)", text)
    widest = [flag for flag in ("amx_tile", "avx512f", "avx2") if f" {flag} " in text]
    return f"{name.group(1) if name else 'unknown'}, {widest[0] if widest else 'no AVX2'}"


def read_sample(split, names=False):
    """Yield the sources and the targets of a split of the sample corpus, after the packages' names if wanted."""
    for side in ("package", "source", "target")[not names :]:
        with lzma.open(ROOT / "preprocess" / "sample" / f"{split}.{side}.xz", "rt", encoding="utf-8") as file:
            yield file.read().split("\n")[:-1]


def make_data(folder):
    """Checksums of the text and of the prepared data of a small corpus in each format."""
    raw = folder / "raw"
    cnndm, table = corpora.cnndm(raw / "cnndm", (14, 3, 3), names=True), corpora.rows(40)
    stories = ["--stories", cnndm / "cnn/stories", cnndm / "dailymail/stories", "--urls", cnndm / "url_lists"]
    split, plain = ["--split", "60/20/20"], corpora.plain(raw / "parallel")
    pairs = [[f"--{part}", plain / f"{part}.source", plain / f"{part}.target"] for part in SPLITS]
    kinds = {
        "cnndm": ["cnndm", *stories, "--expect", "any"],
        "gigaword": ["gigaword", "--data", corpora.gigaword(raw / "gigaword")],
        "duc": ["duc", "--docs", corpora.duc(raw / "duc") / "docs", "--models", raw / "duc/models"],
        "duc_parallel": ["duc", "--data", corpora.duc_parallel(raw / "duc_parallel")],
        "sumpubmed": ["sumpubmed", "--data", corpora.sumpubmed(raw / "sumpubmed", 25)],
        "scitldr": ["scitldr", "--data", corpora.scitldr(raw / "scitldr", (20, 4, 4))],
        "squad": ["squad", "--data", corpora.squad(raw / "squad")],
        "parallel": ["parallel", *pairs[0], *pairs[1], *pairs[2]],
    }
    for kind in ("jsonl", "csv", "tsv", "parquet"):
        kinds[f"table_{kind}"] = ["table", "--input", corpora.table(raw / f"table.{kind}", table), *split]
    found = {}
    for name, arguments in kinds.items():
        run(["etads-corpus", *arguments, "--out", f"text/{name}", "--jobs", "1"], folder)
        found[name] = compute_checksums(folder / "text" / name)
    packages = list(zip(*read_sample("train", names=True)))[:300]
    stanzas = [
        f"Package: {name.split()[0]}\nDescription-md5: {number}\nDescription-en: {target}\n {source}\n"
        for number, (name, source, target) in enumerate(packages)
    ]
    index = corpora.write(raw / "Translation-en", "\n".join(stanzas))
    sizes = ["--valid-size", "20", "--test-size", "20"]
    run(["etads-debian", "--translation", index, "--out", "text/debian", *sizes], folder)
    run(["etads-debian", "--sample", "--out", "text/sample"], folder)
    for name in ("debian", "sample"):
        found[name] = compute_checksums(folder / "text" / name)
    settings = {
        "cnndm_words": ["cnndm", "--tokens", "word", "--size", "60", "--corpus", "cnndm"],
        "cnndm_bpe": ["cnndm", "--tokens", "bpe", "--size", "120"],
        "cnndm_pieces": ["cnndm", "--tokens", "sentencepiece", "--size", "75", "--source-sentence-marks"],
        "gigaword_words": ["gigaword", "--tokens", "word", "--size", "40", "--corpus", "gigaword"],
        "parallel_factors": ["parallel", "--tokens", "word", "--size", "60", "--factors", "tf", "idf"],
        "sample_case": ["sample", "--tokens", "word", "--size", "3000", "--keep-case", "--words", "ptb"],
    }
    for name, (text, *options) in settings.items():
        run(["etads-prepare", f"text/{text}", f"prepared/{name}", *options, "--jobs", "1"], folder)
        found[f"prepared {name}"] = compute_checksums(folder / "prepared" / name)
    return found


def compute_checksums(folder):
    """Map each data file of a folder to the beginning of its SHA-256; reports, which name paths, are left out."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix not in (".json", ".log")]
    files = [path for path in files if path.name not in ("SHA256SUMS", "complete")]
    names = [path.relative_to(folder).as_posix() for path in files]
    return {name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for name, path in zip(names, files)}


def make_bundled(folder):
    """Summaries of test documents of the sample; the model for long documents reads ten of them as one."""
    documents, _ = read_sample("test")
    texts = {"debian": documents[:40], "paper": [" ".join(documents[n : n + 10]) for n in range(40, 140, 10)]}
    found = {}
    for model, lines in texts.items():
        (folder / f"{model}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        default = "hypothesis" if model == "debian" else "content"
        ways = {"fp32": ["--infer-dtype", "fp32"]}
        ways |= {kind: ["--infer-dtype", kind] for kind in ("bf16", "int8")}
        ways |= {f"choose {way}": ["--choose", way] for way in ("none", "hypothesis", "content") if way != default}
        ways["lengths"] = ["--beam", "4", "--min-len", "8", "--max-len", "40", "--no-repeat-ngram-size", "3"]
        for name, options in ways.items():
            arguments = ["etads-summarize", model, f"{model}.txt", "--lines", "--device", "cpu", "--quiet", *options]
            done = run([*arguments, "--output-format", "jsonl"], folder, status=None)
            if done.returncode:
                found[f"{model} {name}"] = re.sub(r"\S+/bundled/", "", done.stderr.strip().split("\n")[-1])
                continue
            records = [json.loads(line) for line in done.stdout.splitlines()]
            found[f"{model} {name}"] = [record["summary"] for record in records]
            if name == "fp32":
                keys = ("read", "left_out", "score")
                found[f"{model} details"] = [[len(record["copied"]), *map(record.get, keys)] for record in records]
    return found


def prepare(folder):
    """Prepare the beginning of the sample corpus, once with sentence marks in the documents, and with labels."""
    for name in ("plain", "marked"):
        text = folder / f"{name}-text"
        text.mkdir()
        for split, count in SPLITS.items():
            for side, lines in zip(("source", "target"), read_sample(split)):
                if name == "marked" and side == "source":
                    lines = [line.replace(". ", ". <q> ") for line in lines]
                (text / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines[:count]), encoding="utf-8")
        marks = ["--source-sentence-marks"] if name == "marked" else []
        options = ["--tokens", "word", "--size", "1500", "--jobs", "1", *marks]
        run(["etads-prepare", text, folder / name, *options], folder)
    for kind in ("words", "extract"):
        run(["etads-labels", folder / "marked", "--kind", kind, "--jobs", "1"], folder)


def train(folder, name, steps, save):
    """Train a family's model until ``steps``, and return the loss of each step of this call."""
    data, options = FAMILIES[name]
    command = ["fairseq-train", folder / data / "bin", *PLUGIN, *options, *TRAIN, "--max-update", steps]
    done = run([*command, "--save-dir", save], folder)
    lines = [json.loads(line) for line in re.findall(r"\| train_inner \| (\{.*\})", done.stdout + done.stderr)]
    return [float(line["loss"]) for line in lines]


def make_losses(folder):
    """Losses of ten steps of each family; the second list is trained for five steps and continued."""
    prepare(folder)
    found = {}
    for name in FAMILIES:
        whole = train(folder, name, STEPS, folder / f"{name}-whole")
        parts = [train(folder, name, steps, folder / f"{name}-parts") for steps in (STEPS // 2, STEPS)]
        found[name] = {"whole": whole, "resumed": parts[0] + parts[1]}
        print(f"{name}: {whole[0]} … {whole[-1]}", file=sys.stderr, flush=True)
    return found


def make_trained(folder):
    """Summaries of the test split by fairseq-generate, generate.sh and an exported model; extracts of selectors."""
    prepare(folder)
    found = {}
    for name, steps in TRAINED.items():
        train(folder, name, steps, folder / name / "checkpoints")
        search = ["--beam", "4", "--max-len-b", "20", "--min-len", "3", "--batch-size", "10", "--cpu"]
        ways = {"": [], " penalties": ["--lenpen", "0.9", "--length-penalty-type", "wu", "--no-repeat-ngram-size", "2"]}
        if name == "etads":
            ways[" penalties"] += ["--coverage-penalty", "1", "--nbest", "2"]
        for way, options in ways.items():
            path = folder / name / "checkpoints/checkpoint_last.pt"
            command = ["fairseq-generate", folder / "plain/bin", *PLUGIN, "--path", path, *search, *options]
            lines = re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", run(command, folder).stdout, re.MULTILINE)
            found[f"{name}{way}"] = [text for _, _, text in sorted(lines, key=lambda line: int(line[0]))]
    options = ["--prepared", folder / "plain", "--checkpoint", folder / "etads/checkpoints/checkpoint_last.pt", "--cpu"]
    script = [ROOT / "scripts/generate.sh", "--run", folder / "etads", "--output", folder / "script.txt"]
    run([*script, "--beam", "4", "--max-len", "20", *options], folder)
    found["etads generate.sh"] = (folder / "script.txt").read_text(encoding="utf-8").splitlines()
    run(["etads-export", folder / "etads", folder / "model", "--prepared", folder / "plain", *options[2:4]], folder)
    (folder / "raw.txt").write_text("".join(f"{line}\n" for line in next(read_sample("test"))[:40]), encoding="utf-8")
    arguments = ["etads-summarize", "model", "raw.txt", "--lines", "--quiet", "--device", "cpu"]
    found["etads exported"] = run(arguments, folder).stdout.splitlines()
    for name, unit in (("extractor", "selector"), ("tagger", "tagger")):
        train(folder, name, TRAINED_STEPS, folder / name / "checkpoints")
        run(["etads-select", folder / name, "--prepared", folder / "marked", "--checkpoint", "last"], folder)
        out = folder / f"{name}.txt"
        run(["etads-extract", folder / "marked", out, "--by", unit, "--selection", folder / name], folder)
        found[name] = out.read_text(encoding="utf-8").splitlines()
    return found


PACKAGES = Path(tempfile.mkdtemp())
"""Folder of links to the packages in this repository, so that the installed ones are not used."""
GROUPS = {name[5:]: function for name, function in list(globals().items()) if name.startswith("make_")}


def iterate_differences(old, new, same_processor, where=""):
    """Yield a line for each difference that is not due to another processor."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            if key in old and key in new:
                yield from iterate_differences(old[key], new[key], same_processor, f"{where} {key}")
            else:
                yield f"{where} {key}: {'only recorded' if key in old else 'not recorded'}"
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        changed = [line for a, b in zip(old, new) for line in iterate_differences(a, b, same_processor, where)]
        if same_processor or len(changed) > len(old) / 10:
            yield from changed
    elif isinstance(old, float) and isinstance(new, (int, float)) and not same_processor:
        if not math.isclose(old, new, rel_tol=1e-3):
            yield f"{where}: {old} -> {new}"
    elif old != new:
        yield f"{where}:\n    - {old}\n    + {new}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("record", "check"))
    parser.add_argument("groups", metavar="GROUP", nargs="*", choices=[*GROUPS, []], help="default: all")
    args = parser.parse_args()
    for name, package in (("fairseq_etads", "fairseq_etads"), ("etads_preprocess", "preprocess")):
        (PACKAGES / name).symlink_to(ROOT / package)
    failed = False
    for name in args.groups or GROUPS:
        path, processor = HERE / f"{name}.json", describe_processor()
        with tempfile.TemporaryDirectory() as folder:
            found = GROUPS[name](Path(folder))
        if args.action == "record":
            content = {"processor": processor, "found": found}
            path.write_text(json.dumps(content, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
            continue
        recorded = json.loads(path.read_text(encoding="utf-8"))
        same = recorded["processor"] == processor
        differences = list(iterate_differences(recorded["found"], json.loads(json.dumps(found)), same))
        failed |= bool(differences)
        note = "" if same else f" (recorded on {recorded['processor']}; here: {processor})"
        print(f"{name}: {len(differences) or 'no'} differences{note}", *differences, sep="\n  ")
    shutil.rmtree(PACKAGES)
    sys.exit(failed)


if __name__ == "__main__":
    main()
