"""Read text files, plain or compressed, line by line; an error names the file and the line that is not UTF-8."""

import bz2
import contextlib
import gzip
import lzma
import zlib
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO, Dict, Iterator, Optional

_OPENERS: Dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


class InputError(ValueError):
    """A mistake in the input or the options that the user can correct; commands show it as one line."""


@contextlib.contextmanager
def open_binary(path: Path) -> Iterator[BinaryIO]:
    """Open a plain, .gz, .xz or .bz2 file for reading, decompressed.

    Raises:
        InputError: the file cannot be read or turns out to be damaged, when it is opened or while it is read.
    """
    try:
        with _OPENERS.get(path.suffix, open)(path, "rb") as file:
            yield file
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None


def read_lines(path: Path, fallback: str = "", counts: Optional[Counter] = None, ends: bool = False) -> Iterator[str]:
    """The lines of a file, without their line ends.

    Only a line feed ends a line. ``str.splitlines()`` would also split at U+2028, and paired files would no longer
    match line by line.

    Args:
        path: a plain or compressed file. A byte order mark at its beginning is skipped.
        fallback: how to read a line that is not UTF-8: the name of an encoding, or "replace" to put U+FFFD in the place
            of invalid bytes; empty to refuse it.
        counts: if given, the lines that were read by ``fallback`` are counted in it.
        ends: keep the line ends.

    Raises:
        InputError: the file cannot be read, or a line is neither UTF-8 nor in ``fallback``; names file and line.
    """
    with open_binary(path) as file:
        for number, line in enumerate(file, 1):
            if number == 1 and line.startswith(b"\xef\xbb\xbf"):
                line = line[3:]
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                text = _decode(line, fallback, f"{path}, line {number}", error)
                if counts is not None:
                    counts[f"lines not UTF-8, read as {fallback}"] += 1
            yield text if ends else text.rstrip("\r\n")


def _decode(line: bytes, fallback: str, where: str, error: UnicodeDecodeError) -> str:
    """The text of a line that is not UTF-8, read by ``fallback``; InputError if it has no such encoding either."""
    if fallback == "replace":
        return line.decode("utf-8", "replace")
    reason = f"not UTF-8 ({error.reason} at byte {error.start})"
    if line.startswith((b"\xff\xfe", b"\xfe\xff")):
        reason += ", it looks like UTF-16"
    if not fallback:
        raise InputError(f"{where}: {reason}")
    try:
        return line.decode(fallback)
    except UnicodeError:
        raise InputError(f"{where}: {reason}, and not --fallback-encoding {fallback}") from None
