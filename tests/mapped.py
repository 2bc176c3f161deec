"""Functions for other processes, which only find functions at the top level of a module."""

import os
import signal
import time
from pathlib import Path

from fairseq_etads.platform.errors import InputError


def nothing():
    pass


def fail(error):
    raise error


def double(item):
    return 2 * item


def broken(item):
    if item == 70:
        raise InputError("line 70: broken")
    return item


def killed(item):
    os.kill(os.getpid(), signal.SIGKILL)


def asleep(items):
    Path("started").touch()
    time.sleep(600)


def killed_at_seventy(item):
    if item == 70:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def is_registered(name):
    """Tell whether fairseq knows the name of a task."""
    from fairseq.tasks import TASK_REGISTRY

    return name in TASK_REGISTRY
