#!/usr/bin/env python3
"""Estimate, by simulation, the type-I error and the power of the test in ``etads-compare`` and docs/results.md.

    python scripts/simulate_comparisons.py [--output results/comparisons.json]

Scores are drawn with variances estimated from the records in results/. Each score is the sum of the effect of the
system on the document, the level of the training run, and a residual for the run and the document. Documents of the
same family share a part of the residual. (The difficulty of a document for all systems cancels out in a paired test.)
Two systems with a known difference are then compared many times with the method of etads-compare --families. The JSON
file contains the share of comparisons with p < 0.05 for each number of training runs and each true difference. For a
difference of 0, this share is the type-I error. The script takes about ten minutes on one core.
"""

import argparse
import itertools
import json
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
from results_comparisons import CORPORA, Records, get_rouge_scores, read_documents, read_records

from fairseq_etads.evaluation.resampling import compare_systems_over_runs
from fairseq_etads.platform.outputs import write_text
from fairseq_etads.version import get_version

ROOT = Path(__file__).resolve().parents[1]
TRAININGS = ((2, 2), (3, 3), (5, 5), (10, 10), (3, 5))
DIFFERENCES = (0.0, 0.5, 1.0, 1.5, 2.0)
LEVEL = 0.05


def estimate_rouge_deviations(systems: Records, families: np.ndarray) -> Dict[str, float]:
    """Estimate standard deviations of mean ROUGE (ROUGE-1, 2 and L) from the systems with several training runs.

    The result contains the standard deviations of the mean level of a training run ("training"), of the effect of a
    system on a document ("system"), and of the two parts of the residual: the part that a family shares ("family") and
    the part of a single document ("document").
    """
    levels, left, within = [], [], []
    means_of_systems = []
    count = np.bincount(families)
    for records in systems.values():
        if len(records) < 3:
            continue
        scores = get_rouge_scores(records)[:, :, 3]  # (runs, documents)
        number = len(scores)
        rest = scores - scores.mean(axis=1, keepdims=True)
        rest = (rest - rest.mean(axis=0)) * np.sqrt(number / (number - 1))
        means = np.stack([np.bincount(families, weights=row) / count for row in rest])  # (runs, families)
        left.append((rest**2).mean())
        large = count > 1
        if large.any():  # for a family of m documents, the variance of the mean is family + document / m
            within.append((means[:, large] ** 2 - left[-1] / count[large]).mean())
        means_of_systems.append(scores.mean(axis=0) - scores.mean())
        levels.append(scores.mean(axis=1).var(ddof=1) - left[-1] / scores.shape[1])
    total = float(np.mean(left))
    pairs = itertools.combinations(means_of_systems, 2)
    # each system was trained three times
    system = np.mean([(one - other).var() / 2 - total / 3 for one, other in pairs])
    family = max(float(np.mean(within)), 0.0) if within else 0.0
    return {
        "training": float(np.sqrt(max(np.mean(levels), 0.0))),
        "family": float(np.sqrt(min(family, total))),
        "document": float(np.sqrt(max(total - family, 0.0))),
        "system": float(np.sqrt(max(system, 0.0))),
    }


def simulate_system_scores(
    rng: np.random.Generator, sizes: Dict[str, float], families: np.ndarray, trainings: int, level: float
) -> np.ndarray:
    """Draw the scores (runs, documents, 1) of a system.

    The difficulty of the documents, which is the same for both systems, is left out.
    """
    ways = rng.normal(scale=sizes["system"], size=len(families))
    own = rng.normal(scale=sizes["training"], size=(trainings, 1))
    shared = rng.normal(scale=sizes["family"], size=(trainings, families.max() + 1))[:, families]
    rest = rng.normal(scale=sizes["document"], size=(trainings, len(families)))
    return (level + ways + own + shared + rest)[:, :, None]


def compute_rejection_rates(
    sizes: Dict[str, float], families: np.ndarray, trainings: Tuple[int, int], repeats: int, resamples: int
) -> List[Dict[str, Any]]:
    """Compute the share of comparisons with p < 0.05, for each true difference."""
    found = []
    for difference in DIFFERENCES:
        rng = np.random.default_rng([*trainings, round(10 * difference)])
        times = 0.0
        for repeat in range(repeats):
            first = simulate_system_scores(rng, sizes, families, trainings[0], difference)
            second = simulate_system_scores(rng, sizes, families, trainings[1], 0.0)
            times += compare_systems_over_runs(first, second, resamples, repeat, families)["p_bootstrap"][0] < LEVEL
        found.append({"difference": difference, "below_level": round(float(times) / repeats, 4)})
    return found


def main() -> None:
    """Run all simulations and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "comparisons.json", help="JSON output file")
    parser.add_argument(
        "--repeats", type=int, default=400, help="number of simulated comparisons per setting (default: %(default)s)"
    )
    parser.add_argument(
        "--resamples",
        type=int,
        default=400,
        help="number of bootstrap resamples per significance test (default: %(default)s)",
    )
    args = parser.parse_args()
    report: Dict[str, Any] = {
        "format": "fairseq-etads comparisons 1",
        "command": f"scripts/simulate_comparisons.py --repeats {args.repeats} --resamples {args.resamples}",
        "version": get_version(),
        "level": LEVEL,
        "corpora": {},
    }
    for corpus in CORPORA:
        systems = read_records(ROOT / "results" / corpus)
        documents = len(next(iter(systems.values()))[0]["f1"]["rouge1"])
        families = read_documents(ROOT / "results", corpus, documents).families
        sizes = estimate_rouge_deviations(systems, families)
        rows = []
        for trainings in TRAININGS:
            rows.append(
                {
                    "trainings": trainings,
                    "rates": compute_rejection_rates(sizes, families, trainings, args.repeats, args.resamples),
                }
            )
            print(corpus, sizes, rows[-1], flush=True)
        report["corpora"][corpus] = {"standard_deviations": sizes, "families": int(families.max()) + 1, "tests": rows}
    write_text(args.output, json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
