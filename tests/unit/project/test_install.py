"""scripts/install.sh: its choice of torch, with a fake pip and nvidia-smi."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "install.sh"
PYTHON = """#!/bin/bash
case "$*" in
    *" config list") cat "$FAKE/config" ;;
    "- "*constraints.txt) cat "$FAKE/torch" ;;
    "- "*) echo digest ;;
    *"pip"*" install "*) echo "$*" >> "$FAKE/installed"; [[ $* != *whl/cpu* ]] || exit "$(cat "$FAKE/status")" ;;
esac
"""
CPU_INDEX = "--index-url https://download.pytorch.org/whl/cpu"


@pytest.fixture
def install(tmp_path):
    """Run the script; returns the exit status, the commands of pip, and messages."""

    def write(name, text, mode=0o755):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def install(*options, gpu=False, config="", torch="", status=0):
        write("venv/bin/python", PYTHON)
        write("bin/c++", "")
        write("bin/nvidia-smi", "#!/bin/sh\necho 'GPU 0: NVIDIA H100'\n" if gpu else "#!/bin/sh\nexit 9\n")
        for name, text in (("config", config), ("torch", torch), ("status", str(status)), ("a.whl", "")):
            write(name, text)
        (tmp_path / "installed").unlink(missing_ok=True)
        (tmp_path / "venv" / ".fairseq-etads").unlink(missing_ok=True)
        environment = {
            **os.environ,
            "FAKE": str(tmp_path),
            "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        }
        command = [str(SCRIPT), "--venv", str(tmp_path / "venv"), "--wheel", str(tmp_path / "a.whl"), *options]
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        installed = tmp_path / "installed"
        return result.returncode, installed.read_text().splitlines() if installed.exists() else [], result.stderr

    return install


has_gpu = os.path.exists("/dev/nvidia0") or os.path.exists("/proc/driver/nvidia/version")


@pytest.mark.skipif(has_gpu, reason="this machine has a GPU")
def test_without_a_gpu_torch_is_for_processors(install):
    status, installed, said = install()
    assert status == 0 and CPU_INDEX in installed[0] and installed[0].endswith(" torch")
    assert not any(CPU_INDEX in command for command in installed[1:]), "all else comes from the usual index"
    assert "torch for processors, 200 MB to download: no NVIDIA GPU was found (--gpu" in said


def test_with_a_gpu_torch_brings_cuda_and_its_size_is_said(install):
    status, installed, said = install(gpu=True)
    assert status == 0 and not any(CPU_INDEX in command for command in installed)
    assert "torch with CUDA, about 5 GB on disk: an NVIDIA GPU was found (--cpu" in said


@pytest.mark.parametrize("option, gpu", [("--cpu", True), ("--gpu", False)])
def test_options_decide(option, gpu, install):
    status, installed, said = install(option, gpu=gpu)
    assert status == 0 and (CPU_INDEX in installed[0]) is (option == "--cpu") and "was found" not in said
    assert install("--cpu", "--gpu")[0] == 2


@pytest.mark.parametrize(
    "config",
    [
        "global.index-url='https://mirror.example/simple'",
        ":env:.find-links='/opt/wheels'",
        "global.extra-index-url='file:///opt/pypi'",
        ":env:.no-index='1'",
    ],
)
def test_an_index_of_ones_own_decides(config, install):
    status, installed, said = install("--cpu", config=f"global.cert='x'\n{config}\n")
    assert status == 0 and not any(CPU_INDEX in command for command in installed)
    assert f"torch comes from where pip's settings say: {config}" in said


def test_the_public_index_is_not_ones_own(install):
    _, installed, _ = install("--cpu", config="global.index-url='https://pypi.org/simple'\nglobal.timeout='60'\n")
    assert CPU_INDEX in installed[0]


def test_an_installed_torch_stays(install):
    status, installed, said = install("--cpu", torch="2.13.0+cu128\n")
    assert status == 0 and not any(CPU_INDEX in command for command in installed)
    assert "torch 2.13.0+cu128 is installed already and stays (--cpu chooses for a new environment only)" in said


@pytest.mark.skipif(has_gpu, reason="this machine has a GPU")
def test_without_pytorchs_index_it_goes_on_and_says_so(install):
    status, installed, said = install(status=1)
    assert status == 0 and len(installed) > 1 and "WARNING" in said and "about 5 GB" in said


def test_asked_for_processors_it_does_not_fetch_cuda_instead(install):
    status, installed, said = install("--cpu", status=1)
    assert (
        status == 2 and len(installed) == 1 and "--cpu: https://download.pytorch.org/whl/cpu cannot be reached" in said
    )
