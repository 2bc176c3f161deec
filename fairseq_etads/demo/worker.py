"""Run jobs one by one in a worker thread with a bounded queue, without torch and fairseq."""

import logging
import threading
from collections import deque
from typing import Callable, Deque, Optional

_logger = logging.getLogger(__name__)


class QueueFullError(Exception):
    """Raised when the queue is full and accepts no job."""


class StoppedError(Exception):
    """Raised by :meth:`Job.check` in work that is no longer needed."""


class Job:
    """Work that any thread can stop.

    Args:
        work: function called once with the job in the worker's thread; it must call :meth:`check` often.
    """

    def __init__(self, work: Callable[["Job"], None]):
        self.work = work
        self._stopped = threading.Event()

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def stop(self) -> None:
        """Stop the work at its next check. Work that has not started never starts."""
        self._stopped.set()

    def check(self) -> None:
        """Raise StoppedError if the job has been stopped."""
        if self.is_stopped:
            raise StoppedError


class Worker:
    """Worker that runs jobs one by one, in order of arrival.

    Args:
        most_waiting: maximum number of waiting jobs, in addition to the running job.
    """

    def __init__(self, most_waiting: int):
        self.most_waiting = most_waiting
        self._changed = threading.Condition()
        self._waiting: Deque[Job] = deque()
        self._current: Optional[Job] = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="etads-demo worker", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> int:
        """Put a job at the end of the queue, and return the number of jobs before it.

        Raises:
            QueueFullError: too many jobs are waiting, or the worker is closed.
        """
        with self._changed:
            self._waiting = deque(waiting for waiting in self._waiting if not waiting.is_stopped)
            if self._is_closed or len(self._waiting) >= self.most_waiting:
                raise QueueFullError
            before = len(self._waiting) + (self._current is not None)
            self._waiting.append(job)
            self._changed.notify()
            return before

    def close(self) -> None:
        """Stop all jobs, and accept no further jobs."""
        with self._changed:
            self._is_closed = True
            for job in (*self._waiting, *filter(None, [self._current])):
                job.stop()
            self._changed.notify()

    def join(self, seconds: float) -> None:
        """Wait after :meth:`close` until the thread ends, for a limited time."""
        self._thread.join(seconds)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if not self._waiting:
                    return
                job = self._current = self._waiting.popleft()
            try:
                if not job.is_stopped:
                    job.work(job)
            except StoppedError:
                pass
            except Exception:  # an error in one job must not affect the next one
                _logger.exception("a summary failed")
            finally:
                with self._changed:
                    self._current = None
