"""Reading and writing text files, the error, the option --jobs: what every preparation does alike."""

import argparse
import contextlib
import hashlib
import itertools
import json
import multiprocessing
import os
import sys
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, TextIO, Tuple

from fairseq_etads.text.files import InputError

SPLITS = ("train", "valid", "test")
SIDES = ("source", "target")
CHUNK = 64
"""Items that go to a process at a time."""


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """The option --jobs."""
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all processors, %(default)s)"
    )


@contextlib.contextmanager
def atomic_writer(path: Path, errors: str = "strict") -> Iterator[TextIO]:
    """A UTF-8 text file that appears under its name only when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial_path = path.with_name(path.name + ".partial")
    with open(partial_path, "w", encoding="utf-8", errors=errors, newline="\n") as file:
        yield file
    os.replace(partial_path, path)


def write_json(path: Path, content: Dict[str, Any]) -> None:
    """A JSON file; of a file name that is not UTF-8 it holds escapes, from which reading makes the same name."""
    with atomic_writer(path, "backslashreplace") as file:
        json.dump(content, file, indent=2, ensure_ascii=False)
        file.write("\n")


def read_json(path: Path, advice: str) -> Dict[str, Any]:
    """The object that a JSON file holds.

    Raises:
        InputError: it is damaged; ``advice`` says what to do.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged ({error}); {advice}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} is damaged (not a JSON object); {advice}")
    return content


def printable(text: str) -> str:
    """Names in an input can hold anything, also what a terminal obeys or cannot show: that as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def checked_lines(path: Path) -> Tuple[str, int]:
    """SHA-256 of a file in hexadecimal and its number of lines, in constant memory."""
    digest, lines, last = hashlib.sha256(), 0, b"\n"
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
            lines += block.count(b"\n")
            last = block[-1:]
    return digest.hexdigest(), lines + (last != b"\n")


def _processes(plugin: bool) -> Any:
    """Processes forked from a server that has imported what all of them need and has done nothing else.

    Forking this process, which may have used torch, can deadlock, and spawning imports fairseq anew in each.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fairseq_etads.plugin"] if plugin else [])
    return context


def run_apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a module in a process of its own; what it raises is raised here."""
    with ProcessPoolExecutor(1, _processes(plugin=True)) as pool:
        return pool.submit(function, *arguments).result()


def ordered_map(
    function: Callable[[List[Any]], List[Any]],
    items: Iterable[Any],
    jobs: int,
    start: Callable[..., None],
    arguments: Tuple[Any, ...],
    plugin: bool = False,
    small: int = 1000,
) -> Iterator[Any]:
    """What ``function`` makes of ``items``, in order, whatever the number of processes.

    At most a few chunks of items and results are held, however many there are. Up to ``small`` items are not worth
    starting processes for. ``start(*arguments)`` is called first in every process that works.

    Args:
        function: list of items -> list of results, one each; of a module, so that processes find it.
        plugin: it needs fairseq_etads, whose import takes seconds. small: see above.

    Raises:
        InputError: a process was ended from outside, for want of memory say.
    """
    stream = iter(items)
    chunks = iter(lambda: list(itertools.islice(stream, CHUNK)), [])
    first: List[List[Any]] = []
    # this process would take seconds to import the plugin; the server does it once for all that follows
    apart = plugin and "fairseq_etads.plugin" not in sys.modules
    if jobs > 1 and not apart:
        first = list(itertools.islice(chunks, -(-small // CHUNK)))
    if not apart and (jobs <= 1 or len(first) < -(-small // CHUNK)):
        start(*arguments)
        for chunk in itertools.chain(first, chunks):
            yield from function(chunk)
        return
    with ProcessPoolExecutor(max(1, jobs), _processes(plugin), start, arguments) as pool:
        pending: Deque[Future] = deque()
        try:
            for chunk in itertools.chain(first, chunks):
                pending.append(pool.submit(function, chunk))
                if len(pending) > 4 * jobs:
                    yield from pending.popleft().result()
            while pending:
                yield from pending.popleft().result()
        except BrokenProcessPool:
            raise InputError("a process was ended from outside (out of memory?); try fewer --jobs") from None
        finally:
            for future in pending:
                future.cancel()
