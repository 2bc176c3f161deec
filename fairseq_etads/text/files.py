"""Read plain or compressed text files line by line. Error messages contain the file name and the line number."""

import contextlib
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO, Iterator, Optional

from ..platform.errors import InputError
from .compression import DECOMPRESSORS, open_compressed

STANDARD_INPUT = "-"
"""File name that denotes standard input."""

ESCAPE_INVALID = "surrogateescape"
"""Value of ``fallback`` in :func:`read_lines` that converts invalid bytes to characters that
:func:`is_valid_utf8` detects.
"""

_read_input: Any = None
"""Standard input after it has been opened. It cannot be read a second time."""


def get_display_name(path: Path) -> str:
    """Return the name by which messages refer to a file."""
    return "standard input" if path.name == STANDARD_INPUT else str(path)


@contextlib.contextmanager
def open_binary(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading in binary mode. ``-`` denotes standard input.

    Files with the suffixes .gz, .xz, .bz2 and .zst are decompressed.

    Raises:
        InputError: the file cannot be read, is damaged or truncated, or standard input has already been read. The error
            may be raised when the file is opened or while it is read.
    """
    try:
        if str(path) == STANDARD_INPUT:
            yield _open_standard_input()
        else:
            with open_compressed(path) if path.suffix in DECOMPRESSORS else open(path, "rb") as file:
                yield file
    except OSError as error:
        raise InputError(f"{get_display_name(path)}: cannot be read ({error.strerror or error})") from None


def _open_standard_input() -> BinaryIO:
    """Return standard input as a binary stream. Raises InputError if it has already been read."""
    global _read_input
    if sys.stdin is None:
        raise InputError("standard input: cannot be read (it is closed)")
    if sys.stdin is _read_input:
        raise InputError("standard input (-) is given twice, but can be read only once; write it to a file first")
    _read_input = sys.stdin
    return sys.stdin.buffer


def is_valid_utf8(text: str) -> bool:
    """Return whether a text was stored as valid UTF-8. It must have been read with ``fallback=ESCAPE_INVALID``."""
    return text.isascii() or not re.search("[\udc80-\udcff]", text)


def read_lines(path: Path, fallback: str = "", counts: Optional[Counter] = None, ends: bool = False) -> Iterator[str]:
    """Yield the lines of a file, without line endings by default.

    Only line feeds separate lines. ``str.splitlines()`` would also split at characters such as U+2028. As a result, the
    lines of parallel files would no longer correspond to each other.

    Args:
        path: path of a plain or compressed file, or ``-`` for standard input. A byte order mark at the beginning is
            skipped.
        fallback: treatment of lines that are not valid UTF-8. If it is the name of another encoding, these lines are
            decoded with that encoding. "replace" replaces invalid bytes with U+FFFD. ESCAPE_INVALID allows the caller
            to detect invalid lines. If it is empty, an error is raised.
        counts: counter to which the number of lines decoded with ``fallback`` is added, unless ``fallback`` is
            ESCAPE_INVALID.
        ends: whether to keep the line endings.

    Raises:
        InputError: the file cannot be read, or a line can be decoded neither as UTF-8 nor with ``fallback``. The
            message names the file and the line.
    """
    with open_binary(path) as file:
        for number, line in enumerate(file, 1):
            if number == 1 and line.startswith(b"\xef\xbb\xbf"):
                line = line[3:]
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                text = _decode_line(line, fallback, f"{get_display_name(path)}, line {number}", error)
                if counts is not None and fallback != ESCAPE_INVALID:
                    counts[f"lines not UTF-8, read as {fallback}"] += 1
            yield text if ends else text.rstrip("\r\n")


def _decode_line(line: bytes, fallback: str, where: str, error: UnicodeDecodeError) -> str:
    """Decode a line that is not valid UTF-8 with ``fallback``. Raises InputError if this also fails."""
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
