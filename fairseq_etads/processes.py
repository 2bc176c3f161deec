"""What work in several processes needs wherever it is done: an error in words when a process is killed."""

import contextlib
from concurrent.futures.process import BrokenProcessPool
from typing import Iterator

from .text.files import InputError


@contextlib.contextmanager
def lost_processes_reported() -> Iterator[None]:
    """Raise InputError where a process of a ProcessPoolExecutor was killed."""
    try:
        yield
    except BrokenProcessPool:
        raise InputError("a process was ended from outside (out of memory?); try fewer --jobs") from None
