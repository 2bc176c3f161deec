"""Commands that end together with the process that started them, even if this process is killed.

    python fairseq_etads/pipeline/children.py PARENT COMMAND ...

As a program, which the scripts use, this file replaces itself with the command, which is terminated when its parent
process PARENT ends. It requires only Python's standard library.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from typing import Any, Dict, Iterator, List, Sequence

SECONDS_BETWEEN_LOOKS = 0.5
_PR_SET_PDEATHSIG = 1  # a constant for prctl in Linux
UTF8 = {"PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8"}
"""Environment of all commands, so that texts are read and written as UTF-8 in every locale."""


def find_command(name: str) -> str:
    """Return the path of a command on PATH or, if the environment of the running Python is not active, in that one.

    Raises FileNotFoundError if there is no such command.
    """
    own, folders = os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath).split(os.pathsep)
    folders = [*([] if own in folders else [own]), *folders, sysconfig.get_path("scripts", f"{os.name}_user")]
    found = shutil.which(name, path=os.pathsep.join(folders))
    if found is None:
        raise FileNotFoundError(2, "no such command; is the environment active?", name)
    return found


def start_child(command: Sequence[str], held: Sequence[int] = (), **options: Any) -> "subprocess.Popen[bytes]":
    """Start a command that is terminated when this process ends, even if this process is killed.

    The command ignores Ctrl-C, which a terminal sends to all processes: this process decides when the command ends. It
    inherits ``held``, the file descriptors of locks, so that it holds the locks until it ends.
    """
    parent = os.getpid()
    prctl: Any = ctypes.CDLL(None, use_errno=True).prctl if sys.platform == "linux" else None

    def prepare_child() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if prctl is not None:
            _terminate_with_parent(parent, prctl)

    environment: Dict[str, str] = {**os.environ, **UTF8, **options.pop("env", {})}
    words = [find_command(command[0]), *command[1:]]
    return subprocess.Popen(words, pass_fds=held, preexec_fn=prepare_child, env=environment, **options)


def _terminate_with_parent(parent: int, prctl: Any) -> None:
    """Ask Linux to terminate this process, or the command that replaces it, when the parent process ends."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # the parent may have ended before prctl was called
        os._exit(128 + signal.SIGTERM)


@contextlib.contextmanager
def forward_signals(child: "subprocess.Popen[bytes]") -> Iterator[List[int]]:
    """Pass SIGINT, SIGTERM and SIGHUP on to a child as SIGTERM, unless this process ignores the signal.

    The child can then save its state. A second signal kills it. The value is the list of the signals received so far.
    """
    received: List[int] = []

    def forward_signal(number: int, frame: Any) -> None:
        received.append(number)
        if len(received) > 1:
            child.kill()
        else:
            child.terminate()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {n: signal.signal(n, forward_signal) for n in numbers if signal.getsignal(n) is not signal.SIG_IGN}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def watch_parent() -> None:
    """Start a thread that terminates this process if its parent ends, for example because the parent was killed."""
    parent = os.getppid()

    def wait_for_end_of_parent() -> None:
        while os.getppid() == parent:
            time.sleep(SECONDS_BETWEEN_LOOKS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait_for_end_of_parent, daemon=True).start()


def run_child(command: List[str], held: Sequence[int] = (), **options: Any) -> int:
    """Run a command and wait for it. Signals that would end this process are forwarded to the command.

    Returns its exit status, or 128 plus the number of the signal that terminated the command or this process.
    """
    child = start_child(command, held, **options)
    with forward_signals(child) as received:
        status = child.wait()
    return 128 + received[0] if received else status if status >= 0 else 128 - status


def main() -> int:
    """Replace this process with the command, or run it where processes cannot be tied to their parent."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    try:
        if sys.platform == "linux":
            _terminate_with_parent(parent, ctypes.CDLL(None, use_errno=True).prctl)
            os.execvp(command[0], command)
        watch_parent()
        return run_child(command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127 if isinstance(error, FileNotFoundError) else 126


if __name__ == "__main__":
    sys.exit(main())
