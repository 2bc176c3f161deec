"""Determine the version of this project from its source tree.

setup.py and scripts run this file without importing the package. ``python fairseq_etads/version.py`` prints the
version. The version of an unreleased commit consists of NEXT_VERSION, the number of commits and the commit hash, such
as 0.2.0.dev1234+g1a2b3c4d. If files have changed since the commit, ".dirty" is appended.
"""

import functools
import os
import subprocess
from pathlib import Path
from typing import Any, List, Optional

NEXT_VERSION = "0.2.0"
"""Version number of the next release, which will be tagged v0.2.0."""

ARCHIVED_COMMIT = "$Format:%H$"
"""Commit hash that git inserts into archives from ``git archive`` and GitHub (see .gitattributes)."""


@functools.cache
def get_version() -> str:
    """Return the version of the running code. This function never raises an exception."""
    sources = Path(__file__).resolve().parents[1]
    return get_source_version(sources) or _get_installed_version(sources) or get_archive_version()


def get_source_version(sources: Path) -> Optional[str]:
    """Return $ETADS_VERSION if it is set. Otherwise, return the version of a git checkout or an unpacked sdist.

    Args:
        sources: folder that should contain setup.py. If setup.py is missing, the result is None.
    """
    if not (sources / "setup.py").is_file():
        return None
    if os.environ.get("ETADS_VERSION"):
        return os.environ["ETADS_VERSION"]
    try:
        if (sources / ".git").exists():
            return _get_checkout_version(sources)
        lines = (sources / "PKG-INFO").read_text(encoding="utf-8").splitlines()
        return next((line.partition(": ")[2] for line in lines if line.startswith("Version: ")), None)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _get_checkout_version(sources: Path) -> str:
    """Return the version of a git checkout."""
    # In a git hook, these variables may refer to another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}

    def run_git(*words: str) -> List[str]:
        command = ["git", "-C", str(sources), *words]
        done = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=10)
        return done.stdout.decode("utf-8", "replace").split("\n")[:-1]

    (commit,) = run_git("rev-parse", "HEAD")
    # Without --no-optional-locks, a killed process could leave a lock file that prevents the next commit.
    changed = any(run_git("--no-optional-locks", "status", "--porcelain", "--untracked-files=no"))
    if f"v{NEXT_VERSION}" in run_git("tag", "--points-at", "HEAD") and not changed:
        return NEXT_VERSION
    (count,) = run_git("rev-list", "--count", "HEAD")
    return f"{NEXT_VERSION}.dev{count}+g{commit[:8]}{'.dirty' if changed else ''}"


def _get_installed_version(folder: Path) -> Optional[str]:
    """Return the version from the name of pip's metadata folder in ``folder``, or None if it is not found."""
    names = [path.name for path in folder.glob("fairseq_etads-*.dist-info")]
    return names[0][len("fairseq_etads-") : -len(".dist-info")] if len(names) == 1 else None


def get_archive_version() -> str:
    """Return the version of an archive. It contains the commit hash or "unknown", but not the number of commits."""
    commit = "unknown" if ARCHIVED_COMMIT.startswith("$") else f"g{ARCHIVED_COMMIT[:8]}"
    return f"{NEXT_VERSION}.dev0+{commit}"


def __getattr__(name: str) -> Any:
    """Compute ``__version__`` on demand, because running git takes a few milliseconds."""
    if name == "__version__":
        return get_version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if __name__ == "__main__":
    print(get_version())
