"""Compare the rules of ``--early-stopping`` by the steps and hypotheses that the search of a trained model requires.

    python benchmarks/bench_stopping.py [--work DIR] [--output benchmarks/results/stopping.json] [--documents 200]

``scripts/quickstart.sh --steps 600`` trains the model in DIR if it does not exist yet, which takes some minutes. The
model summarises the first documents of the test split with each length penalty and each stopping rule. The report
contains the number of decoder steps and extended hypotheses per document, the numbers of documents for which the best
score is better or worse than with fairseq's rule, and the CPU seconds. The numbers of steps and hypotheses depend on
the model, but hardly on the machine.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import torch
from benchmark_records import write_record
from fairseq import checkpoint_utils

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.search.ensemble import Ensemble
from fairseq_etads.search.options import EARLY_STOPPING
from fairseq_etads.training.options import SummarizationConfig
from fairseq_etads.training.task import SummarizationTask

SCORES = {
    "avg 1": {},
    "wu 0.9": {"length_penalty_type": "wu", "len_penalty": 0.9},
    "wu 0.9, coverage 1": {"length_penalty_type": "wu", "len_penalty": 0.9, "coverage_penalty": 1.0},
}
LONGEST = (30, 99)
BEAM, BATCH = 5, 10
ROOT = Path(__file__).resolve().parents[1]


def find_trained_model(work, steps):
    """Return the data folder and the path of a checkpoint.

    If the checkpoint does not exist, quickstart.sh is run to create it.
    """
    checkpoint = work / "checkpoints" / "checkpoint_best.pt"
    if not checkpoint.exists():
        limits = ["--steps", str(steps), "--minutes", "60"]
        subprocess.run([ROOT / "scripts" / "quickstart.sh", "--no-install", "--out", work, *limits], check=True)
    return work / "prepared" / "bin", checkpoint


def load_batches(data, checkpoint, documents):
    """Load the task, the model, and batches with the first documents of the test split."""
    cfg = SummarizationConfig(data=str(data))
    cfg.train_subset, cfg.dataset_impl, cfg.required_seq_len_multiple = "train", None, 1
    task = SummarizationTask.setup_task(cfg)
    (model,), _ = checkpoint_utils.load_model_ensemble([str(checkpoint)], task=task)
    task.load_dataset("test")
    dataset = task.dataset("test")
    items = [dataset[number] for number in range(documents)]
    found = [dataset.collater(items[start : start + BATCH]) for start in range(0, documents, BATCH)]
    return task, model, found


def measure_search(model, dictionary, samples, **options):
    """Return the best score for each document, and the steps and hypotheses per document and the CPU seconds."""
    generator = SummaryGenerator([model], dictionary, BEAM, **options)
    generator.generate(None, samples[0])  # the first search packs the weights
    steps = hypotheses = 0
    plain = Ensemble.score_next_words

    def step_and_count_hypotheses(self, tokens, first):
        nonlocal steps, hypotheses
        steps += len(tokens)
        hypotheses += len(tokens) * (1 if first else tokens.shape[1])
        return plain(self, tokens, first)

    Ensemble.score_next_words = step_and_count_hypotheses
    began = time.process_time()
    scores = {
        int(number): float(row[0]["score"])
        for sample in samples
        for number, row in zip(sample["id"], generator.generate(None, sample))
    }
    seconds = time.process_time() - began
    Ensemble.score_next_words = plain
    return scores, {"steps": steps / len(scores), "hypotheses": hypotheses / len(scores), "seconds": seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "bench_stopping")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "stopping.json")
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--steps", type=int, default=600, help="number of training steps (default: %(default)s)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    data, checkpoint = find_trained_model(args.work, args.steps)
    task, model, samples = load_batches(data, checkpoint, args.documents)
    dictionary = task.target_dictionary
    rows = []
    for longest in LONGEST:
        for name, scoring in SCORES.items():
            base = None
            for rule in reversed(EARLY_STOPPING):
                options = {"max_len_b": longest, "early_stopping": rule, **scoring}
                scores, work = measure_search(model, dictionary, samples, **options)
                base = scores if base is None else base
                better = sum(scores[number] > base[number] + 1e-4 for number in base)
                worse = sum(scores[number] < base[number] - 1e-4 for number in base)
                mean = sum(scores.values()) / len(scores)
                row = {"score": name, "longest": longest, "early_stopping": rule, "mean_score": mean, **work}
                rows.append({**row, "better": better, "worse": worse})
                print(json.dumps({key: round(x, 3) if isinstance(x, float) else x for key, x in rows[-1].items()}))
    report = {
        "documents": args.documents,
        "beam": BEAM,
        "training_steps": args.steps,
        "rows": rows,
    }
    write_record(args.output, report, args, indent=1)


if __name__ == "__main__":
    main()
