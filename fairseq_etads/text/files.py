"""Read plain or compressed text files line by line. Error messages contain the file name and the line number."""

import codecs
import contextlib
import io
import itertools
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO, Dict, Iterable, Iterator, Optional

from ..platform.errors import InputError
from .compression import DECOMPRESSORS, open_compressed

STANDARD_INPUT = "-"
"""File name that denotes standard input."""

ESCAPE_INVALID = "surrogateescape"
"""Value of ``fallback`` in :func:`read_lines` that converts invalid bytes to characters that
:func:`is_valid_utf8` detects.
"""

BOM = "\ufeff"
"""Byte order mark, with which some files begin."""

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_ESCAPED = re.compile("[\udc80-\udcff]")
_PIECE = 1 << 16
"""Number of bytes to read at a time in search of the first line with text."""

_read_input: Any = None
"""Standard input after it has been opened. It cannot be read a second time."""
_begun: Dict[str, "_BegunStream"] = {}
"""Standard input and pipes whose beginning has been read by :func:`read_beginning`."""


class _BegunStream(io.RawIOBase):
    """Stream that returns the beginning, which has been read, and then the rest of another stream."""

    def __init__(self, beginning: bytes, rest: Any, opened: contextlib.ExitStack):
        self.beginning, self._left, self._rest, self._opened = beginning, beginning, rest, opened

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._left[: len(buffer)] or self._rest.read1(len(buffer))
        self._left = self._left[len(block) :]
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        self._opened.close()
        super().close()


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
        if _is_begun(path):
            with io.BufferedReader(_begun.pop(str(path))) as file:
                yield file
        elif str(path) == STANDARD_INPUT:
            yield _open_standard_input()
        else:
            with open_compressed(path) if path.suffix in DECOMPRESSORS else open(path, "rb") as file:
                yield file
    except OSError as error:
        raise InputError(f"{get_display_name(path)}: cannot be read ({error.strerror or error})") from None


def is_read_once(path: Path) -> bool:
    """Return whether a path is standard input, a pipe or a device, which can be read only once."""
    return str(path) == STANDARD_INPUT or (path.exists() and not path.is_file() and not path.is_dir())


def read_beginning(path: Path) -> str:
    """Return the text of a file up to its first line that is not blank, but at most 64 KiB of this line.

    What can be read only once is waited for, and is still complete when :func:`open_binary` opens it afterwards.
    """
    if _is_begun(path):
        return _decode_beginning(_begun[str(path)].beginning)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open_binary(path))
        beginning = piece = file.readline(_PIECE)
        while piece and not _decode_beginning(beginning).strip():
            piece = file.readline(_PIECE)
            beginning += piece
        if is_read_once(path):
            _begun[str(path)] = _BegunStream(beginning, file, stack.pop_all())
    return _decode_beginning(beginning)


def _is_begun(path: Path) -> bool:
    """Return whether the beginning of what can be read only once has been read, from the present standard input."""
    return str(path) in _begun and (str(path) != STANDARD_INPUT or _read_input is sys.stdin)


def _decode_beginning(beginning: bytes) -> str:
    encoding = "utf-16" if beginning.startswith(_UTF16) else "utf-8"
    return beginning.decode(encoding, "ignore").lstrip(BOM)


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
    return text.isascii() or not _ESCAPED.search(text)


def read_lines(path: Path, fallback: str = "", counts: Optional[Counter] = None, ends: bool = False) -> Iterator[str]:
    """Yield the lines of a file, without line endings by default.

    Only line feeds separate lines. ``str.splitlines()`` would also split at characters such as U+2028. As a result, the
    lines of parallel files would no longer correspond to each other.

    Args:
        path: path of a plain or compressed file, or ``-`` for standard input. A byte order mark at the beginning is
            skipped, and that of UTF-16 determines the encoding.
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
            if number == 1 and line.startswith(_UTF16):
                for text in _decode_utf16(itertools.chain([line], file), path):
                    yield text if ends else text.rstrip("\r\n")
                return
            if number == 1 and line.startswith(codecs.BOM_UTF8):
                line = line[3:]
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                text = _decode_line(line, fallback, f"{get_display_name(path)}, line {number}", error)
                if counts is not None and fallback != ESCAPE_INVALID:
                    counts[f"lines not UTF-8, read as {fallback}"] += 1
            yield text if ends else text.rstrip("\r\n")


def _decode_utf16(blocks: Iterable[bytes], path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-16 file with their endings, given its bytes in blocks of any size."""
    rest = ""
    try:
        for text in codecs.iterdecode(blocks, "utf-16"):
            *lines, rest = (rest + text).split("\n")
            yield from (f"{line}\n" for line in lines)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{get_display_name(path)}: not UTF-16, as its byte order mark says ({error.reason})"
        ) from None
    if rest:
        yield rest


def _decode_line(line: bytes, fallback: str, where: str, error: UnicodeDecodeError) -> str:
    """Decode a line that is not valid UTF-8 with ``fallback``. Raises InputError if this also fails."""
    if fallback in ("replace", ESCAPE_INVALID):
        return line.decode("utf-8", fallback)
    reason = f"not UTF-8 ({error.reason} at byte {error.start})"
    if not fallback:
        raise InputError(f"{where}: {reason}")
    try:
        return line.decode(fallback)
    except UnicodeError:
        raise InputError(f"{where}: {reason}, nor --fallback-encoding {fallback}") from None
