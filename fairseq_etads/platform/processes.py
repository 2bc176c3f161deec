"""Processes: functions that run in several of them, and the end of the current one by Ctrl-C or a refusal."""

import argparse
import contextlib
import linecache
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any, Callable, Iterator, Optional, Sequence, Tuple, Type

from .errors import InputError

CHUNK = 64
"""Number of items that a process receives at a time."""


def _start_worker(start: Optional[Callable[..., None]], arguments: Tuple[Any, ...]) -> None:
    """Ignore Ctrl-C, which a terminal sends to all processes, and end with the parent process; then call ``start``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _terminate_worker)
    parent: Any = multiprocessing.parent_process()

    def terminate_with_parent() -> None:
        parent.join()
        _terminate_worker(signal.SIGTERM)

    if parent is not None:
        threading.Thread(target=terminate_with_parent, daemon=True).start()
    if start is not None:
        start(*arguments)


def _terminate_worker(number: int, frame: Any = None) -> None:
    # A worker may have started processes itself, for example in fairseq-preprocess.
    for child in multiprocessing.active_children():
        child.terminate()
    os._exit(128 + number)


@contextlib.contextmanager
def make_process_pool(
    count: int, start: Optional[Callable[..., None]] = None, arguments: Tuple[Any, ...] = (), context: Any = None
) -> Iterator[ProcessPoolExecutor]:
    """Context manager that creates a pool of ``count`` processes, which end with this one, even if a signal ends it.

    Each process calls ``start`` with these ``arguments`` when it starts, after it has left signals to this process.
    Raises InputError if one of the processes was killed.
    """
    with ProcessPoolExecutor(count, context, _start_worker, (start, arguments)) as pool:
        try:
            yield pool
        except BrokenProcessPool:
            raise InputError("a process was killed from outside (out of memory?); try a smaller --jobs") from None
        except Exception:
            raise
        except BaseException:  # after a signal, the remaining results are not needed
            processes = list((pool._processes or {}).values())
            thread: Any = pool._executor_manager_thread
            # Pending work must be cancelled before the processes of the pool end. Otherwise, the manager thread would
            # notice that the processes have ended, and raise an error for cancelled work, such as the rest of a map.
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
            if thread is not None:
                thread.join()  # wait here, because the reference to the thread is lost when the pool exits
            raise


def map_in_processes(
    function: Callable[[Any], Any], items: Sequence[Any], jobs: int, start: Any = None, arguments: Tuple[Any, ...] = ()
) -> Iterator[Any]:
    """Yield the results of ``map(function, items)`` in order, from ``jobs`` processes or, if it is 1, this one."""
    if jobs > 1:
        with make_process_pool(min(jobs, len(items) // CHUNK + 1), start, arguments) as pool:
            yield from pool.map(function, items, chunksize=CHUNK)
        return
    if start is not None:
        start(*arguments)
    yield from map(function, items)


PACKAGES = ("fairseq_etads", "etads_preprocess")


def hide_expected_tracebacks() -> None:
    """Install a hook that shows errors because of options or files of a fairseq command in one line.

    If Ctrl-C interrupts an import of this project's modules, the process exits with status 130.
    """
    plain_hook = sys.excepthook

    def hook(kind: Type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        frames = [frame for frame, _ in traceback.walk_tb(trace)]
        own = [str(frame.f_globals.get("__name__")).partition(".")[0] in PACKAGES for frame in frames]
        importing = [frame.f_code.co_name == "<module>" for frame in frames]
        if issubclass(kind, KeyboardInterrupt) and any(map(min, own, importing)):
            os._exit(128 + signal.SIGINT)
        message = _explain_refusal(error, trace) if "cli_main" in [frame.f_code.co_name for frame in frames] else ""
        if message:
            print(f"{argparse.ArgumentParser().prog}: error: {message}", file=sys.stderr)
        else:
            plain_hook(kind, error, trace)

    sys.excepthook = hook


def _explain_refusal(error: BaseException, trace: Optional[TracebackType]) -> str:
    """Return the message of an error that is raised because of options or files, or an empty string."""
    frame, line = list(traceback.walk_tb(trace))[-1]
    module, text = str(frame.f_globals.get("__name__")), " ".join(str(error).split())
    if module.startswith("fairseq_cli.") and isinstance(error, AssertionError):
        if text.startswith("--sampling requires"):
            asked = frame.f_locals["cfg"].generation
            return f"--sampling: give --nbest {asked.beam} or --beam {asked.nbest}"
        return text
    is_deliberate = linecache.getline(frame.f_code.co_filename, line).lstrip().startswith("raise ")
    is_known = module.startswith(PACKAGES[0]) or text.startswith("Model file not found: ")
    return text if is_known and is_deliberate and isinstance(error, (ValueError, OSError)) else ""
