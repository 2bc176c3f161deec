"""What all commands share: ``--version``, errors as one line on stderr, and their end by Ctrl-C or another signal."""

import argparse
import contextlib
import multiprocessing
import os
import signal
import sys
from typing import Any, Callable, Iterator, NoReturn, Optional, Tuple, Type

from ..version import __version__
from .errors import InputError
from .systems import belongs_to, is_there, system_of

USER_ERROR = 2
"""Exit status after a mistake in the input or the options."""

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Parser(argparse.ArgumentParser):
    """An argument parser that knows ``--version`` and says in one line what is wrong with the options."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        if " " not in self.prog:  # a subcommand's prog is "etads-human make"
            version = f"{self.prog} {__version__}"
            self.add_argument("--version", action="version", version=version, help="show the version and exit")

    def error(self, message: str) -> NoReturn:
        """Print the message behind the command's name and exit with status 2."""
        self.exit(USER_ERROR, f"{self.prog}: {message} (see --help)\n")


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add the option --jobs."""
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all processors, %(default)s)"
    )


def check_positive(**numbers: Optional[int]) -> None:
    """Raise InputError for a number below 1; names are those of options, and None is an option that is not given."""
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise InputError(f"--{name.replace('_', '-')} {number}: choose 1 or more")


def printable(text: str) -> str:
    """The text with escapes for what a terminal cannot show or would obey; names in an input can hold anything."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def sentence(error: BaseException) -> str:
    """An error as one line."""
    text = str(error)
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        text = f"{os.fsdecode(error.filename)}: {error.strerror}"
    return printable(" ".join(line.strip() for line in text.split("\n")).strip())


@contextlib.contextmanager
def errors_in_one_line(command: str, *more: Type[Exception]) -> Iterator[None]:
    """Do the work of a command: its users see sentences on stderr and never a traceback for what they did.

    - InputError, OSError and the errors in ``more``: one line, "command: sentence"; exit status 2.
    - A system of the package that is missing, to which the command belongs: one line, too; exit status 2.
    - Ctrl-C, SIGTERM or SIGHUP: exit status 130, 143 or 129. ``finally`` clauses run, so workers end with it.
    - A reader of the output that has seen enough (``| head``): silence; exit status 141, as of other tools.

    Raises:
        SystemExit: with that status.
    """
    expected: Tuple[Type[BaseException], ...] = (InputError, OSError, *more)
    with _signals_as_exits(command):
        try:
            yield
            sys.stdout.flush()
        except BrokenPipeError:
            _discard_output()
            sys.exit(128 + signal.SIGPIPE)
        except ModuleNotFoundError as error:
            system = system_of(error.name or "")
            if system is None or is_there(system):
                raise
            print(f"{command}: {belongs_to('this', system)}", file=sys.stderr)
            sys.exit(USER_ERROR)
        except expected as error:
            print(f"{command}: {sentence(error)}", file=sys.stderr)
            sys.exit(USER_ERROR)


def run(command: str, work: Callable[[], Any], *more: Type[Exception]) -> int:
    """Do the work of a command as :func:`errors_in_one_line` does, and return the exit status."""
    try:
        with errors_in_one_line(command, *more):
            work()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return 0


def limit_caches_of_shapes() -> None:
    """Let torch, which must not have been imported yet, keep little of the shapes of matrices that it has met.

    torch and oneDNN keep what they have made for each of the last 1,024 shapes, and every batch of documents brings new
    ones: 170 MB more after 2,600 documents, none with these limits, at the same speed.
    """
    os.environ.setdefault("LRU_CACHE_CAPACITY", "16")
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")


def leave_signals_to_parent() -> None:
    """In a worker: leave Ctrl-C, which a terminal sends to all processes, to the first one, which ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end_worker)


def _end_worker(number: int, frame: Any) -> None:
    for child in multiprocessing.active_children():  # fairseq-preprocess has workers of its own
        child.terminate()
    os._exit(128 + number)


@contextlib.contextmanager
def _signals_as_exits(command: str) -> Iterator[None]:
    """Turn signals into SystemExit, except those that the process was started to ignore (by nohup, for example)."""

    def leave(number: int, frame: Any) -> None:
        if number == signal.SIGINT:
            print(f"\n{command}: interrupted", file=sys.stderr)
        sys.exit(128 + number)

    before = {}
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            with contextlib.suppress(ValueError):  # not in the main thread
                before[number] = signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _discard_output() -> None:
    """Send what is still to be written to stdout nowhere: Python would complain about it when it ends."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
