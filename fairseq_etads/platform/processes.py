"""Run work in several processes, which end with this process; a killed process is reported as an error."""

import contextlib
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import IO, Any, Callable, Iterator, Optional, Tuple

from .errors import InputError


def lock(file: IO[Any]) -> bool:
    """Lock an open file until this process ends; return False if another process holds the lock.

    Where locks are not supported (Windows, some network file systems), the result is always True.
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
def process_pool(
    count: int, start: Callable[..., None], arguments: Tuple[Any, ...] = (), context: Optional[Any] = None
) -> Iterator[ProcessPoolExecutor]:
    """Create a pool of ``count`` processes, which end with this process, even on a signal.

    Args:
        start: function to call at the start of every process.
        arguments: arguments of ``start``.
        context: a context of ``multiprocessing``; None for the default context.

    Raises:
        InputError: a process was killed.
    """
    with ProcessPoolExecutor(count, context, start, arguments) as pool:
        try:
            yield pool
        except BrokenProcessPool:
            raise InputError("a process was killed from outside (out of memory?); try a smaller --jobs") from None
        except Exception:
            raise
        except BaseException:  # after a signal, results are not needed
            processes = list((pool._processes or {}).values())
            thread: Any = pool._executor_manager_thread
            # The pool must drop work that has not started before its processes end. Otherwise, when its thread notices
            # that the processes have ended, it fails on cancelled work, such as the rest of a map.
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
            if thread is not None:
                thread.join()  # wait here, because the pool's own exit would reset the thread
            raise
