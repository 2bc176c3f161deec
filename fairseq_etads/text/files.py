"""Reading text files: plain or compressed, UTF-8 or refused in words, one line feed a line."""

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
    """Something in the input or the options that the user can put right; commands show it as one line."""


@contextlib.contextmanager
def open_binary(path: Path) -> Iterator[BinaryIO]:
    """A plain, .gz, .xz or .bz2 file, decompressed.

    Raises:
        InputError: it cannot be read, or is damaged, also while it is being read.
    """
    try:
        with _OPENERS.get(path.suffix, open)(path, "rb") as file:
            yield file
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None


def read_lines(path: Path, fallback: str = "", counts: Optional[Counter] = None, ends: bool = False) -> Iterator[str]:
    """Lines without their ends. Only a newline ends one: str.splitlines() also splits at U+2028 and loses the pairing.

    Args:
        path: a plain or compressed file. A byte order mark at its beginning is left out.
        fallback: how to read a line that is not UTF-8: an encoding, or "replace" to put U+FFFD for what is not.
        counts: gets the number of such lines.
        ends: keep the newlines.

    Raises:
        InputError: a line is not UTF-8 (nor ``fallback``); names file and line.
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
