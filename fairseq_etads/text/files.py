"""Read text files, plain or compressed, by line; errors name the file and the line that is not UTF-8."""

import contextlib
import sys
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO, Iterator, Optional

from ..platform.errors import InputError
from .compression import DECOMPRESSORS, open_compressed

STANDARD_INPUT = "-"
"""File name that means standard input."""

ESCAPE_INVALID = "surrogateescape"
"""A ``fallback`` of :func:`read_lines`: bytes that are not UTF-8 become characters that :func:`is_utf8` detects."""

_read_input: Any = None
"""Standard input after it has been read, because it cannot be read again."""


def name_of(path: Path) -> str:
    """Return the name of a file for messages."""
    return "standard input" if path.name == STANDARD_INPUT else str(path)


@contextlib.contextmanager
def open_binary(path: Path) -> Iterator[BinaryIO]:
    """Open a plain, .gz, .xz, .bz2 or .zst file for reading, decompressed; ``-`` is standard input.

    Raises:
        InputError: the file cannot be read, is damaged or is truncated, or standard input is read a second time. The
            error is raised on opening or while reading.
    """
    try:
        if str(path) == STANDARD_INPUT:
            yield _standard_input()
        else:
            with open_compressed(path) if path.suffix in DECOMPRESSORS else open(path, "rb") as file:
                yield file
    except OSError as error:
        raise InputError(f"{name_of(path)}: cannot be read ({error.strerror or error})") from None


def _standard_input() -> BinaryIO:
    """Open the bytes of standard input; raises InputError if it has been read before."""
    global _read_input
    if sys.stdin is None:
        raise InputError("standard input: cannot be read (it is closed)")
    if sys.stdin is _read_input:
        raise InputError("standard input (-) is given twice, but can be read only once; write it to a file first")
    _read_input = sys.stdin
    return sys.stdin.buffer


def is_utf8(text: str) -> bool:
    """Tell whether a text that was read with ``fallback=ESCAPE_INVALID`` is valid UTF-8."""
    return text.isascii() or not any("\udc80" <= character <= "\udcff" for character in text)


def read_lines(path: Path, fallback: str = "", counts: Optional[Counter] = None, ends: bool = False) -> Iterator[str]:
    """Yield the lines of a file, without their line ends.

    Only a line feed ends a line. ``str.splitlines()`` would also split at U+2028, and paired files would no longer
    match line by line.

    Args:
        path: a plain or compressed file, or ``-``. A byte order mark at its beginning is skipped.
        fallback: treatment of a line that is not UTF-8: the name of an encoding in which to read it; "replace" to
            replace invalid bytes by U+FFFD; ESCAPE_INVALID to leave it to the caller; empty to reject it.
        counts: counter of the lines that were read with ``fallback``, except with ESCAPE_INVALID.
        ends: whether to keep the line ends.

    Raises:
        InputError: the file cannot be read, or a line is neither UTF-8 nor in ``fallback``; the message names file and
            line.
    """
    with open_binary(path) as file:
        for number, line in enumerate(file, 1):
            if number == 1 and line.startswith(b"\xef\xbb\xbf"):
                line = line[3:]
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                text = _decode(line, fallback, f"{name_of(path)}, line {number}", error)
                if counts is not None and fallback != ESCAPE_INVALID:
                    counts[f"lines not UTF-8, read as {fallback}"] += 1
            yield text if ends else text.rstrip("\r\n")


def _decode(line: bytes, fallback: str, where: str, error: UnicodeDecodeError) -> str:
    """Decode a line that is not UTF-8 with ``fallback``; InputError if it is not in this encoding either."""
    if fallback in ("replace", ESCAPE_INVALID):
        return line.decode("utf-8", fallback)
    reason = f"not UTF-8 ({error.reason} at byte {error.start})"
    if line.startswith((b"\xff\xfe", b"\xfe\xff")):
        reason += ", but looks like UTF-16"
    if not fallback:
        raise InputError(f"{where}: {reason}")
    try:
        return line.decode(fallback)
    except UnicodeError:
        raise InputError(f"{where}: {reason}, nor --fallback-encoding {fallback}") from None
