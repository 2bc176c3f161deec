"""Two of the benchmarks run on tiny data, and record the processor and ratios to a named system.

bench_generate.py loads torch, fairseq and CTranslate2 in a process for each system, which takes a minute.
"""

import json
import os
import subprocess
import sys

import pytest
from documented import ROOT

RUNS = {
    "bench_training_step": (
        ["--tiny", "--lengths", "20", "--tokens", "40", "--vocabulary", "100", "--runs", "2"]
        + ["--systems", "transformer,etads --optimizer muon"],
        *("transformer", ["etads --optimizer muon"]),
    ),
    "bench_prepare": (
        ["--documents", "20", "--runs", "2", "--jobs", "1"],
        *("nltk TreebankWordTokenizer", ["moses (sacremoses)", "spaCy, blank English (not Treebank words)"]),
    ),
}
"""Script -> its options, the system to compare with, and others; a system may need a package that is not installed."""


def comparisons(record, name=None):
    """All comparisons of a record, as pairs of a system and its figures."""
    if isinstance(record, dict):
        if "median" in record:
            yield name, record
        for key, value in record.items():
            yield from comparisons(value, name if key in ("CPU seconds", "other runs") else key)


@pytest.mark.parametrize("script", RUNS)
def test_a_tiny_run_is_recorded(script, tmp_path):
    options, first, others = RUNS[script]
    command = [sys.executable, f"benchmarks/{script}.py", "--output", str(tmp_path / "out"), *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    (path,) = (tmp_path / "out").iterdir() if (tmp_path / "out").is_dir() else [tmp_path / "out"]
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record["machine"]["cpu"] and record["measured"]["settings"]["runs"]
    figures = list(comparisons(record))
    assert all(row["median"] > 0 and row[f"ratio to {first}"] > 0 for _, row in figures)
    measured = {name for name, _ in figures}
    assert first in measured
    for system in others:
        assert system in measured or f"{system}: not measured, because" in result.stderr
