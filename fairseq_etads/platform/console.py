"""Behaviour that all commands share: ``--version``, one-line error messages, exit statuses and signal handling."""

import argparse
import contextlib
import difflib
import functools
import os
import signal
import sys
from typing import Any, Callable, Iterable, Iterator, List, NoReturn, Optional, Sequence, TextIO, Tuple, Type

from ..version import get_version
from .errors import InputError
from .optional_parts import explain_missing_system, find_required_system, is_system_installed

USER_ERROR = 2
"""Exit status if the input or an option is invalid."""

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Parser(argparse.ArgumentParser):
    """Argument parser that adds ``--version`` and reports invalid options in one line."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._is_intermixed = False
        if " " not in self.prog:  # subcommands such as "etads-human make" do not have --version
            # The parsed options must not contain --version, because reports record them.
            hidden: Any = {"dest": argparse.SUPPRESS, "default": argparse.SUPPRESS}
            self.add_argument("--version", action=_VersionAction, nargs=0, help="show the version and exit", **hidden)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the command line like argparse, but also accept file names that follow options."""
        if self._is_intermixed:
            return super().parse_known_args(args, namespace)
        parsed, rest = super().parse_known_args(args, namespace)
        kinds = {action.nargs for action in self._get_positional_actions()}
        # The rest may be file names that follow options, which argparse cannot parse in commands with subcommands.
        if rest and namespace is None and kinds & {"*", "+", "?"} and not kinds & {argparse.PARSER, argparse.REMAINDER}:
            self._is_intermixed = True
            try:
                return self.parse_known_intermixed_args(args)
            finally:
                self._is_intermixed = False
        return parsed, rest

    def error(self, message: str) -> NoReturn:
        """Print the name of the command and the message, and exit with status 2."""
        text = escape_unprintable(message)
        if message.startswith("unrecognized arguments: "):
            known = [name for parser in self.list_parsers() for name in parser._option_string_actions]
            words = [word.partition("=")[0] for word in message.split() if word.startswith("--")]
            near = next(filter(None, (find_closest_word(word, known) for word in words)), "")
            text += f"; did you mean {near}?" if near else ""
        self.exit(USER_ERROR, f"{self.prog}: {text} (see --help)\n")

    def list_parsers(self) -> List[argparse.ArgumentParser]:
        """Return this parser and the parsers of its subcommands."""
        groups = [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        return [self, *(parser for action in groups for parser in action.choices.values())]


class ForwardingParser(Parser):
    """A parser that leaves everything after ``--`` to another command, as ``forwarded`` in the parsed options."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        end = words.index("--") if "--" in words else len(words)
        parsed, rest = super().parse_known_args(words[:end], namespace)
        parsed.forwarded = words[end + 1 :]
        return parsed, rest


class _VersionAction(argparse.Action):
    """Action that prints the version, which is determined only when the option is used."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        print(f"{parser.prog} {get_version()}")
        parser.exit()


def find_closest_word(word: str, known: Iterable[str]) -> str:
    """Return the word in ``known`` that is most similar to ``word``, or an empty string if none is similar."""
    return next(iter(difflib.get_close_matches(word, list(known), 1)), "")


def command(
    make_parser: Callable[[], argparse.ArgumentParser], *more: Type[Exception]
) -> Callable[[Callable[[argparse.Namespace], Any]], Callable[..., int]]:
    """Return a decorator that converts a function of parsed options to the ``main`` function of a command.

    ``main(argv)`` parses the options, calls the decorated function within :func:`report_errors_in_one_line`, and
    returns the exit status. Modules that require torch or fairseq should be imported inside the decorated function, so
    that ``--help`` and messages about invalid options are shown immediately. In a module that is run as a program, the
    command is run at once, so the decorated function must be the last one in the module. ``more`` are exceptions that
    indicate user errors, in addition to InputError and OSError.
    """

    def decorate(work: Callable[[argparse.Namespace], Any]) -> Callable[..., int]:
        @functools.wraps(work)
        def main(argv: Optional[Sequence[str]] = None) -> int:
            parser = make_parser()
            args = parser.parse_args(argv)
            return run_command(parser.prog, lambda: work(args), *more)

        main.make_parser = make_parser  # type: ignore[attr-defined]
        if work.__module__ == "__main__":  # python -m fairseq_etads.commands.NAME
            sys.exit(main())
        return main

    return decorate


def escape_unprintable(text: str) -> str:
    """Escape all characters, as in file names, that cannot be printed or that control a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_message(text: str, quiet: bool = False) -> None:
    """Print a message about the work in progress to standard error, unless the user wants no messages."""
    if not quiet:
        print(f"== {escape_unprintable(text)}", file=sys.stderr)


_CONTROLS = {number: f"\\x{number:02x}" for number in (*range(32), *range(127, 160)) if chr(number) not in "\t\n"}


class _EscapingStream:
    """Output stream for a terminal. It escapes control characters, which may occur in documents and file names."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return self._stream.write(text.translate(_CONTROLS))


def format_error(error: BaseException) -> str:
    """Return the message of an error as a single line."""
    text = str(error)
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        text = f"{os.fsdecode(error.filename)}: {error.strerror}"
    return escape_unprintable(" ".join(line.strip() for line in text.split("\n")).strip())


@contextlib.contextmanager
def report_errors_in_one_line(command: str, *more: Type[Exception]) -> Iterator[None]:
    """Context manager that converts exceptions to exit statuses and one-line messages on stderr.

    - InputError, OSError or an exception in ``more``: the message "command: message" is printed. The exit status is 2.
    - The system to which the command belongs is not installed: a one-line message is printed. The exit status is 2.
    - Ctrl-C, SIGTERM or SIGHUP: the exit status is 130, 143 or 129, respectively. ``finally`` clauses are executed, so
      worker processes are also stopped.
    - The reader of the output pipe has closed it (``| head``): nothing is printed, and the exit status is 141, as in
      other tools.
    """
    expected: Tuple[Type[BaseException], ...] = (InputError, OSError, *more)
    _replace_closed_streams()
    is_terminal = sys.stdout is not None and sys.stdout.isatty()  # files and pipes receive the text unchanged
    output: Any = _EscapingStream(sys.stdout) if is_terminal else sys.stdout
    with _exit_on_signals(command), contextlib.redirect_stdout(output):
        try:
            if sys.stdout is None:  # the parent process has closed standard output
                raise InputError("standard output is closed; redirect it to a file, or to /dev/null")
            yield
            sys.stdout.flush()
        except BrokenPipeError:
            with contextlib.suppress(OSError, ValueError):  # otherwise, Python would report an error on exit
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(128 + signal.SIGPIPE)
        except ModuleNotFoundError as error:
            system = find_required_system(error.name or "")
            if system is None or is_system_installed(system):
                raise
            print(f"{command}: {explain_missing_system('this', system)}", file=sys.stderr)
            sys.exit(USER_ERROR)
        except expected as error:
            text = format_error(error)
            print(text if text.startswith(f"{command}: ") else f"{command}: {text}", file=sys.stderr)
            sys.exit(USER_ERROR)
        except MemoryError as error:
            print(f"{command}: not enough memory{f' ({format_error(error)})' if str(error) else ''}", file=sys.stderr)
            sys.exit(USER_ERROR)


def run_command(command: str, work: Callable[[], Any], *more: Type[Exception]) -> int:
    """Call a function within :func:`report_errors_in_one_line`, and return the exit status of the command."""
    try:
        with report_errors_in_one_line(command, *more):
            work()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return 0


def _replace_closed_streams() -> None:
    """Open /dev/null in place of closed standard streams, which the next opened file would otherwise become."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # open() uses the lowest free file descriptor.
            os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


@contextlib.contextmanager
def _exit_on_signals(command: str) -> Iterator[None]:
    """Context manager in which signals raise SystemExit, except those that are ignored already, as with nohup."""

    def exit_with_signal(number: int, frame: Any) -> None:
        if number == signal.SIGINT:
            print(f"\n{command}: interrupted", file=sys.stderr)
        sys.exit(128 + number)

    before = {}
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            with contextlib.suppress(ValueError):  # signal handlers can only be set in the main thread
                before[number] = signal.signal(number, exit_with_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
