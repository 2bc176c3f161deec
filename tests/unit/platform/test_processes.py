"""Work in several processes: in order, with bounded memory, the original errors, and a silent end."""

import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest
from etads_preprocess.encode import map_in_order
from mapped import broken, double, fail, killed, nothing

from fairseq_etads.platform.errors import InputError
from fairseq_etads.platform.processes import make_process_pool


@pytest.fixture(autouse=True)
def command(monkeypatch):
    """Act like a command with processes that import neither torch nor fairseq, although pytest's processes do."""
    monkeypatch.setattr(sys, "argv", ["etads-corpus"])


def test_only_so_much_is_read_ahead():
    taken = []

    def items():
        for number in range(100_000):
            taken.append(number)
            yield number

    results = map_in_order(partial, (double,), items(), 2, small=64)
    assert [next(results) for _ in range(100)] == [2 * number for number in range(100)]
    assert len(taken) < 2000
    results.close()


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    "make,arguments,error,words",
    [
        (partial, (broken,), InputError, "line 70: broken"),
        (fail, (InputError("codes.bpe is damaged"),), InputError, "codes.bpe is damaged"),
        (fail, (ImportError("spaCy is missing"),), ImportError, "spaCy"),
        (fail, (SystemExit(1),), SystemExit, "1"),
    ],
)
def test_what_a_process_or_its_start_raises_arrives(make, arguments, error, words, jobs):
    """A pool of processes only reports that a process has ended, as if it had run out of memory."""
    with pytest.raises(error, match=words):
        list(map_in_order(make, arguments, range(200), jobs, small=64))


def test_a_killed_process_is_reported():
    with pytest.raises(InputError, match=r"a process was killed from outside .*; try a smaller --jobs"):
        list(map_in_order(partial, (killed,), range(200), 2, small=64))


@pytest.mark.parametrize("late", ["shutdown", "nothing"])
def test_a_signal_ends_a_pool_in_silence_whatever_is_left_to_do(late, monkeypatch):
    """The pool's thread must not find cancelled work or a collected pool after its processes have ended."""
    shutdown, complaints = ProcessPoolExecutor.shutdown, []

    def late_shutdown(self, *arguments, **options):
        time.sleep(0.5)
        shutdown(self, *arguments, **options)

    if late == "shutdown":
        monkeypatch.setattr(ProcessPoolExecutor, "shutdown", late_shutdown)
    monkeypatch.setattr(threading, "excepthook", complaints.append)
    with pytest.raises(SystemExit), make_process_pool(2, nothing) as pool:
        futures = [pool.submit(time.sleep, 600) for _ in range(20)]
        while sum(future.running() for future in futures) < 3:  # the queue to the processes was full
            time.sleep(0.01)
        time.sleep(0.5)  # the pool's thread looks at its work no more
        assert sum(future.cancel() for future in futures) >= 10
        threads = [thread for thread in threading.enumerate() if "ExecutorManager" in type(thread).__name__]
        assert threads
        del pool, futures
        raise SystemExit(143)
    for thread in threads:
        thread.join(timeout=60)
    assert not complaints and not any(thread.is_alive() for thread in threads)
