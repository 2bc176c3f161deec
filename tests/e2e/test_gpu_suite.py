"""tests/gpu on a simulated GPU, in a separate process, by the script that checks a real one: scripts/gpu_check.sh."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
SCRIPT = str(ROOT / "scripts" / "gpu_check.sh")
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
MODELS = ("fairseq's transformer", "etads_basic", "etads", "etads, pointer", "etads, FlexAttention")

pytestmark = [
    pytest.mark.skipif(torch.version.cuda is not None, reason="torch with CUDA has no room for a simulated GPU"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ to compile the simulated device"),
]


def check(*options):
    environment = {**os.environ, "PATH": PATH, "OMP_NUM_THREADS": "1", "ETADS_VENV": "/nowhere"}
    return subprocess.run(
        [SCRIPT, *options], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def test_all_tests_of_gpus_pass_on_the_pretended_one(tmp_path):
    """Training, searches, budgets of waits and planted faults; a failure shows what the process printed."""
    path = tmp_path / "report.json"
    result = check("--pretended", "--out", str(path))
    assert result.returncode == 0, result.stdout[-8000:]
    report = json.loads(path.read_text())
    tests = report["tests"]
    assert report["pretended"] and report["gpu"]["capability"] == "8.0"
    assert tests["failed"] == [] and tests["tests"] - tests["skipped"] > 200, "most of them were skipped"
    assert len(report["milliseconds"]) == len(report["megabytes"]) == 6
    for times in report["milliseconds"].values():
        assert tuple(times) == MODELS and all(value > 0 for value in times.values())
    assert sum("waits" in name for name in tests["figures"]) > 25
    assert "THE GPU IS PRETENDED: these times mean nothing" in result.stdout
    assert f"tests: {tests['tests'] - tests['skipped']} passed, 0 failed" in result.stdout


def test_without_a_gpu_the_script_says_what_can_be_done(tmp_path):
    result = check("--out", str(tmp_path / "report.json"))
    assert (
        result.returncode == 2
        and "torch finds no GPU here; --pretended tests this script on a simulated GPU" in result.stdout
    )
    assert not (tmp_path / "report.json").exists()
    assert check("--nothing").returncode == 2
