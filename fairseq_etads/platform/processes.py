"""Work in several processes, which end with this one; a killed one is reported as an error."""

import contextlib
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import IO, Any, Callable, Iterator, Optional, Tuple

from .errors import InputError


def lock(file: IO[Any]) -> bool:
    """Lock an open file for this process; False if another one has it. The lock ends with the process.

    Without locks (Windows, some network file systems), every process gets the file.
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
    """A pool of ``count`` processes, which end with this one, also on a signal.

    Args:
        start, arguments: a function, called at the start of every process, and its arguments.
        context: a context of ``multiprocessing``; None: the default one.

    Raises:
        InputError: a process was killed.
    """
    with ProcessPoolExecutor(count, context, start, arguments) as pool:
        try:
            yield pool
        except BrokenProcessPool:
            raise InputError("a process was killed from outside (out of memory?); try fewer --jobs") from None
        except Exception:
            raise
        except BaseException:  # after a signal, do not wait for a result
            processes = list((pool._processes or {}).values())
            thread: Any = pool._executor_manager_thread
            # The pool must drop work that has not started before its processes end. Otherwise its thread fails on
            # cancelled work, such as the rest of a map, when it finds the processes gone.
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
            if thread is not None:
                thread.join()  # wait here, because the pool's own exit would reset the thread
            raise
