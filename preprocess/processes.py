"""Run functions in worker processes, in order, with modules that are slow to import imported only once."""

import itertools
import multiprocessing
import sys
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, Callable, ContextManager, Deque, Iterable, Iterator, List, Sequence, Tuple

from fairseq_etads.platform.processes import make_process_pool

CHUNK = 64
"""Number of items to send to a worker process at a time."""
PLUGIN = "fairseq_etads.plugin"
"""Module that registers --tokenizer etads with fairseq. Importing it takes several seconds."""
TOKENIZER_MODULES = (PLUGIN, "nltk.tokenize", "sacremoses")
"""Modules that --tokenizer etads requires, the last two when the first text is split."""
_work: Any
"""Function of a worker process, or the exception raised while it was made."""


def _make_pool(count: int, preload: Sequence[str], *make: Any) -> ContextManager[ProcessPoolExecutor]:
    """Return a pool of processes that are forked from a server with only the given modules imported."""
    # Forking the current process could cause a deadlock, because it may have used torch. Spawned processes would have
    # to import all modules again.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    return make_process_pool(count, _start_worker if make else None, make, context)


def _start_worker(make: Callable[..., Any], *arguments: Any) -> None:
    """Make the function of a worker. Its error is kept, because the pool would only report that a process has ended."""
    global _work
    try:
        _work = make(*arguments)
    except (Exception, SystemExit) as error:
        _work = error


def _apply_to_chunk(items: List[Any]) -> List[Any]:
    if isinstance(_work, BaseException):
        raise _work
    return [_work(item) for item in items]


def run_in_separate_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a top-level function that requires the plugin in a separate process, and raise its exceptions here."""
    with _make_pool(1, [PLUGIN]) as pool:
        return pool.submit(function, *arguments).result()


def map_in_order(
    make: Callable[..., Callable[[Any], Any]],
    arguments: Tuple[Any, ...],
    items: Iterable[Any],
    jobs: int,
    preload: Sequence[str] = (),
    small: int = 1000,
) -> Iterator[Any]:
    """Apply the function ``make(*arguments)`` to each item in several processes, and yield the results in order.

    Each process calls ``make``, a function at the top level of a module, once, and shares the modules to ``preload``.
    At most a few chunks of items and results are in memory at a time. If ``jobs`` is 1 or there are fewer than about
    ``small`` items, all are processed in the current process, unless this would require importing the plugin. Raises
    the exceptions of ``make`` and of the function, and InputError if a process was killed.
    """
    stream = iter(items)
    chunks = iter(lambda: list(itertools.islice(stream, CHUNK)), [])
    worthwhile = -(-small // CHUNK)  # number of chunks, rounded up
    # If the current process has not imported the plugin, the fork server imports it instead, and keeps it for later
    # calls of run_in_separate_process.
    apart = PLUGIN in preload and PLUGIN not in sys.modules
    first = list(itertools.islice(chunks, worthwhile)) if jobs > 1 and not apart else []
    if not apart and (jobs <= 1 or len(first) < worthwhile):
        work = make(*arguments)
        for chunk in itertools.chain(first, chunks):
            yield from map(work, chunk)
        return
    with _make_pool(max(1, jobs), preload, make, *arguments) as pool:
        pending: Deque[Future] = deque()
        try:
            for chunk in itertools.chain(first, chunks):
                pending.append(pool.submit(_apply_to_chunk, chunk))
                if len(pending) > 4 * jobs:
                    yield from pending.popleft().result()
            while pending:
                yield from pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
