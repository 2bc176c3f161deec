"""Run functions in several processes, which end when the current process ends."""

import contextlib
import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Callable, Iterator, Optional, Tuple

from .errors import InputError


def _start_worker(start: Optional[Callable[..., None]], arguments: Tuple[Any, ...]) -> None:
    """Ignore Ctrl-C in a worker process, and end the worker if its parent process is killed; then call ``start``.

    A terminal sends Ctrl-C to all processes, but the parent process is responsible for stopping its workers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _terminate_worker)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_terminate_with_parent, args=(parent,), daemon=True).start()
    if start is not None:
        start(*arguments)


def _terminate_with_parent(parent: Any) -> None:
    parent.join()
    _terminate_worker(signal.SIGTERM)


def _terminate_worker(number: int, frame: Any = None) -> None:
    # A worker may have started processes itself, for example in fairseq-preprocess.
    for child in multiprocessing.active_children():
        child.terminate()
    os._exit(128 + number)


@contextlib.contextmanager
def make_process_pool(
    count: int,
    start: Optional[Callable[..., None]] = None,
    arguments: Tuple[Any, ...] = (),
    context: Optional[Any] = None,
) -> Iterator[ProcessPoolExecutor]:
    """Context manager that creates a pool of ``count`` processes.

    All processes of the pool end when the current process ends, even if it is ended by a signal.

    Args:
        start: function that each process calls when it starts, after it has left signals to the current process.
        arguments: positional arguments of ``start``.
        context: ``multiprocessing`` context, or None for the default context.

    Raises:
        InputError: one of the processes was killed.
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
