"""tests/gpu on a pretended GPU, in a process of its own: what a machine without a GPU can say about one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
PRETENDING = ROOT / "tests" / "pretended" / "run_pretending.py"

pytestmark = [
    pytest.mark.skipif(torch.version.cuda is not None, reason="torch with CUDA has no room for a pretended GPU"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ to compile the pretended device"),
]


def test_all_tests_of_gpus_pass_on_the_pretended_one(tmp_path):
    """Training, searches, budgets of waits and planted faults; a failure shows what the process printed."""
    command = [sys.executable, str(PRETENDING), "pytest", "tests/gpu", "-p", "no:cacheprovider", "-o", "addopts="]
    command += ["-q", f"--basetemp={tmp_path / 'pytest'}"]
    result = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert result.returncode == 0, result.stdout[-8000:]
    passed = int(result.stdout.rpartition(" passed")[0].rpartition("\n")[2].split()[-1])
    assert passed > 250, "most of them were skipped"
