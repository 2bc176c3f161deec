"""Run jobs one at a time in a worker thread that has a queue of limited length.

This module does not require torch or fairseq.
"""

import logging
import threading
from collections import deque
from typing import Callable, Deque, Optional

_logger = logging.getLogger(__name__)


class QueueFullError(Exception):
    """Exception raised if a job cannot be accepted because the queue is full."""


class JobStoppedError(Exception):
    """Exception raised by :meth:`Job.check` if the result of the job is no longer needed."""


class Job:
    """A job that can be stopped from any thread.

    Args:
        work: function that the worker thread calls once, with the job as its argument. The function must call
            :meth:`check` frequently.
    """

    def __init__(self, work: Callable[["Job"], None]):
        self.work = work
        self._stopped = threading.Event()

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def stop(self) -> None:
        """Stop the job at its next call of :meth:`check`. A job that has not yet started is never started."""
        self._stopped.set()

    def check(self) -> None:
        """Raise JobStoppedError if the job has been stopped."""
        if self.is_stopped:
            raise JobStoppedError


class Worker:
    """Worker thread that runs jobs one at a time, in the order in which they are submitted.

    Args:
        most_waiting: maximum number of waiting jobs in the queue, not including the running job.
    """

    def __init__(self, most_waiting: int):
        self.most_waiting = most_waiting
        self._changed = threading.Condition()
        self._waiting: Deque[Job] = deque()
        self._current: Optional[Job] = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._run_jobs, name="etads-demo worker", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> int:
        """Append a job to the queue, and return the number of jobs ahead of it.

        Raises:
            QueueFullError: too many jobs are waiting, or the worker has been closed.
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
        """Stop all jobs, and reject any further jobs."""
        with self._changed:
            self._is_closed = True
            for job in (*self._waiting, *filter(None, [self._current])):
                job.stop()
            self._changed.notify()

    def join(self, seconds: float) -> None:
        """Wait at most ``seconds`` seconds for the thread to end. Call :meth:`close` first."""
        self._thread.join(seconds)

    def _run_jobs(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if not self._waiting:
                    return
                job = self._current = self._waiting.popleft()
            try:
                if not job.is_stopped:
                    job.work(job)
            except JobStoppedError:
                pass
            except Exception:  # an error in one job must not affect the next one
                _logger.exception("a summary failed")
            finally:
                with self._changed:
                    self._current = None
