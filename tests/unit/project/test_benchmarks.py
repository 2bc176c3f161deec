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
        "",
        ["--tiny", "--lengths", "20", "--tokens", "40", "--vocabulary", "100", "--runs", "2"]
        + ["--systems", "transformer,etads --optimizer muon"],
        *("transformer", ["etads --optimizer muon"]),
    ),
    "bench_prepare": (
        "WORDS, TOKENISERS, some = 40, dict([*TOKENISERS.items()][::4]), create_vocabulary\n"
        "create_vocabulary = lambda size, generator: some(2000, generator)\n",
        ["--documents", "20", "--runs", "2", "--jobs", "1"],
        *("nltk TreebankWordTokenizer", ["moses (sacremoses)"]),
    ),
}
"""Script -> code that makes it faster, its options, the system to compare with, and others, which may need a package
that is not installed.
"""


def comparisons(record, name=None):
    """All comparisons of a record, as pairs of a system and its figures."""
    if isinstance(record, dict):
        if "median" in record:
            yield name, record
        for key, value in record.items():
            yield from comparisons(value, name if key in ("CPU seconds", "other runs") else key)


@pytest.mark.parametrize("script", RUNS)
def test_a_tiny_run_is_recorded(script, tmp_path):
    faster, options, first, others = RUNS[script]
    code = (ROOT / f"benchmarks/{script}.py").read_text(encoding="utf-8")
    (tmp_path / "bench.py").write_text(code.replace("\ndef main():", f"\n{faster}\ndef main():"), encoding="utf-8")
    command = [sys.executable, str(tmp_path / "bench.py"), "--output", str(tmp_path / "out"), *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": "benchmarks"}
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
