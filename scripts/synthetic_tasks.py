#!/usr/bin/env python3
"""Train tiny models on synthetic tasks, each designed for one mechanism, and record their accuracy.

    python scripts/synthetic_tasks.py [--tasks position …] [--systems basic …] [--seeds 1 2 3]

Documents consist of random words, so a model can learn nothing except the rule of the task:

    marked    five sentences of four words, one of them after a marker. The summary is the marked sentence. This task is
              designed for copying.
    position  two numbers and 8 words. The summary consists of the words at these two positions. This task is designed
              for focus-attention, which can compute a centre (mu) from a number.
    salient   16 words. Four of them are salient, which means that they come from a certain quarter of the vocabulary;
              all words are equally frequent. The summary consists of the four salient words in order. This task is
              designed for saliency-selection, which can close its gate for a word.

Each system is trained with fairseq's Trainer as in fairseq-train, on new documents in each step. The accuracy is the
share of summary words that a greedy search generates at the correct position, for 200 documents that are the same for
all systems. results/synthetic_tasks.json contains the accuracy curve and the options of each training run. Runs that
are already in the file are not repeated, so the script can be interrupted. A run takes half a minute on one core.
"""

import argparse
import datetime
import json
import os
import subprocess
import time
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks import TASK_REGISTRY
from fairseq.trainer import Trainer

import fairseq_etads  # noqa: F401  (registers models, task and criterion with fairseq)
from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.jobs.architectures import make_numbered_dictionary
from fairseq_etads.platform.outputs import write_text
from fairseq_etads.version import get_version

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "synthetic_tasks.json"
WORDS = 60
"""Number of words in the vocabulary, not counting special symbols, numbers and the marker."""
FIRST = 4
"""Id of the first word, after the special symbols."""
NUMBERS = 24
"""Number of ids that represent numbers in the vocabulary."""
PLACES = 8
"""Number of positions in a document to which a number can refer.

With 24 positions, basic and focus produced only 7 % and 9 % of the words after 600 steps (one seed), which is too few
for a comparison.
"""
MARKER = FIRST + WORDS + NUMBERS
VOCABULARY = MARKER + 1
EOS = 2

Pair = Tuple[List[int], List[int]]


def sample_marked_sentence_pair(generator: torch.Generator) -> Pair:
    """Draw a document with a marked sentence, and return the document and the sentence."""
    sentences = (FIRST + torch.randint(WORDS, (5, 4), generator=generator)).tolist()
    chosen = int(torch.randint(5, (), generator=generator))
    document = [word for number, words in enumerate(sentences) for word in ([MARKER] * (number == chosen) + words)]
    return document, sentences[chosen]


def sample_position_pair(generator: torch.Generator) -> Pair:
    """Draw a document that begins with two numbers, and return the document and the words at these two positions."""
    words = (FIRST + torch.randint(WORDS, (PLACES,), generator=generator)).tolist()
    places = torch.randint(PLACES, (2,), generator=generator).tolist()
    return [FIRST + WORDS + place for place in places] + words, [words[place] for place in places]


def sample_salient_words_pair(generator: torch.Generator) -> Pair:
    """Draw a document with words of two kinds, and return the document and its four salient words.

    The document contains three times as many distractors, drawn from three times as many words.
    """
    kinds = torch.randperm(16, generator=generator) < 4
    drawn = torch.rand(16, generator=generator)
    quarter = WORDS // 4
    numbers = torch.where(kinds, drawn * quarter, quarter + drawn * (WORDS - quarter)).long()
    document = FIRST + numbers
    return document.tolist(), document[kinds].tolist()


TASKS: Dict[str, Callable[[torch.Generator], Pair]] = {
    "marked": sample_marked_sentence_pair,
    "position": sample_position_pair,
    "salient": sample_salient_words_pair,
}
NARROW = ["--focus-center", "relative", "--focus-initial-scope", "2,2,2,half"]
SYSTEMS = {
    "basic": ["--arch", "etads_basic"],
    "pointer": ["--arch", "etads_basic", "--pointer", "soft"],
    "focus": ["--arch", "etads_focus"],
    "focus, relative": ["--arch", "etads_focus", *NARROW],
    "saliency": ["--arch", "etads_saliency"],
    "saliency, open": ["--arch", "etads_saliency", "--saliency-gate", "open"],
}
SYSTEMS_OF = {
    "marked": ["basic", "pointer"],
    "position": ["basic", "focus", "focus, relative"],
    "salient": ["basic", "saliency", "saliency, open"],
}
"""Systems to compare on each task: without a mechanism, and with the mechanism for which the task is designed."""


class ExperimentSize(NamedTuple):
    """The sizes of the model and of the training data."""

    steps: int = 600
    every: int = 100
    """Number of steps between two measurements."""
    batch: int = 64
    width: int = 64
    rate: float = 3e-3
    documents: int = 200


SIZE_HELP = {
    "steps": "number of training steps",
    "every": "number of steps between two measurements of the accuracy",
    "batch": "number of pairs per training batch",
    "width": "model width",
    "rate": "learning rate",
    "documents": "number of documents on which the accuracy is measured",
}
"""Help texts of the options that set the fields of :class:`ExperimentSize`."""


def collate_pairs(pairs: List[Pair]) -> Dict[str, Any]:
    """Collate pairs of equal lengths into a batch, like a fairseq data set."""
    source = torch.tensor([[*document, EOS] for document, _ in pairs])
    target = torch.tensor([[*summary, EOS] for _, summary in pairs])
    return {
        "id": torch.arange(len(pairs)),
        "nsentences": len(pairs),
        "ntokens": target.numel(),
        "net_input": {
            "src_tokens": source,
            "src_lengths": torch.full((len(pairs),), source.shape[1]),
            "prev_output_tokens": target.roll(1, dims=1),
        },
        "target": target,
    }


def create_trainer(system: str, seed: int, size: ExperimentSize) -> Trainer:
    """Create fairseq's Trainer for a tiny model, using the arguments of fairseq-train."""
    command = ["data", "--task", "summarization", "--criterion", "summarization_nll", *SYSTEMS[system], "--cpu"]
    command += ["--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", str(size.rate), "--clip-norm", "2"]
    command += ["--lr-scheduler", "polynomial_decay", "--warmup-updates", str(size.steps // 10)]
    command += ["--total-num-update", str(size.steps), "--max-update", str(size.steps), "--max-tokens", "4000"]
    command += ["--dropout", "0", "--attention-dropout", "0", "--label-smoothing", "0", "--seed", str(seed)]
    for side in ("encoder", "decoder"):
        command += [f"--{side}-layers", "2", f"--{side}-attention-heads", "4", f"--no-{side}-learned-pos"]
        command += [f"--{side}-embed-dim", str(size.width), f"--{side}-ffn-embed-dim", str(2 * size.width)]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), command))
    torch.manual_seed(seed)
    dictionary = make_numbered_dictionary(VOCABULARY)
    task = TASK_REGISTRY["summarization"](cfg.task, dictionary, dictionary)
    trainer = Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))
    trainer.lr_step_begin_epoch(1)
    return trainer


def compute_accuracy(trainer: Trainer, pairs: List[Pair]) -> float:
    """Compute the share of summary words that a greedy search generates at the correct position."""
    trainer.model.eval()
    length = len(pairs[0][1])
    generator = SummaryGenerator([trainer.model], trainer.task.target_dictionary, 1, max_len_b=length + 1)
    found = generator.generate([trainer.model], collate_pairs(pairs))
    trainer.model.train()
    words = [best[0]["tokens"].tolist()[:length] for best in found]
    right = sum(one == other for written, (_, summary) in zip(words, pairs) for one, other in zip(written, summary))
    return right / (length * len(pairs))


def train_system(task: str, system: str, seed: int, size: ExperimentSize) -> Dict[str, Any]:
    """Train a system on a task and return its record."""
    draw = TASKS[task]
    tests = torch.Generator().manual_seed(0)  # the same documents for all systems and seeds
    pairs = [draw(tests) for _ in range(size.documents)]
    documents = torch.Generator().manual_seed(1000 + seed)
    trainer = create_trainer(system, seed, size)
    curve, began = {}, time.process_time()
    for step in range(1, size.steps + 1):
        trainer.train_step([collate_pairs([draw(documents) for _ in range(size.batch)])])
        if step % size.every == 0:
            curve[str(step)] = round(100 * compute_accuracy(trainer, pairs), 1)
    return {
        "task": task,
        "system": system,
        "seed": seed,
        "options": " ".join(SYSTEMS[system]),
        **size._asdict(),
        "parameters": sum(parameter.numel() for parameter in trainer.model.parameters()),
        "accuracy": curve,
        "processor seconds": round(time.process_time() - began, 1),
        "version": get_version(),
        "commit": subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.strip(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "load": round(os.getloadavg()[0], 2),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def read_records(path: Path) -> List[Dict[str, Any]]:
    """Read the records in the file. The result is empty if there is no such file."""
    return json.loads(path.read_text(encoding="utf-8"))["trainings"] if path.exists() else []


def get_record_key(record: Dict[str, Any]) -> Tuple[str, str, int]:
    """Return the task, system and seed of a record."""
    return record["task"], record["system"], record["seed"]


def write_training_records(path: Path, records: List[Dict[str, Any]]) -> None:
    """Write the file with one line per training run."""
    lines = ",\n".join(json.dumps(record) for record in sorted(records, key=get_record_key))
    write_text(path, f'{{\n"format": "fairseq-etads synthetic tasks 1",\n"trainings": [\n{lines}\n]\n}}\n')


def main() -> None:
    """Train all models that are missing from the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument(
        "--systems",
        nargs="+",
        choices=list(SYSTEMS),
        metavar="SYSTEM",
        help="systems to train (default: basic, and the systems with the mechanism for which the task is designed)",
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument(
        "--output", type=Path, default=RESULTS, help="JSON output file for the records (default: %(default)s)"
    )
    for name, default in ExperimentSize()._asdict().items():
        parser.add_argument(
            f"--{name}", type=type(default), default=default, help=f"{SIZE_HELP[name]} (default: %(default)s)"
        )
    parser.add_argument(
        "--minutes", type=float, default=1e9, help="number of minutes after which no further training run is started"
    )
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    began = time.monotonic()
    size = ExperimentSize(*(getattr(args, name) for name in ExperimentSize._fields))
    for seed in args.seeds:
        for task in args.tasks:
            for system in args.systems or SYSTEMS_OF[task]:
                records = read_records(args.output)
                late = time.monotonic() - began > 60 * args.minutes
                if not late and (task, system, seed) not in map(get_record_key, records):
                    record = train_system(task, system, seed, size)
                    print(task, system, seed, record["accuracy"], record["processor seconds"], flush=True)
                    write_training_records(args.output, [*read_records(args.output), record])


if __name__ == "__main__":
    main()
