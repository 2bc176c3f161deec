"""scripts/install.sh, names that scripts and examples import, and the version, known wherever the sources are."""

import importlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from fairseq_etads.version import NEXT_VERSION

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "install.sh"
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


IMPORT = re.compile(r"\bfrom ((?:fairseq_etads|etads_preprocess)[\w.]*) import (?:\(([^)]*)\)|([\w, ]+))")
SOURCES = [path for folder in ("scripts", "benchmarks", "examples") for path in sorted((ROOT / folder).rglob("*.*"))]
FOUND = {
    (path.relative_to(ROOT).as_posix(), module, name)
    for path in SOURCES
    if path.suffix in (".py", ".sh")
    for module, *names in IMPORT.findall(path.read_text(encoding="utf-8"))
    for name in re.findall(r"(\w+)(?: as \w+)?", "".join(names))
}


@pytest.mark.parametrize("path, module, name", sorted(FOUND))
def test_a_script_imports_what_exists(path, module, name):
    assert hasattr(importlib.import_module(module), name) or importlib.import_module(f"{module}.{name}")


def test_a_checkout_an_archive_an_sdist_and_an_installation_know_their_version(tmp_path):
    sources, unpacked = tmp_path / "sources", tmp_path / "unpacked"

    def said(folder, **environment):
        command = [sys.executable, str(folder / "fairseq_etads" / "version.py")]
        environment = {"PATH": "/usr/bin:/bin", **environment}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    def git(*words):
        options = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", *options, *words], cwd=sources, capture_output=True, text=True, check=True).stdout

    (sources / "fairseq_etads").mkdir(parents=True)
    shutil.copy(ROOT / "fairseq_etads" / "version.py", sources / "fairseq_etads")
    shutil.copy(ROOT / ".gitattributes", sources)
    (sources / "setup.py").touch()
    assert said(sources) == f"{NEXT_VERSION}.dev0+unknown"
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    commit = git("rev-parse", "HEAD")[:8]
    assert said(sources) == f"{NEXT_VERSION}.dev1+g{commit}"
    (sources / "setup.py").write_text("changed")
    assert said(sources, GIT_DIR=str(ROOT / ".git")) == f"{NEXT_VERSION}.dev1+g{commit}.dirty", "as in a hook of git"
    assert said(sources, PATH="/nonexistent") == f"{NEXT_VERSION}.dev0+unknown"
    git("archive", "--output", str(tmp_path / "a.tar"), "HEAD")
    git("checkout", "--quiet", "setup.py")
    git("tag", f"v{NEXT_VERSION}")
    assert said(sources) == NEXT_VERSION
    with tarfile.open(tmp_path / "a.tar") as archive:
        archive.extractall(unpacked)
    assert said(unpacked) == f"{NEXT_VERSION}.dev0+g{commit}"
    (unpacked / "PKG-INFO").write_text("Name: fairseq-etads\nVersion: 0.2.0.dev5+g1234\n")
    assert said(unpacked) == "0.2.0.dev5+g1234"
    (unpacked / "setup.py").unlink()
    (unpacked / "fairseq_etads-0.2.0.dev6+g5678.dist-info").mkdir()
    assert said(unpacked, ETADS_VERSION="9") == "0.2.0.dev6+g5678", "the variable is for builds"
