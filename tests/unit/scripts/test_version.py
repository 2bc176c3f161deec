"""fairseq_etads/version.py: a version is known wherever the sources are, and is never an error."""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from fairseq_etads.version import NEXT_VERSION

ROOT = Path(__file__).parents[3]


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
