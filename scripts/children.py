#!/usr/bin/env python3
"""Run commands that end together with the process that started them, even if this process is killed.

The script requires only Python.

    scripts/children.py PARENT COMMAND ...

The script replaces itself with the command, which is terminated when its parent process PARENT ends. Python scripts
import this file.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, List, Sequence

SECONDS_BETWEEN_LOOKS = 0.5
_PR_SET_PDEATHSIG = 1  # a constant for prctl in Linux


def start(command: Sequence[str], held: Sequence[int] = (), **options: Any) -> "subprocess.Popen[bytes]":
    """Start a command that is terminated when this process ends, even if this process is killed.

    Args:
        held: file descriptors of locks. The command inherits them, so that it holds the locks until it ends.
        options: options of ``subprocess.Popen``.
    """
    parent = os.getpid()
    before: Any = None
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None, use_errno=True).prctl

        def before() -> None:
            _terminate_with(parent, prctl)

    return subprocess.Popen(command, pass_fds=held, preexec_fn=before, **options)


def _terminate_with(parent: int, prctl: Any) -> None:
    """Ask Linux to terminate this process, or the command that replaces it, when the parent process ends."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # the parent may have ended before prctl was called
        os._exit(128 + signal.SIGTERM)


def on_signals(handler: Callable[[int, Any], None]) -> None:
    """Call ``handler`` on SIGINT, SIGTERM and SIGHUP, unless this process ignores the signal."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def end_with_parent() -> None:
    """Start a thread that terminates this process if its parent ends, for example because the parent was killed."""
    parent = os.getppid()

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(SECONDS_BETWEEN_LOOKS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=look, daemon=True).start()


def call(command: List[str], held: Sequence[int] = (), **options: Any) -> int:
    """Run a command and wait for it. Signals that would end this process are forwarded to the command.

    Returns:
        The exit status of the command, or 128 plus the number of the signal that terminated the command or this
        process.
    """
    ended_by = 0
    child = start(command, held, **options)

    def pass_signal_on(number: int, frame: Any) -> None:
        nonlocal ended_by
        if ended_by:
            child.kill()
        else:
            ended_by = number
            child.terminate()

    on_signals(pass_signal_on)
    status = child.wait()
    return 128 + ended_by if ended_by else status if status >= 0 else 128 - status


def main() -> int:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    try:
        if sys.platform == "linux":
            _terminate_with(parent, ctypes.CDLL(None, use_errno=True).prctl)
            os.execvp(command[0], command)
        end_with_parent()
        return call(command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127 if isinstance(error, FileNotFoundError) else 126


if __name__ == "__main__":
    sys.exit(main())
