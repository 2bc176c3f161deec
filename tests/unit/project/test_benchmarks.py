"""Benchmarks run on tiny data, and record the processor and ratios to a named system.

bench_generate.py loads torch, fairseq and CTranslate2 in a process for each system, which takes a minute.
"""

import json
import subprocess
import sys

import pytest
from documented import ROOT

RUNS = {
    "bench_training_step": "--tiny --lengths 20 --tokens 40 --vocabulary 100 --runs 1 --systems transformer,etads",
    "bench_prepare": "--documents 20 --runs 2 --jobs 1",
}

PEERS = {"bench_training_step": '"ratio to transformer": ', "bench_prepare": '"ratio to nltk TreebankWordTokenizer": '}


@pytest.mark.parametrize("script", RUNS)
def test_a_tiny_run_is_recorded(script, tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / f"{script}.py"), "--output", str(tmp_path / "out.json")]
    result = subprocess.run([*command, *RUNS[script].split()], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    record = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert record["machine"]["cpu"] and record["measured"]["settings"]["runs"]
    assert PEERS[script] in json.dumps(record)
