"""A folder in which commands run, are disturbed, and are compared."""

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional

from command_server import FILE_SIZE, CommandServer

ROOT = Path(__file__).resolve().parents[2]
HANGS_AFTER = 60.0
"""Seconds after which a command counts as hung; the slowest takes two."""

LOGS = (".log", ".err", ".partial", ".tmp", "preprocess.txt")
"""Endings of names of files that are not results: they have times, or were left by a killed command."""


@dataclass
class Run:
    """Outcome of a command: its exit status, None if it hung or was killed; its output; its duration."""

    status: Optional[int]
    shown: str
    seconds: float


class Workplace:
    """Folders for ``jobs`` trials at a time, and the server that runs their commands.

    Attributes:
        folders: absolute paths, of the same form for each trial.
    """

    def __init__(self, folder: Path, jobs: int):
        self.folder = folder
        self.folders = [folder / f"trial-{number}" for number in range(jobs)]
        for trial in self.folders:
            self.link_plugin(trial)
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'tests'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        environment.update(OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore")
        self._server = CommandServer({"torture-digest": "torture.digest:main"}, environment)
        self.environment = {**os.environ, "PATH": f"{self._server.programs}{os.pathsep}{os.environ['PATH']}"}

    def link_plugin(self, trial: Path) -> None:
        """Make an empty folder for a trial, in which ``--user-dir fairseq_etads`` is the package under test."""
        import fairseq_etads

        shutil.rmtree(trial, ignore_errors=True)
        trial.mkdir(parents=True)
        (trial / "fairseq_etads").symlink_to(Path(fairseq_etads.__file__).parent)

    def close(self) -> None:
        self._server.close()

    def restore(self, trial: Path, state: Optional[Path]) -> None:
        """Make ``trial`` a copy of ``state``, or empty."""
        self.link_plugin(trial)
        if state is not None:
            shutil.copytree(state, trial, dirs_exist_ok=True, symlinks=True)

    def run(
        self,
        command: List[str],
        trial: Path,
        kill_after: Optional[float] = None,
        disturb_after: Optional[float] = None,
        disturbance: Optional[Callable[[], None]] = None,
        file_size: Optional[int] = None,
    ) -> Run:
        """Run a command in a trial's folder.

        Args:
            kill_after: seconds after which SIGKILL is sent to the command and all its processes.
            disturb_after: seconds after which ``disturbance`` is called, if the command still runs.
            file_size: maximum number of bytes of a file, as on a full disk.
        """
        started = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=trial,
            env={**self.environment, **({} if file_size is None else {FILE_SIZE: str(file_size)})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=os.setpgrp,  # not start_new_session: the server can join a group of its own session only
        )
        timer = None
        if disturbance is not None:
            timer = threading.Timer(disturb_after or 0.0, disturbance)
            timer.start()
        status: Optional[int] = None
        try:
            shown, _ = process.communicate(timeout=kill_after or HANGS_AFTER)
            status = process.returncode
        except subprocess.TimeoutExpired:
            _kill_group(process.pid)
            shown, _ = process.communicate()
        if timer is not None:
            timer.cancel()
            timer.join()
        _kill_group(process.pid)
        return Run(status, shown.decode("utf-8", "replace"), time.monotonic() - started)


def _kill_group(group: int) -> None:
    """Kill every process of a group, and wait until none is left."""
    deadline = time.monotonic() + HANGS_AFTER
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(group, signal.SIGKILL)
            if _only_zombies(group):
                return
            time.sleep(0.005)


def _only_zombies(group: int) -> bool:
    """Tell whether the group's processes have all ended; one of them is reaped by this process later."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(fields[2]) == group and fields[0] not in "ZX":
                    return False
    return True


def files(folder: Path, parts: List[str]) -> Iterator[Path]:
    """Result files below the ``parts`` of a folder, in order."""
    for part in parts:
        top = folder / part
        found = [top] if top.is_file() else sorted(path for path in top.rglob("*") if path.is_file())
        yield from (path for path in found if not path.name.endswith(LOGS))


def digests(folder: Path, parts: List[str]) -> Dict[str, str]:
    """Relative path -> SHA-256, for every result below the ``parts`` of a folder."""
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files(folder, parts)}
