"""Run functions in worker processes.

The results are returned in order, exceptions are raised again in the calling process, and modules that are slow to
import are imported only once.
"""

import itertools
import multiprocessing
import sys
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, Callable, ContextManager, Deque, Iterable, Iterator, List, Optional, Sequence, Tuple

from fairseq_etads.platform.console import leave_signals_to_parent
from fairseq_etads.platform.processes import make_process_pool

CHUNK = 64
"""Number of items to send to a worker process at a time."""

PLUGIN = "fairseq_etads.plugin"
"""Module that registers --tokenizer etads with fairseq. Importing it takes several seconds."""

TOKENIZER_MODULES = (PLUGIN, "nltk.tokenize", "sacremoses")
"""Modules that --tokenizer etads requires.

If the last two modules are not preloaded, they are imported when the first text is split.
"""


def _get_process_context(preload: Sequence[str]) -> Any:
    """Return a multiprocessing context that forks processes from a server with only the given modules imported.

    Forking the current process could cause a deadlock, because it may have used torch. Spawned processes would have to
    import all modules again.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    return context


def _make_pool(count: int, preload: Sequence[str], *start: Any) -> ContextManager[ProcessPoolExecutor]:
    """Create a pool of worker processes with :func:`make_process_pool`.

    Each process first calls the function ``start[0]`` with the arguments ``start[1:]``.
    """
    return make_process_pool(count, _start_process, start, _get_process_context(preload))


def _start_process(function: Optional[Callable[..., None]] = None, *arguments: Any) -> None:
    leave_signals_to_parent()
    if function is not None:
        function(*arguments)


def run_in_separate_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that requires the plugin in a separate process.

    Exceptions that the function raises are raised again in the current process.

    Args:
        function: function to call. It must be defined at the top level of a module, so that it can be pickled.
    """
    with _make_pool(1, [PLUGIN]) as pool:
        return pool.submit(function, *arguments).result()


_start_error: Optional[BaseException] = None


def _start_worker(start: Callable[..., None], arguments: Tuple[Any, ...]) -> None:
    """Call ``start``, and store any exception that it raises.

    If the exception were not stored, the pool would report only that the process has ended.
    """
    global _start_error
    try:
        start(*arguments)
    except (Exception, SystemExit) as error:
        _start_error = error


def _call_with_worker_check(function: Callable[[List[Any]], List[Any]], items: List[Any]) -> List[Any]:
    """Apply ``function`` to the items. If the worker process failed to start, raise the stored exception."""
    if _start_error is not None:
        raise _start_error
    return function(items)


def map_in_order(
    function: Callable[[List[Any]], List[Any]],
    items: Iterable[Any],
    jobs: int,
    start: Callable[..., None],
    arguments: Tuple[Any, ...],
    preload: Sequence[str] = (),
    small: int = 1000,
) -> Iterator[Any]:
    """Apply ``function`` to ``items`` in several processes, and yield the results in order.

    At most a few chunks of items and results are in memory at a time. If ``jobs`` is 1 or there are fewer than about
    ``small`` items, all items are processed in the current process, unless this would require importing the plugin.

    Args:
        function: function that maps a list of items to a list of results. Both this function and ``start`` must be
            defined at the top level of a module, so that they can be pickled.
        start: function that each worker process calls once, as ``start(*arguments)``, before it processes items.
        preload: names of modules that ``function`` requires and that take seconds to import. They are imported once and
            shared by all worker processes.

    Raises:
        InputError: a worker process was killed, for example because of insufficient memory.
        Exception: any exception that is raised by ``start`` or ``function``.
    """
    stream = iter(items)
    chunks = iter(lambda: list(itertools.islice(stream, CHUNK)), [])
    worthwhile = -(-small // CHUNK)  # number of chunks, rounded up
    # If the current process has not imported the plugin, the fork server imports it instead, and keeps it for later
    # calls of run_in_separate_process.
    apart = PLUGIN in preload and PLUGIN not in sys.modules
    first = list(itertools.islice(chunks, worthwhile)) if jobs > 1 and not apart else []
    if not apart and (jobs <= 1 or len(first) < worthwhile):
        start(*arguments)
        for chunk in itertools.chain(first, chunks):
            yield from function(chunk)
        return
    with _make_pool(max(1, jobs), preload, _start_worker, start, arguments) as pool:
        pending: Deque[Future] = deque()
        try:
            for chunk in itertools.chain(first, chunks):
                pending.append(pool.submit(_call_with_worker_check, function, chunk))
                if len(pending) > 4 * jobs:
                    yield from pending.popleft().result()
            while pending:
                yield from pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
