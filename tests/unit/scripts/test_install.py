"""scripts/install.sh: where torch comes from, and what is refused; with programs in place of pip and nvidia-smi."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "install.sh"
PYTHON = """#!/bin/bash
case "$*" in
    *" config list") echo "$CONFIG" ;;
    *" --no-index "*) [ -n "$TORCH" ] ;;
    *"pip"*" install "*) echo "$*" >> "$INSTALLED"; [[ $* != *whl/cpu* ]] || exit "$STATUS" ;;
esac
"""
FOR_CPU = "--index-url https://download.pytorch.org/whl/cpu"


@pytest.mark.parametrize(
    "options, settings, status, from_cpu_index, said",
    [
        ("", {}, 0, False, "torch with CUDA, about 5 GB on disk: an NVIDIA GPU was found (--cpu"),
        ("--cpu", {}, 0, True, "torch for processors, 200 MB"),
        ("--cpu", {"CONFIG": ":env:.find-links='/opt/wheels'"}, 0, False, "torch comes from where pip's settings say"),
        ("--cpu", {"TORCH": "2.13.0+cu128"}, 0, False, "torch is installed already and stays"),
        ("--cpu", {"STATUS": "1"}, 2, True, "--cpu: https://download.pytorch.org/whl/cpu cannot be reached"),
        ("--cpu --gpu", {}, 2, False, "--cpu and --gpu exclude one another"),
    ],
)
def test_torch_is_chosen_or_refused(options, settings, status, from_cpu_index, said, tmp_path):
    programs = {"venv/bin/python": PYTHON, "bin/c++": "", "bin/nvidia-smi": "#!/bin/sh\necho 'GPU 0: NVIDIA H100'\n"}
    for name, text in {**programs, "a.whl": ""}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    environment = {"CONFIG": "", "TORCH": "", "STATUS": "0", **settings, "INSTALLED": str(tmp_path / "installed")}
    environment["PATH"] = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    command = [str(SCRIPT), "--venv", str(tmp_path / "venv"), "--wheel", str(tmp_path / "a.whl"), *options.split()]
    result = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    assert result.returncode == status and said in result.stderr
    installed = (tmp_path / "installed").read_text() if (tmp_path / "installed").exists() else ""
    assert (FOR_CPU in installed) == from_cpu_index
    assert status == 0 or installed.count("\n") == from_cpu_index, "it went on after an error"
