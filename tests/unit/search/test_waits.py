"""Waits for a GPU, which a simulated GPU counts, so that a new wait is found on any machine."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_no_step_waits_for_a_gpu_more_often_than_before():
    simulated = [sys.executable, "tests/pretended/run_pretending.py", "pytest", "-q", "-p", "no:cacheprovider"]
    command = [*simulated, "tests/gpu/test_waits_cuda.py"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0 and " skipped" not in result.stdout, result.stdout[-3000:]
