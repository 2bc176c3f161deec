"""Read plain or compressed text files line by line. Error messages contain the file and the line."""

import contextlib
import sys
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO, Iterator, Optional

from ..platform.errors import InputError
from .compression import DECOMPRESSORS, open_compressed

STANDARD_INPUT = "-"
"""File name that denotes standard input."""

ESCAPE_INVALID = "surrogateescape"
"""Value of ``fallback`` in :func:`read_lines` with which invalid bytes become characters that :func:`is_utf8` detects.
"""

_read_input: Any = None
"""Standard input once it has been read. It cannot be read a second time."""


def name_of(path: Path) -> str:
    """Return the name of a file as it appears in messages."""
    return "standard input" if path.name == STANDARD_INPUT else str(path)


@contextlib.contextmanager
def open_binary(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading bytes. .gz, .xz, .bz2 and .zst files are decompressed; ``-`` denotes standard input.

    Raises:
        InputError: the file cannot be read, is damaged or is truncated, or standard input has already been read. The
            error may be raised when the file is opened or while it is read.
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
    """Return standard input as a binary stream. Raise InputError if it has already been read."""
    global _read_input
    if sys.stdin is None:
        raise InputError("standard input: cannot be read (it is closed)")
    if sys.stdin is _read_input:
        raise InputError("standard input (-) is given twice, but can be read only once; write it to a file first")
    _read_input = sys.stdin
    return sys.stdin.buffer


def is_utf8(text: str) -> bool:
    """Return whether a text that was read with ``fallback=ESCAPE_INVALID`` was valid UTF-8."""
    return text.isascii() or not any("\udc80" <= character <= "\udcff" for character in text)


def read_lines(path: Path, fallback: str = "", counts: Optional[Counter] = None, ends: bool = False) -> Iterator[str]:
    """Yield the lines of a file, by default without line endings.

    Only a line feed ends a line. ``str.splitlines()`` would also split at characters such as U+2028, so the lines of
    parallel files would no longer correspond.

    Args:
        path: path of a plain or compressed file, or ``-``. A byte order mark at the beginning is skipped.
        fallback: treatment of lines that are not valid UTF-8. The value is the name of another encoding; "replace" to
            replace invalid bytes with U+FFFD; ESCAPE_INVALID to let the caller detect invalid lines; or empty to raise
            an error.
        counts: counter to which the number of lines read with ``fallback`` is added, unless it is ESCAPE_INVALID.
        ends: whether to keep the line endings.

    Raises:
        InputError: the file cannot be read, or a line can be decoded neither as UTF-8 nor with ``fallback``. The
            message contains the file and the line.
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
    """Decode a line that is not valid UTF-8 with ``fallback``. Raise InputError if this is not possible either."""
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
