"""Share work among processes. Results keep their order, errors are raised unchanged, and slow imports happen once."""

import itertools
import multiprocessing
import sys
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, Callable, ContextManager, Deque, Iterable, Iterator, List, Optional, Sequence, Tuple

from fairseq_etads.platform.console import leave_signals_to_parent
from fairseq_etads.platform.processes import process_pool

CHUNK = 64
"""Number of items that are sent to a process at a time."""

PLUGIN = "fairseq_etads.plugin"
"""Module that registers --tokenizer etads with fairseq; importing it takes several seconds."""

TOKENIZER_MODULES = (PLUGIN, "nltk.tokenize", "sacremoses")
"""Modules that --tokenizer etads imports. It imports the last two only when it first splits a text."""


def _processes(preload: Sequence[str]) -> Any:
    """Return a context with processes that are forked from a server, which has only imported the modules in
    ``preload``.

    Forking this process can cause a deadlock, because it may have used torch. Spawned processes would import everything
    again.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    return context


def _pool(count: int, preload: Sequence[str], *start: Any) -> ContextManager[ProcessPoolExecutor]:
    """Create a :func:`process_pool`; every process first calls the function and arguments in ``start``."""
    return process_pool(count, _start_process, start, _processes(preload))


def _start_process(function: Optional[Callable[..., None]] = None, *arguments: Any) -> None:
    leave_signals_to_parent()
    if function is not None:
        function(*arguments)


def run_apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that requires the plugin in a separate process, and raise its exceptions here.

    Args:
        function: function at the top level of a module, so that the process can find it.
    """
    with _pool(1, [PLUGIN]) as pool:
        return pool.submit(function, *arguments).result()


_start_error: Optional[BaseException] = None


def _start_worker(start: Callable[..., None], arguments: Tuple[Any, ...]) -> None:
    """Call ``start`` and store its exception, because a pool only reports that a process has ended."""
    global _start_error
    try:
        start(*arguments)
    except (Exception, SystemExit) as error:
        _start_error = error


def _work(function: Callable[[List[Any]], List[Any]], items: List[Any]) -> List[Any]:
    """Apply ``function`` to the items; raise the exception from the start of this process, if any."""
    if _start_error is not None:
        raise _start_error
    return function(items)


def ordered_map(
    function: Callable[[List[Any]], List[Any]],
    items: Iterable[Any],
    jobs: int,
    start: Callable[..., None],
    arguments: Tuple[Any, ...],
    preload: Sequence[str] = (),
    small: int = 1000,
) -> Iterator[Any]:
    """Yield the results of ``function`` for ``items`` in order, computed by any number of processes.

    At most a few chunks of items and results are in memory at a time. For up to ``small`` items, this process does the
    work and starts no others.

    Args:
        function: function that maps a list of items to the list of their results. Like ``start``, it must be defined at
            the top level of a module, so that processes can find it.
        start: function that every working process calls as ``start(*arguments)`` before its first items.
        preload: modules that ``function`` requires and that take seconds to import; they are imported once for all
            processes.

    Raises:
        InputError: a process was killed, for example because of a lack of memory.
        Exception: any exception of ``start`` or ``function``.
    """
    stream = iter(items)
    chunks = iter(lambda: list(itertools.islice(stream, CHUNK)), [])
    worthwhile = -(-small // CHUNK)  # the number of chunks, rounded up
    # This process does not need the plugin. The server imports it once, including for later calls of run_apart.
    apart = PLUGIN in preload and PLUGIN not in sys.modules
    first = list(itertools.islice(chunks, worthwhile)) if jobs > 1 and not apart else []
    if not apart and (jobs <= 1 or len(first) < worthwhile):
        start(*arguments)
        for chunk in itertools.chain(first, chunks):
            yield from function(chunk)
        return
    with _pool(max(1, jobs), preload, _start_worker, start, arguments) as pool:
        pending: Deque[Future] = deque()
        try:
            for chunk in itertools.chain(first, chunks):
                pending.append(pool.submit(_work, function, chunk))
                if len(pending) > 4 * jobs:
                    yield from pending.popleft().result()
            while pending:
                yield from pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
