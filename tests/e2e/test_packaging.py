"""The wheel and the sdist: all of the package, nothing else, and nothing that an earlier build left behind."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
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
    """What a clone holds, without the history and what is made in it."""
    ignored = shutil.ignore_patterns(".git", ".venv", "build", "dist", "runs", "outputs", "__pycache__", ".*_cache")
    copy = Path(shutil.copytree(ROOT, destination, ignore=ignored))
    (copy / "PKG-INFO").write_text(f"Version: {fairseq_etads.__version__}\n")
    return copy


def build_wheel(tree, folder):
    """The names in the wheel that pip builds from a tree, and its path."""
    run_command([*PIP, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", str(folder), str(tree)], cwd=folder)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path).namelist(), path


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A clone in which an earlier build of an earlier layout has left its folder."""
    copy = copy_tree(tmp_path_factory.mktemp("stale") / "clone")
    for stale in ("fairseq_etads/old_module.py", "fairseq_etads/layers/old_layer.py", "etads_preprocess/old_reader.py"):
        path = copy / "build" / "lib" / stale
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("raise ImportError('from an earlier build')\n")
    return copy


@pytest.fixture(scope="module")
def wheel(tree, tmp_path_factory):
    return build_wheel(tree, tmp_path_factory.mktemp("wheel"))


def expected():
    """Name in the wheel of every module and every file of data in the repository."""
    for package, folder in FOLDERS.items():
        for path in filter(Path.is_file, folder.rglob("*")):
            relative = path.relative_to(folder).as_posix()
            is_data = path.name == "py.typed" or relative.startswith(("sample/", "bundled/", "demo/page/"))
            if is_data or path.suffix in (".py", ".html", ".css", ".js"):
                yield f"{package}/{relative}"


def test_the_wheel_holds_every_module_and_nothing_else(wheel):
    names = [name for name in wheel[0] if ".dist-info/" not in name]
    assert sorted(names) == sorted(expected())
    needed = {"fairseq_etads/py.typed", "fairseq_etads/layers/pointer.py", "etads_preprocess/sample/train.source.xz"}
    needed.add("fairseq_etads/bundled/debian/model.safetensors")
    assert needed <= set(names)
    assert {name.split("/")[0] for name in names} == set(FOLDERS), "tests, scripts or benchmarks are in it"


def test_the_wheel_has_the_version_of_the_sources(wheel):
    path = wheel[1]
    (metadata,) = (name for name in wheel[0] if name.endswith(".dist-info/METADATA"))
    about = Parser().parsestr(zipfile.ZipFile(path).read(metadata).decode())
    assert about["Version"] == fairseq_etads.__version__
    assert "MIT" in (about["License-Expression"], about["License"])


def test_the_version_is_read_without_importing_the_package(tree):
    code = "import sys; sys.modules['fairseq'] = sys.modules['torch'] = None; sys.argv[1:] = ['--version']\n"
    code += "exec(open('setup.py').read(), {'__file__': 'setup.py', '__name__': '__main__'})"
    result = subprocess.run([sys.executable, "-c", code], cwd=tree, capture_output=True, text=True, check=True)
    assert result.stdout.split()[-1] == fairseq_etads.__version__


def test_the_sdist_builds_the_same_wheel(tree, wheel, tmp_path):
    """An sdist that lacks a file is only noticed by those who have no wheel."""
    name = run_command([sys.executable, "-c", BUILD_SDIST, str(tmp_path)], cwd=tree).stdout.split()[-1]
    with tarfile.open(tmp_path / name) as archive:
        archive.extractall(tmp_path / "unpacked")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    for needed in ("LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "constraints.txt"):
        assert (unpacked / needed).is_file(), needed
    (tmp_path / "wheel").mkdir()
    assert sorted(build_wheel(unpacked, tmp_path / "wheel")[0]) == sorted(wheel[0])


@pytest.fixture
def recording_environment(tmp_path):
    """A virtual environment whose ``pip install`` only notes what it is asked for; all else is the real Python."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        "#!/usr/bin/env bash\n"
        f'case " $* " in *" pip "*" install "*) echo "$*" >> "{tmp_path}/installed"; exit ;; esac\n'
        f'exec "{sys.executable}" "$@"\n'
    )
    python.chmod(0o755)
    return tmp_path


def test_installing_leaves_nothing_in_the_clone(recording_environment, tmp_path):
    clone = copy_tree(tmp_path / "clone")
    before = sorted(clone.rglob("*"))
    command = [str(clone / "scripts" / "install.sh"), "--venv", "venv", "--dev"]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(command, check=True, cwd=tmp_path, env=environment, capture_output=True)
    assert sorted(clone.rglob("*")) == before
    installed = (tmp_path / "installed").read_text().splitlines()
    version = fairseq_etads.__version__
    own = [line for line in installed if f"fairseq_etads-{version}-py3-none-any.whl" in line]
    assert len(own) == 2 and own[0].endswith(".whl[dev]") and "--force-reinstall" in own[1]
    assert not [line for line in installed if str(clone) in line.replace(f"-c {clone}/constraints.txt", "")]
    assert not list(tmp_path.glob("tmp*")), "the copy that it was built from is still there"

    again = subprocess.run(command, check=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "up to date" in again.stderr
    # a module that moves is a change, though no byte of any file is another
    layers = clone / "fairseq_etads" / "layers"
    (layers / "sharing.py").rename(layers / "sharing_of_layers.py")
    subprocess.run(command, check=True, cwd=tmp_path, env=environment, capture_output=True)
    assert len((tmp_path / "installed").read_text().splitlines()) == 2 * len(installed)


MODULES = """
attention averaging batch_vocab beam_search beams blocking candidates catalogue compat criterions data dictionary
embedding evaluation.analysis evaluation.analysis_command evaluation.command evaluation.human evaluation.human_command
evaluation.perl evaluation.plots evaluation.resampling evaluation.rouge evaluation.text factors generation hypotheses
inference members memory models.common models.rnn models.rnn_decoder models.rnn_encoder models.transformer
models.transformer_options modules optim options penalties pointer sharing stepwise task text validation words
"""
"""Those of version 0.1.0."""


def is_module(name):
    return (ROOT / f"{name.replace('.', '/')}.py").is_file()


def test_the_changelog_says_where_modules_are():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    table = dict(re.findall(r"^ *\| `(fairseq_etads\S+)` \| `(fairseq_etads\S+)` \|$", text, re.MULTILINE))
    listed = dict(re.findall(r"^- `(fairseq_etads[\w.]+)` → `(fairseq_etads[\w.]+)`$", text, re.MULTILINE))
    gone = {f"fairseq_etads.{name}" for name in MODULES.split() if not is_module(f"fairseq_etads.{name}")}
    assert gone <= {*table, *listed}, "modules of 0.1.0 are gone without a word"
    last = {old: listed.get(new, new) for old, new in table.items()}  # some have moved twice
    missing = {old: new for old, new in last.items() if not is_module(new)}
    assert not missing, "the table names modules that are not there"


def test_everybody_formats_with_the_same_version():
    pinned = re.search(r"^ruff==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)[1]
    assert f'required-version = "=={pinned}"' in (ROOT / "pyproject.toml").read_text()


def test_help_of_the_release_script(tmp_path):
    output = run_command([str(ROOT / "scripts" / "release.sh"), "--help"], cwd=tmp_path).stdout
    assert "--unreleased" in output and not output.startswith("#")
    result = run_command([str(ROOT / "scripts" / "release.sh"), "--colour"], cwd=tmp_path, check=False)
    assert result.returncode == 2 and "release.sh: unknown option --colour" in result.stdout


RELEASED = """\
# Changelog

## [Unreleased]

## [1.2.0] - 2026-12-01

### Added

- It.

## [1.1.0] - 2026-11-01

- That.
"""


@pytest.fixture
def repository(tmp_path):
    """Makes a repository with a version, a changelog and a tag, and returns its scripts/release.sh."""

    def make(version="1.2.0", changelog=RELEASED, tag=None, tag_earlier=None):
        root = tmp_path / "repository"
        shutil.copytree(ROOT / "scripts", root / "scripts")
        (root / "fairseq_etads").mkdir()
        (root / "fairseq_etads" / "version.py").write_text(f'"""It."""\n\nNEXT_VERSION = "{version}"\n')
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
        run_command([*git, "init", "--quiet"], cwd=root)
        run_command([*git, "commit", "--quiet", "--allow-empty", "-m", "earlier"], cwd=root)
        for name in filter(None, [tag_earlier]):
            run_command([*git, "tag", name], cwd=root)
        (root / "CHANGELOG.md").write_text(changelog)
        run_command([*git, "add", "."], cwd=root)
        run_command([*git, "commit", "--quiet", "-m", "release"], cwd=root)
        for name in filter(None, [tag]):
            run_command([*git, "tag", name], cwd=root)
        return root / "scripts" / "release.sh"

    return make


@pytest.mark.parametrize("tags", [{}, {"tag": "v1.2.0"}, {"tag_earlier": "v1.1.0"}])
def test_a_release_whose_version_changelog_and_tag_agree(repository, tags, tmp_path):
    assert "agree on 1.2.0" in run_command([str(repository(**tags)), "--check"], cwd=tmp_path).stdout


@pytest.mark.parametrize(
    "state,words",
    [
        ({"version": "1.3.0"}, 'newest version is "[1.2.0] - 2026-12-01", and NEXT_VERSION says "[1.3.0]'),
        ({"changelog": RELEASED.replace("1.2.0", "1x2.0")}, 'newest version is "[1x2.0]'),
        ({"changelog": RELEASED.replace(" - 2026-12-01", "")}, 'newest version is "[1.2.0]"'),
        ({"changelog": RELEASED.replace("[Unreleased]\n", "[Unreleased]\n\n- More.\n")}, "entries under Unreleased"),
        ({"tag": "v1.3.0"}, "the tag v1.3.0 is on this commit, and NEXT_VERSION is 1.2.0"),
        ({"tag_earlier": "v1.2.0"}, "the tag v1.2.0 is on another commit"),
    ],
)
def test_a_release_that_does_not_agree_is_refused(repository, state, words, tmp_path):
    result = run_command([str(repository(**state)), "--check"], cwd=tmp_path, check=False)
    assert result.returncode == 2 and words in result.stdout


def test_only_what_is_committed_is_released(repository, tmp_path):
    script = repository()
    (script.parents[1] / "forgotten.py").write_text("")
    result = run_command([str(script), "--check"], cwd=tmp_path, check=False)
    assert result.returncode == 2 and "not committed" in result.stdout
