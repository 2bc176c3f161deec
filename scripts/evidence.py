#!/usr/bin/env python3
"""Store the results of scripts/reproduce/evidence.sh, from which scripts/results_page.py creates docs/results.md.

    python scripts/evidence.py extract SUMMARIES --kind lead-3 --text TEXT
    python scripts/evidence.py choose --corpus debian --text TEXT --kinds lead-8-words lead-12-words
    python scripts/evidence.py record RUN --corpus debian --system etads --seed 1 --checkpoint best --command COMMAND
    python scripts/evidence.py rates RUN …
    python scripts/evidence.py words FOLDER --prepared DIR --lengths 60 40
    python scripts/evidence.py search CHECKPOINT TOKENS --data BIN --user-dir EXAMPLE --beam 5 --min-len 4 …
    python scripts/evidence.py detokenise WORDS TEXT --prepared DIR

"extract" writes extracts of the test documents with an untrained system. "choose" finds the best of several such
systems on the validation pairs and writes results/extracts.json. "record" stores a run. "rates" writes the validation
perplexities of runs that differ in the learning rate to results/rates.json. The other commands convert words to the
format of fairseq's pointer-generator example, and its summaries back to text.

A record is a file results/CORPUS/SYSTEM-SEED.json. It contains the command, the versions of the code and the machine,
the scores of every test document, and the log-likelihood of every reference. Significance tests therefore require only
records, and later runs can be compared with earlier ones.
"""

import argparse
import importlib.metadata
import json
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Tuple

from fairseq_etads.evaluation.analysis import make_baseline_extract
from fairseq_etads.evaluation.likelihood_file import CHECKPOINTS, make_likelihood_file_path, read_likelihoods
from fairseq_etads.evaluation.rouge import METRICS, RougeSettings, rouge
from fairseq_etads.evaluation.summaries import SENTENCE_MARK, split_summary_into_sentences
from fairseq_etads.evaluation.training_log import TRAIN, TrainingLog, find_log, read_log
from fairseq_etads.platform.outputs import open_output
from fairseq_etads.text.json_files import SIDES, SPLITS
from fairseq_etads.version import get_version

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
FORMAT = "fairseq-etads evidence 1"
MECHANISMS = ("gate", "focus_distance", "focus_scope", "focus_share", "p_gen")
"""Figures about the mechanisms, which criterions log during training."""


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def read_training_command(run: Path) -> str:
    """Return the command that trained ``run``, with folders replaced by the placeholders DATA, RUN and FAIRSEQ."""
    command = (run / "finished.txt").read_text(encoding="utf-8").strip()
    command = re.sub(r"(?<=^fairseq-train )\S+", "DATA/bin", command)
    command = re.sub(r"\S+(?=/examples/pointer_generator)", "FAIRSEQ", command)
    return re.sub(r"(?<=--save-dir )\S+", "RUN/checkpoints", command)


def read_parameter_count(log: Path) -> int:
    """Read the number of parameters from a training log."""
    found = re.search(r"num\. shared model params: ([\d,]+)", log.read_text(encoding="utf-8", errors="replace"))
    if not found:
        raise ValueError(f"{log}: no number of parameters in fairseq-train's log")
    return int(found.group(1).replace(",", ""))


def read_mechanism_statistics(log: TrainingLog) -> Dict[str, List[float]]:
    """Return the values of each figure about a mechanism, after the first step and after each tenth of training."""
    series = {name: log.figures[name][TRAIN] for name in MECHANISMS if TRAIN in log.figures.get(name, {})}
    return {name: [values[step] for step in choose_steps_at_tenths(list(values))] for name, values in series.items()}


def choose_steps_at_tenths(steps: List[int]) -> List[int]:
    """Return the first step and the steps nearest to 1/10, 2/10 … 10/10 of the last step."""
    return [steps[0], *(min(steps, key=lambda step: abs(step - steps[-1] * part / 10)) for part in range(1, 11))]


def run_git(*arguments: str) -> str:
    """Return the output of a git command in the repository."""
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def describe_processor() -> str:
    """Return the name of the processor and its widest vector instructions."""
    path = Path("/proc/cpuinfo")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    name = re.search(r"model name\s*: (.+)", text)
    widest = next((kind for flag, kind in (("avx512f", ", AVX-512"), ("avx2", ", AVX2")) if f" {flag} " in text), "")
    return (name.group(1) if name else platform.processor()) + widest


def make_training_fields(run: Path, checkpoint: str) -> Dict[str, Any]:
    """Return the fields of a record that exist only for trained systems."""
    path = find_log(str(run))
    log, file = read_log(path), make_likelihood_file_path(run, "test", checkpoint)
    perplexities = log.figures["ppl"]["valid"]
    likelihoods: Dict[str, Any] = {}
    if file.exists():
        found = read_likelihoods(file)
        rounded = [round(value, 3) for value in found.log_likelihood]
        likelihoods = {"data": found.data, "log_likelihood": rounded, "tokens": found.tokens, "unknown": found.unknown}
    return {
        "training": read_training_command(run),
        "torch": importlib.metadata.version("torch"),
        "parameters": read_parameter_count(path),
        "steps": log.updates,
        "valid_perplexity": min(perplexities.values()) if checkpoint == "best" else perplexities[max(perplexities)],
        "mechanisms": read_mechanism_statistics(log),
        **likelihoods,
    }


def write_record(args: argparse.Namespace) -> None:
    """Write the record of a run.

    The record is created from the files rouge.json, scores.jsonl, analysis.json and, if it exists, attention.json.
    """
    run = args.run
    rouge = read_json(run / "rouge.json")
    lines = [json.loads(line) for line in (run / "scores.jsonl").read_text(encoding="utf-8").splitlines()]
    content = {
        "format": FORMAT,
        "corpus": args.corpus,
        "system": args.system,
        "seed": args.seed,
        "command": args.command,
        "version": get_version(),
        "commit": run_git("rev-parse", "HEAD")
        + ("-dirty" if run_git("status", "--porcelain", "--untracked-files=no") else ""),
        "python": platform.python_version(),
        "processor": describe_processor(),
        "rouge": {"signature": rouge["signature"], "scores": rouge["scores"]},
        "analysis": read_json(run / "analysis.json")["systems"]["summaries"]["figures"],
        **(make_training_fields(run, args.checkpoint) if args.checkpoint else {}),
        **({"attention": read_json(run / "attention.json")} if (run / "attention.json").exists() else {}),
        "f1": {metric: [round(line[metric]["f1"], 2) for line in lines] for metric in METRICS},
    }
    path = args.results / args.corpus / f"{args.system}-{args.seed}.json"
    with open_output(path) as file:
        file.write(format_json_by_entry(content))
    print(f"{path}: recorded", file=sys.stderr)


def format_json_by_entry(content: Dict[str, Any]) -> str:
    """Format a JSON object with one line per entry, so that diffs show individual entries."""
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items()) + "\n}\n"


EXTRACT = re.compile(r"(?:(lead|oracle|textrank|lexrank)-(\d+)|(lead|textrank|lexrank)-(\d+)-words)")
"""Pattern for kinds of extracts, which include a number of sentences or words."""


def iterate_extracts(kind: str, documents: Iterable[str], references: Iterable[str]) -> Iterator[str]:
    """Yield an extract from each document.

    An extract consists of the beginning, the most central sentences, or the sentences that match the summary best.
    """
    named = EXTRACT.fullmatch(kind)
    if not named:
        names = "lead-N, lead-N-words, oracle-N, textrank-N, textrank-N-words, lexrank-N or lexrank-N-words"
        raise SystemExit(f"--kind {kind}: choose {names}, with a number for N")
    method, limit, in_words = named[1] or named[3], int(named[2] or named[4]), bool(named[3])
    settings = RougeSettings()
    for document, reference in zip(documents, references):
        if method in ("lead", "oracle"):
            sentences = make_baseline_extract(
                f"{method}-words" if in_words else method, limit, document, [reference], settings
            )
        else:
            sentences = find_central_sentences(
                method, limit, in_words, split_summary_into_sentences(document, SENTENCE_MARK)
            )
        yield f" {SENTENCE_MARK} ".join(sentences)


def find_central_sentences(method: str, limit: int, in_words: bool, sentences: List[str]) -> List[str]:
    """Return the most central sentences in document order, according to TextRank or LexRank in sumy.

    If the limit is in words, only the first words of the most central sentence are returned.

    Args:
        sentences: sentences of a document, which are split in the same way for all systems.
    """
    from sumy.models.dom import ObjectDocumentModel, Paragraph, Sentence  # an optional dependency
    from sumy.summarizers.lex_rank import LexRankSummarizer
    from sumy.summarizers.text_rank import TextRankSummarizer

    class SumyTokenizer:
        """Tokeniser in the form that sumy expects."""

        def to_words(self, text: str) -> Tuple[str, ...]:
            return tuple(re.findall(r"[a-z0-9]+", text.lower()))

    tokenizer = SumyTokenizer()
    document = ObjectDocumentModel([Paragraph([Sentence(sentence, tokenizer) for sentence in sentences])])
    summariser = {"textrank": TextRankSummarizer, "lexrank": LexRankSummarizer}[method]()
    chosen = [str(sentence) for sentence in summariser(document, 1 if in_words else limit)] or sentences[:1]
    return [" ".join(chosen[0].split()[:limit])] if in_words and chosen else chosen


def read_text(folder: Path, split: str) -> List[List[str]]:
    """Read the documents and the summaries of a split."""
    return [(folder / f"{split}.{side}").read_text(encoding="utf-8").splitlines() for side in SIDES]


def write_extracts(args: argparse.Namespace) -> None:
    """Write an extract of each test document."""
    lines = iterate_extracts(args.kind, *read_text(args.text, "test"))
    args.summaries.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def choose_extracts(args: argparse.Namespace) -> None:
    """Score extracts of the validation documents, and store the scores and the best kind of extract for each method."""
    documents, references = read_text(args.text, "valid")
    found = {}
    for kind in args.kinds:
        scores = rouge(list(iterate_extracts(kind, documents, references)), references, bootstrap=1).scores
        found[kind] = round(sum(score.f1 for score in scores.values()) / len(scores), 2)
        print(f"{kind}: {found[kind]}", flush=True)
    methods = sorted({kind.split("-")[0] for kind in found})
    best = {name: max((kind for kind in found if kind.startswith(name)), key=found.__getitem__) for name in methods}
    path = args.results / "extracts.json"
    content = read_json(path) if path.exists() else {"format": "fairseq-etads extracts 1"}
    content[args.corpus] = {
        "figure": "mean of ROUGE-1, 2 and L (F1) of the validation pairs",
        "pairs": len(references),
        "command": f"scripts/evidence.py choose --corpus {args.corpus} --text TEXT --kinds {' '.join(args.kinds)}",
        "version": get_version(),
        "validation": found,
        "best": best,
    }
    with open_output(path) as file:
        file.write(format_json_by_entry(content))


def compare_learning_rates(args: argparse.Namespace) -> None:
    """Store the lowest validation perplexity of each run, and print the runs in order of perplexity."""
    found = {}
    for run in args.runs:
        log = read_log(find_log(str(run)))
        perplexity = min(log.figures["ppl"]["valid"].values())
        found[run.name] = {"perplexity": perplexity, "steps": log.updates, "training": read_training_command(run)}
    path = args.results / "rates.json"
    content = read_json(path) if path.exists() else {"format": "fairseq-etads learning rates 1"}
    content.update({"version": get_version(), "processor": describe_processor(), **found})
    with open_output(path) as file:
        file.write(format_json_by_entry(content))
    for name, run in sorted(found.items(), key=lambda item: item[1]["perplexity"]):
        print(f"{name}: perplexity {run['perplexity']} after {run['steps']} steps")


def write_fairseq_example_data(args: argparse.Namespace) -> None:
    """Write the truncated words of the prepared data and the dictionary with positions, for fairseq's example."""
    known = read_json(args.prepared / "report.json")["vocabulary"]["known"]["source"]
    entries = (args.prepared / "dict.txt").read_text(encoding="utf-8").splitlines()[:known]
    places = [f"<unk-{place}> 0" for place in range(args.lengths[0])]
    contents = {"dict.txt": [*entries, *places], "known.txt": [entry.rsplit(" ", 1)[0] for entry in entries]}
    for split in SPLITS:
        for side, length in zip(SIDES, args.lengths):
            lines = (args.prepared / "tokens" / f"{split}.{side}").read_text(encoding="utf-8").split("\n")[:-1]
            contents[f"words.{split}.{side}"] = [" ".join(line.split(" ")[:length]) for line in lines]
    for name, lines in contents.items():
        (args.folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_fairseq_example_summaries(args: argparse.Namespace) -> None:
    """Write the best summary that fairseq's example generates for each test document.

    Summaries are written as tokens, in the order of the documents. As for all other systems, this project's search is
    used, because fairseq's own search does not block n-grams on a CPU.
    """
    import torch  # imported here, because the other commands do not require it
    from fairseq import checkpoint_utils, utils

    from fairseq_etads.generation import SummaryGenerator

    utils.import_user_module(argparse.Namespace(user_dir=str(args.user_dir)))
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(args.checkpoint)], {"data": str(args.data)})
    on_gpu = torch.cuda.is_available() and not args.cpu
    for model in models:
        model.eval().to("cuda" if on_gpu else "cpu")
    generator = SummaryGenerator(
        models,
        task.target_dictionary,
        args.beam,
        min_len=args.min_len,
        max_len_b=args.max_len,
        no_repeat_ngram_size=args.no_repeat_ngram_size,
    )
    task.load_dataset("test")
    batches = task.get_batch_iterator(task.dataset("test"), max_tokens=8000, required_batch_size_multiple=1)
    lines: Dict[int, str] = {}
    for sample in batches.next_epoch_itr(shuffle=False):
        results = generator.generate(models, utils.move_to_cuda(sample) if on_gpu else sample)
        for number, found in zip(sample["id"].tolist(), results):
            lines[number] = task.target_dictionary.string(found[0]["tokens"])
    args.tokens.write_text("".join(f"{lines[number]}\n" for number in sorted(lines)), encoding="utf-8")


def write_detokenised_text(args: argparse.Namespace) -> None:
    """Convert lines of words in the form of the prepared data to text."""
    from fairseq_etads.jobs.runs import make_detokenizer  # imported here, because it imports torch
    from fairseq_etads.vocabulary.dictionary import SummarizationDictionary

    dictionary = SummarizationDictionary.load(str(args.prepared / "bin" / "dict.target.txt"))
    tokenizer = make_detokenizer(dictionary, "none", args.prepared)
    lines = args.words.read_text(encoding="utf-8").splitlines()
    args.text.write_text("".join(f"{tokenizer.decode(line)}\n" for line in lines), encoding="utf-8")


def main() -> None:
    """Run the command that is named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    extracting = commands.add_parser("extract", help="write summaries extracted by an untrained system")
    extracting.set_defaults(run_command=write_extracts)
    extracting.add_argument("summaries", type=Path, help="output file for the summaries, one per line")
    extracting.add_argument(
        "--kind",
        required=True,
        help="system to use: lead-N, lead-N-words or oracle-N; if sumy is installed, also textrank-N, lexrank-N, "
        "textrank-N-words or lexrank-N-words",
    )
    extracting.add_argument("--text", type=Path, required=True, help="folder containing test.source and test.target")
    choosing = commands.add_parser(
        "choose", help="find the untrained system with the best scores on the validation pairs"
    )
    choosing.set_defaults(run_command=choose_extracts)
    choosing.add_argument("--text", type=Path, required=True, help="folder containing valid.source and valid.target")
    choosing.add_argument("--corpus", required=True)
    choosing.add_argument("--kinds", nargs="+", required=True, help="systems to compare, named as in extract --kind")
    choosing.add_argument(
        "--results", type=Path, default=RESULTS, help="output file for the results (default: %(default)s)"
    )
    rating = commands.add_parser(
        "rates", help="store the validation perplexities of runs that differ in the learning rate"
    )
    rating.set_defaults(run_command=compare_learning_rates)
    rating.add_argument("runs", type=Path, nargs="+", help="output folder of a training run, named SYSTEM-RATE")
    rating.add_argument(
        "--results", type=Path, default=RESULTS, help="folder of the output file rates.json (default: %(default)s)"
    )
    cutting = commands.add_parser(
        "words", help="convert prepared data to the format of fairseq's pointer-generator example"
    )
    cutting.set_defaults(run_command=write_fairseq_example_data)
    cutting.add_argument("folder", type=Path, help="output folder for the converted files")
    cutting.add_argument("--prepared", type=Path, required=True)
    cutting.add_argument(
        "--lengths", type=int, nargs=2, required=True, help="maximum number of words in documents and in summaries"
    )
    searching = commands.add_parser(
        "search", help="generate summaries with fairseq's pointer-generator example, and write them as tokens"
    )
    searching.set_defaults(run_command=write_fairseq_example_summaries)
    searching.add_argument("checkpoint", type=Path)
    searching.add_argument("tokens", type=Path, help="output file for the tokens")
    searching.add_argument(
        "--data", type=Path, required=True, help="output folder of fairseq-preprocess for the pointer-generator example"
    )
    searching.add_argument(
        "--user-dir", type=Path, required=True, help="path of the example's pointer_generator_src folder"
    )
    searching.add_argument("--cpu", action="store_true", help="do not use a GPU")
    for option in ("--beam", "--min-len", "--max-len", "--no-repeat-ngram-size"):
        searching.add_argument(option, type=int, required=True, help="same as the etads-summarize option of this name")
    joining = commands.add_parser("detokenise", help="convert tokenised summaries to plain text")
    joining.set_defaults(run_command=write_detokenised_text)
    joining.add_argument("words", type=Path)
    joining.add_argument("text", type=Path, help="output file for the plain text")
    joining.add_argument(
        "--prepared",
        type=Path,
        required=True,
        help="folder containing the prepared data from which the words were taken",
    )
    recording = commands.add_parser("record", help="store the results of a run as a record")
    recording.set_defaults(run_command=write_record)
    recording.add_argument(
        "run",
        type=Path,
        help="folder containing rouge.json, scores.jsonl and analysis.json and, for a trained system, the training log",
    )
    recording.add_argument("--corpus", required=True)
    recording.add_argument("--system", required=True)
    recording.add_argument(
        "--seed", type=int, required=True, help="random seed used for training; 1 for an untrained system"
    )
    recording.add_argument("--command", required=True, help="command that was used for this run")
    recording.add_argument(
        "--checkpoint", choices=CHECKPOINTS, help="checkpoint that was evaluated (best or last), for a trained system"
    )
    recording.add_argument(
        "--results", type=Path, default=RESULTS, help="output folder for the records (default: %(default)s)"
    )
    args = parser.parse_args()
    args.run_command(args)


if __name__ == "__main__":
    main()
