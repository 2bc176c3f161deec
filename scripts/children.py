"""Commands that the scripts run: they end with the process that started them, however that ends.

Needs nothing but Python.
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
_PR_SET_PDEATHSIG = 1  # of Linux's prctl


def start(command: Sequence[str], held: Sequence[int] = (), **options: Any) -> "subprocess.Popen[bytes]":
    """Start a command that is asked to end when this process has ended, even if that was killed.

    Args:
        held: file descriptors of locks: the command has them, too, so that a lock lasts as long as the command.
        options: of ``subprocess.Popen``.
    """
    parent = os.getpid()
    before: Any = None
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None, use_errno=True).prctl

        def before() -> None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:  # it was killed before the line above
                os._exit(128 + signal.SIGTERM)

    return subprocess.Popen(command, pass_fds=held, preexec_fn=before, **options)


def on_signals(leave: Callable[[int, Any], None]) -> None:
    """Call ``leave`` when this process is asked to end, by signals that it does not ignore."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, leave)


def end_with_parent() -> None:
    """Ask this process to end when the one that started it has ended, such as a script that was killed."""
    parent = os.getppid()

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(SECONDS_BETWEEN_LOOKS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=look, daemon=True).start()


def call(command: List[str], held: Sequence[int] = (), **options: Any) -> int:
    """Run a command; if this process is asked to end, the command is, and this process waits for it.

    Returns:
        its exit status, 128 and the number of the signal if a signal ended it or this process.
    """
    ended_by = 0
    child = start(command, held, **options)

    def leave(number: int, frame: Any) -> None:
        nonlocal ended_by
        if ended_by:
            child.kill()
        else:
            ended_by = number
            child.terminate()

    on_signals(leave)
    status = child.wait()
    return 128 + ended_by if ended_by else status if status >= 0 else 128 - status
