"""A small task for the real commands: the summary is the document's first two words."""

import random
import socket
from concurrent.futures import ThreadPoolExecutor

import torch
from helpers import run_command
from seeds import shifted

WORDS = [f"word{number}" for number in range(24)]
COMMON = ["--num-workers", "0", "--no-progress-bar", "--cpu", "--log-format", "simple", "--seed", str(shifted(7))]
SMALL_MODEL = [
    *("--encoder-layers", "1", "--decoder-layers", "1", "--encoder-embed-dim", "64", "--encoder-ffn-embed-dim", "128"),
    *("--encoder-attention-heads", "4", "--decoder-attention-heads", "4", "--max-tokens", "400"),
    *("--optimizer", "adam", "--clip-norm", "2", *COMMON),
]
PREPROCESS = ["fairseq-preprocess", "-s", "source", "-t", "target", "--joined-dictionary"]
PREPROCESS += ["--user-dir", "fairseq_etads", "--destdir"]  # for the command server
PLUGIN = ["--user-dir", "fairseq_etads", "--task", "summarization"]


def write_pairs(directory, split, count, seed, longest=9, words=WORDS):
    generator = random.Random(seed)
    with open(directory / f"{split}.source", "w") as sources, open(directory / f"{split}.target", "w") as targets:
        for _ in range(count):
            document = generator.sample(words, generator.randint(2, longest))
            sources.write(" ".join(document) + "\n")
            targets.write(" ".join(document[:2]) + "\n")


def write_labelled_pairs(folder):
    """Write 50 pairs of texts for --auxiliary-data, labelled by whether the first text contains the second, a word."""
    generator, lines = random.Random(shifted(4)), []
    for number in range(50):
        *text, other = generator.sample(WORDS, 5)
        word, label = (text[0], "entailment") if number % 2 else (other, "neutral")
        lines.append(f"{' '.join(text)}\t{word}\t{label}\n")
    (folder / "train.tsv").write_text("".join(lines))


def train_command(data, save, *options, model=SMALL_MODEL):
    """A command that trains ETADS, unless another --arch is given, and logs every update."""
    usual = ["--arch", "etads", *model, "--lr", "1e-3", "--no-epoch-checkpoints", "--log-interval", "1"]
    return ["fairseq-train", str(data), *PLUGIN, *usual, "--save-dir", str(save), *options]


def train(data, save, *options, check=True, **more):
    """Train, and return the output."""
    return run_command(train_command(data, save, *options, **more), cwd=save.parent, check=check).stdout


def checkpoint(save, name="last"):
    return torch.load(save / f"checkpoint_{name}.pt", weights_only=True)


def updates_of(save):
    return checkpoint(save)["optimizer_history"][-1]["num_updates"]


def generate(data, model, *options, command="fairseq-generate", **more):
    """Output of fairseq-generate or another command on the test split."""
    usual = ["--path", str(model), "--beam", "3", "--max-len-b", "8", "--cpu"]
    return run_command([command, str(data), *PLUGIN, *usual, *options], cwd=model.parent, **more).stdout


def by_two_workers(train, *arguments, backend="legacy_ddp"):
    """Results of ``train(*arguments, *options)`` in each of two workers on the CPU, in the order of their ranks."""
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        port = taken.getsockname()[1]
    options = ["--distributed-world-size", "2", "--distributed-init-method", f"tcp://localhost:{port}"]
    options += ["--distributed-no-spawn", "--ddp-backend", backend]
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(train, *arguments, *options, "--distributed-rank", str(rank)) for rank in (0, 1)]
        return [run.result() for run in runs]


def hypotheses(output):
    """Read scores and words of all hypotheses that fairseq-generate printed, by the number of the document."""
    found = {}
    for line in output.splitlines():
        if line.startswith("H-"):
            number, score, words = line[2:].split("\t")
            found.setdefault(int(number), []).append((float(score), words))
    return found


def summaries(output):
    """Read the best summary of each document, by its number."""
    return {number: rows[0][1] for number, rows in hypotheses(output).items()}
