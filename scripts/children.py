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


def start_child(command: Sequence[str], held: Sequence[int] = (), **options: Any) -> "subprocess.Popen[bytes]":
    """Start a command that is terminated when this process ends, even if this process is killed.

    Args:
        held: file descriptors of locks. The command inherits them, so that it holds the locks until it ends.
        options: options of ``subprocess.Popen``.
    """
    parent = os.getpid()
    terminate_with_this_process: Any = None
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None, use_errno=True).prctl

        def terminate_with_this_process() -> None:
            _terminate_with_parent(parent, prctl)

    return subprocess.Popen(command, pass_fds=held, preexec_fn=terminate_with_this_process, **options)


def _terminate_with_parent(parent: int, prctl: Any) -> None:
    """Ask Linux to terminate this process, or the command that replaces it, when the parent process ends."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # the parent may have ended before prctl was called
        os._exit(128 + signal.SIGTERM)


def set_termination_handler(handler: Callable[[int, Any], None]) -> None:
    """Call ``handler`` on SIGINT, SIGTERM and SIGHUP, unless this process ignores the signal."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
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

    Returns:
        The exit status of the command, or 128 plus the number of the signal that terminated the command or this
        process.
    """
    ended_by = 0
    child = start_child(command, held, **options)

    def forward_signal(number: int, frame: Any) -> None:
        nonlocal ended_by
        if ended_by:
            child.kill()
        else:
            ended_by = number
            child.terminate()

    set_termination_handler(forward_signal)
    status = child.wait()
    return 128 + ended_by if ended_by else status if status >= 0 else 128 - status


def main() -> int:
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
