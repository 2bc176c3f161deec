"""The wheel and the sdist: all of the package, and nothing else, such as files of an earlier build."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import urllib.request
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from helpers import run_command

import fairseq_etads

ROOT = Path(__file__).parents[2]
FOLDERS = {"fairseq_etads": ROOT / "fairseq_etads", "etads_preprocess": ROOT / "preprocess"}
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
BUILD_SDIST = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"


def copy_tree(destination):
    """A clone's contents, without the history and build outputs."""
    ignored = shutil.ignore_patterns(".git", ".venv", "build", "dist", "runs", "outputs", "__pycache__", ".*_cache")
    copy = Path(shutil.copytree(ROOT, destination, ignore=ignored))
    (copy / "PKG-INFO").write_text(f"Version: {fairseq_etads.__version__}\n")
    return copy


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A clone with the folder of an earlier build with an earlier layout."""
    copy = copy_tree(tmp_path_factory.mktemp("stale") / "clone")
    for stale in ("fairseq_etads/old_module.py", "fairseq_etads/layers/old_layer.py", "etads_preprocess/old_reader.py"):
        path = copy / "build" / "lib" / stale
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("raise ImportError('from an earlier build')\n")
    return copy


@pytest.fixture(scope="module")
def wheel(tree, tmp_path_factory):
    """Names in the wheel that pip builds from a tree, and its path."""
    folder = tmp_path_factory.mktemp("wheel")
    run_command([*PIP, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", str(folder), str(tree)], cwd=folder)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path).namelist(), path


def expected():
    """Name in the wheel of every module and every data file in the repository."""
    for package, folder in FOLDERS.items():
        for path in filter(Path.is_file, folder.rglob("*")):
            relative = path.relative_to(folder).as_posix()
            is_data = path.name == "py.typed" or relative.startswith(("sample/", "bundled/", "demo/page/"))
            if is_data or path.suffix in (".py", ".html", ".css", ".js", ".yaml"):
                yield f"{package}/{relative}"
    yield from (f"fairseq_etads/docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))


def test_the_wheel_holds_every_module_and_nothing_else_and_has_the_version_of_the_sources(wheel):
    (metadata,) = (name for name in wheel[0] if name.endswith(".dist-info/METADATA"))
    about = Parser().parsestr(zipfile.ZipFile(wheel[1]).read(metadata).decode())
    assert about["Version"] == fairseq_etads.__version__
    assert "MIT" in (about["License-Expression"], about["License"])
    names = [name for name in wheel[0] if ".dist-info/" not in name]
    assert sorted(names) == sorted(expected())
    assert {"fairseq_etads/bundled/debian/model.safetensors", "etads_preprocess/sample/train.source.xz"} <= set(names)
    assert {name.split("/")[0] for name in names} == set(FOLDERS), "tests, scripts or benchmarks are in it"


def test_the_sdist_has_all_that_the_wheel_is_built_from(tree, tmp_path):
    """If an sdist lacked a file, only users without a wheel would notice."""
    name = run_command([sys.executable, "-c", BUILD_SDIST, str(tmp_path)], cwd=tree).stdout.split()[-1]
    with tarfile.open(tmp_path / name) as archive:
        archive.extractall(tmp_path / "unpacked")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    needed = ["setup.py", "LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "constraints.txt"]
    needed += [re.sub("etads_(?=preprocess/)|fairseq_etads/(?=docs/)", "", name) for name in expected()]
    assert [name for name in needed if not (unpacked / name).is_file()] == []


def test_installing_leaves_nothing_in_the_clone(tmp_path):
    """A ``pip install`` that only records its arguments takes the place of pip's; the rest is the real Python."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        "#!/usr/bin/env bash\n"
        f'case " $* " in *" pip "*" install "*) echo "$*" >> "{tmp_path}/installed"; exit ;; esac\n'
        f'exec "{sys.executable}" "$@"\n'
    )
    python.chmod(0o755)
    clone = copy_tree(tmp_path / "clone")
    before = sorted(clone.rglob("*"))
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}

    def install():
        command = [str(clone / "scripts" / "install.sh"), "--venv", "venv"]
        done = subprocess.run(command, check=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
        return done.stderr, (tmp_path / "installed").read_text().splitlines()

    installed = install()[1]
    assert sorted(clone.rglob("*")) == before
    own = [line for line in installed if f"fairseq_etads-{fairseq_etads.__version__}-py3-none-any.whl" in line]
    assert len(own) == 2 and own[0].endswith(".whl") and "--force-reinstall" in own[1]
    assert not [line for line in installed if str(clone) in line.replace(f"-c {clone}/constraints.txt", "")]
    assert not list(tmp_path.glob("tmp*")), "the copy that it was built from is still there"
    assert "up to date" in install()[0]
    # A moved module is a change, even if the bytes of all files are the same.
    layers = clone / "fairseq_etads" / "layers"
    (layers / "attention_probe.py").rename(layers / "probe.py")
    assert len(install()[1]) == 2 * len(installed)


@pytest.fixture
def environment_of_ones_own(tmp_path):
    """A new virtual environment with access to everything installed here, so that pip has nothing to fetch."""
    run_command([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], cwd=tmp_path)
    (packages,) = tmp_path.glob("venv/lib/python*/site-packages")
    outside = [path for path in sys.path if path.endswith("-packages")]
    (packages / "outside.pth").write_text("".join(f"{path}\n" for path in outside))
    return tmp_path / "venv", packages


@pytest.fixture
def installed(wheel, environment_of_ones_own):
    programs = environment_of_ones_own[0] / "bin"
    run_command([*PIP, "--python", str(programs / "python"), "install", "--no-deps", str(wheel[1])], cwd=programs)
    for command in Path(sys.executable).parent.glob("fairseq-*"):
        (programs / command.name).write_text(f"#!{programs / 'python'}\n" + command.read_text().partition("\n")[2])
        (programs / command.name).chmod(0o755)
    return programs


def test_a_wheel_is_all_that_a_user_needs(wheel, installed, tmp_path):
    """The other tests run from the sources. The environment is not active, and the folder is empty."""
    folder, said = tmp_path / "empty", tmp_path / "said"
    folder.mkdir()
    (entry_points,) = (name for name in wheel[0] if name.endswith("entry_points.txt"))
    text = zipfile.ZipFile(wheel[1]).read(entry_points).decode()
    commands = re.findall(r"^[\w-]+ = ([\w.]+):(\w+)$", text, re.MULTILINE)
    lines = [f"assert callable(importlib.import_module({name!r}).{function})" for name, function in commands]
    lines += ["import etads_preprocess, fairseq_etads; print(etads_preprocess.__file__, fairseq_etads.__file__)"]
    pairs = [
        {"text": f"w{n % 7} saw w{n % 5} . it was w{n % 3} .", "summary": f"w{n % 7} saw w{n % 5}"} for n in range(120)
    ]
    (folder / "mine.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    options = {"env": {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}, "cwd": folder}

    def etads(*words):
        with open(said, "w") as file:
            files = {"stdout": file, "stderr": file, "start_new_session": True}
            return subprocess.Popen([installed / words[0], *words[1:]], **files, **options)

    def run(*words):
        assert etads(*words).wait() == 0, said.read_text()
        return said.read_text()

    files = run("python", "-c", "; ".join(["import importlib", *lines])).split()[-2:]
    assert len(commands) > 20 and all(file.startswith(str(installed.parent)) for file in files), files
    train = "etads train --text mine.jsonl --out run --recipe small --no-content --max-update 40 --cpu --"
    train = f"{train} --encoder-layers 1 --decoder-layers 1 --num-workers 0".split()
    run(*train)
    run("etads", "summarize", "run", "--split", "test", "--output", "summaries.txt")
    assert len((folder / "summaries.txt").read_text().splitlines()) == 6
    assert "ROUGE-1" in run("etads", "rouge", "summaries.txt", "run/text/test.target")
    run("etads", "export", "run", "model")
    pytest.importorskip("uvicorn", reason="needs the extra demo")
    process = etads("etads", "demo", "model", "--port", "0")
    while not (url := re.search(r"http://127\.0\.0\.1:\d+/", said.read_text())):
        assert process.poll() is None, said.read_text()
        time.sleep(0.02)
    with urllib.request.urlopen(url[0]) as page:
        assert page.status == 200
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130


def test_contributors_run_the_sources_that_they_edit(environment_of_ones_own, tmp_path):
    venv, packages = environment_of_ones_own
    clone = copy_tree(tmp_path / "clone")
    command = [str(clone / "scripts" / "install.sh"), "--venv", str(venv), "--dev"]
    run_command(command, cwd=tmp_path)
    # fairseq looks for --user-dir fairseq_etads in its installation folder
    for name, folder in (("fairseq_etads", "fairseq_etads"), ("etads_preprocess", "preprocess")):
        assert (packages / name).is_symlink() and (packages / name).resolve() == clone / folder
        (clone / folder / "added.py").write_text("ANSWER = 42\n")
    code = "import etads_preprocess.added as a, fairseq_etads.added as b; print(a.ANSWER + b.ANSWER)"
    assert run_command([str(venv / "bin" / "python"), "-c", code], cwd=tmp_path).stdout.split() == ["84"]
    assert "up to date" in run_command(command, cwd=tmp_path).stdout

    before = [path for path in clone.rglob("*") if path.suffix != ".pyc"]
    run_command([str(venv / "bin" / "python"), "-m", "pip", "uninstall", "--yes", "fairseq-etads"], cwd=tmp_path)
    assert not (packages / "fairseq_etads").is_symlink() and not (packages / "etads_preprocess").is_symlink()
    assert all(path.exists() for path in before), "pip removed sources"


RELEASED = "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-12-01\n\n- It.\n\n## [1.1.0] - 2026-11-01\n\n- That.\n"


@pytest.mark.parametrize(
    "version, changelog, tag, earlier, words",
    [
        ("1.2.0", RELEASED, "v1.2.0", "v1.1.0", "agree on 1.2.0"),
        ("1.3.0", RELEASED, "", "", 'newest version is "[1.2.0] - 2026-12-01", and NEXT_VERSION says "[1.3.0]'),
        ("1.2.0", RELEASED.replace("[Unreleased]\n", "[Unreleased]\n\n- More.\n"), "", "", "entries under Unreleased"),
        ("1.2.0", RELEASED, "v1.3.0", "", "the tag v1.3.0 is on this commit, and NEXT_VERSION is 1.2.0"),
        ("1.2.0", RELEASED, "", "v1.2.0", "the tag v1.2.0 is on another commit"),
    ],
)
def test_a_release_has_one_version_in_code_changelog_and_tag(version, changelog, tag, earlier, words, tmp_path):
    root = tmp_path / "repository"
    shutil.copytree(ROOT / "scripts", root / "scripts")
    (root / "fairseq_etads").mkdir()
    (root / "fairseq_etads" / "version.py").write_text(f'NEXT_VERSION = "{version}"\n')
    (root / "CHANGELOG.md").write_text(changelog)
    git = "git -c user.name=a -c user.email=a@example.org"
    lines = [f"{git} init --quiet", f"{git} commit --quiet --allow-empty -m earlier"]
    lines += [f"git tag {earlier}" * bool(earlier), "git add .", f"{git} commit --quiet -m release"]
    lines += [f"git tag {tag}" * bool(tag)]
    run_command(["bash", "-ec", "\n".join(lines)], cwd=root)
    check = [str(root / "scripts" / "release.sh"), "--check"]
    result = run_command(check, cwd=tmp_path, check=False)
    assert words in result.stdout and result.returncode == (0 if words.startswith("agree") else 2)
    (root / "forgotten.py").write_text("")
    assert run_command(check, cwd=tmp_path, check=False).returncode == 2, "a file is not committed"
