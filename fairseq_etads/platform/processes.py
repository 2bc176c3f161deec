"""Run functions in several processes, which end when the current process ends."""

import contextlib
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import IO, Any, Callable, Iterator, Optional, Tuple

from .errors import InputError


def lock_file(file: IO[Any]) -> bool:
    """Lock an open file until the current process ends. Returns False if another process holds the lock.

    If locks are not supported, as on Windows and some network file systems, the result is always True.
    """
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


@contextlib.contextmanager
def make_process_pool(
    count: int, start: Callable[..., None], arguments: Tuple[Any, ...] = (), context: Optional[Any] = None
) -> Iterator[ProcessPoolExecutor]:
    """Context manager that creates a pool of ``count`` processes.

    All processes of the pool end when the current process ends, even if it is ended by a signal.

    Args:
        start: function that each process calls when it starts.
        arguments: positional arguments of ``start``.
        context: ``multiprocessing`` context, or None for the default context.

    Raises:
        InputError: one of the processes was killed.
    """
    with ProcessPoolExecutor(count, context, start, arguments) as pool:
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
