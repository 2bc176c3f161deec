"""The version comes from the sources, wherever they are, and is never an error."""

import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import fairseq_etads
from fairseq_etads.version import NEXT_VERSION, get_version

ROOT = Path(__file__).parents[3]
GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]


def said(folder, **environment):
    """Output of the copy of version.py in a folder."""
    path = folder / "fairseq_etads" / "version.py"
    done = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", **environment},
    )
    assert done.stderr == ""
    return done.stdout.strip()


def git(folder, *words):
    return subprocess.run([*GIT, *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def sources(tmp_path):
    """A folder with setup.py and version.py, without history."""
    folder = tmp_path / "sources"
    (folder / "fairseq_etads").mkdir(parents=True)
    shutil.copy(ROOT / "fairseq_etads" / "version.py", folder / "fairseq_etads")
    shutil.copy(ROOT / ".gitattributes", folder)
    (folder / "setup.py").write_text("")
    return folder


@pytest.fixture
def checkout(sources):
    git(sources, "init", "--quiet")
    git(sources, "add", ".")
    git(sources, "commit", "--quiet", "-m", "first")
    git(sources, "commit", "--quiet", "--allow-empty", "-m", "second")
    return sources


def test_a_checkout_counts_commits_and_names_the_last(checkout):
    commit = git(checkout, "rev-parse", "HEAD")[:8]
    assert said(checkout) == f"{NEXT_VERSION}.dev2+g{commit}"
    assert said(checkout, GIT_DIR=str(ROOT / ".git")) == f"{NEXT_VERSION}.dev2+g{commit}", "as in a hook of git"
    (checkout / "new.txt").write_text("")
    assert said(checkout) == f"{NEXT_VERSION}.dev2+g{commit}"
    (checkout / "setup.py").write_text("changed")
    assert said(checkout) == f"{NEXT_VERSION}.dev2+g{commit}.dirty"


def test_the_tagged_commit_is_the_release(checkout):
    git(checkout, "tag", f"v{NEXT_VERSION}")
    assert said(checkout) == NEXT_VERSION
    git(checkout, "commit", "--quiet", "--allow-empty", "-m", "third")
    assert said(checkout).startswith(f"{NEXT_VERSION}.dev3+g")


def test_an_archive_names_its_commit(checkout, tmp_path):
    git(checkout, "archive", "--output", str(tmp_path / "a.tar"), "HEAD")
    (tmp_path / "unpacked").mkdir()
    with tarfile.open(tmp_path / "a.tar") as archive:
        archive.extractall(tmp_path / "unpacked")
    assert said(tmp_path / "unpacked") == f"{NEXT_VERSION}.dev0+g{git(checkout, 'rev-parse', 'HEAD')[:8]}"


def test_an_sdist_an_installation_and_a_build_without_history_know_theirs(sources, tmp_path):
    assert said(sources) == f"{NEXT_VERSION}.dev0+unknown"
    assert said(sources, ETADS_VERSION="0.2.0.dev7+gabc") == "0.2.0.dev7+gabc"
    (sources / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: fairseq-etads\nVersion: 0.2.0.dev5+g1234\n")
    assert said(sources) == "0.2.0.dev5+g1234"
    site = tmp_path / "site-packages"
    shutil.copytree(sources / "fairseq_etads", site / "fairseq_etads")
    (site / "fairseq_etads-0.2.0.dev6+g5678.dist-info").mkdir()
    assert said(site, ETADS_VERSION="9") == "0.2.0.dev6+g5678", "the variable is for builds"


def test_a_repository_that_git_refuses_is_no_error(sources):
    (sources / ".git").write_text("gitdir: /nonexistent\n")
    assert said(sources) == f"{NEXT_VERSION}.dev0+unknown"
    assert said(sources, PATH="/nonexistent") == f"{NEXT_VERSION}.dev0+unknown"


def test_every_place_says_the_same():
    assert fairseq_etads.__version__ == fairseq_etads.version.__version__ == get_version()
    assert get_version() == NEXT_VERSION or get_version().startswith(f"{NEXT_VERSION}.dev")
    assert re.search(r'^version: "?0\.2\.0', (ROOT / "CITATION.cff").read_text(), re.MULTILINE)


def test_importing_the_package_does_not_call_git():
    code = "import subprocess; subprocess.run = None; import fairseq_etads.commands.rouge, fairseq_etads.evaluation"
    subprocess.run([sys.executable, "-c", code], check=True)
