"""Work in several processes: in order, only so much in memory, and errors as they were raised."""

import sys

import pytest
from etads_preprocess.processes import ordered_map
from mapped import broken, double, exit_at_once, killed, no_model, no_module, nothing

from fairseq_etads.text.files import InputError


@pytest.fixture(autouse=True)
def command(monkeypatch):
    """As in a command whose processes import neither torch nor fairseq, which they do for pytest."""
    monkeypatch.setattr(sys, "argv", ["etads-corpus"])


def test_only_so_much_is_read_ahead():
    taken = []

    def items():
        for number in range(100_000):
            taken.append(number)
            yield number

    results = ordered_map(double, items(), 2, nothing, (), small=64)
    assert [next(results) for _ in range(100)] == [2 * number for number in range(100)]
    assert len(taken) < 2000
    results.close()


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_process_raises_arrives(jobs):
    with pytest.raises(InputError, match="line 70: broken"):
        list(ordered_map(broken, range(200), jobs, nothing, (), small=64))


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    "start,error,words",
    [
        (no_model, InputError, "codes.bpe is damaged"),
        (no_module, ImportError, "spaCy"),
        (exit_at_once, SystemExit, "1"),
    ],
)
def test_what_the_start_of_a_process_raises_arrives(start, error, words, jobs):
    """A pool of processes says of it only that a process has ended, as if memory had been short."""
    with pytest.raises(error, match=words):
        list(ordered_map(double, range(200), jobs, start, (), small=64))


def test_a_killed_process_is_reported():
    with pytest.raises(InputError, match=r"ended from outside \(out of memory\?\); try fewer --jobs"):
        list(ordered_map(killed, range(200), 2, nothing, (), small=64))
