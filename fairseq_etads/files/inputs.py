"""Read plain or compressed text files line by line, and JSON files. Errors contain the file name and the line number.

Compressed data that is truncated or damaged is an error. The modules in Python's standard library accept some damaged
files: gzip reads an empty file as an empty text, and lzma and bz2 silently ignore damaged data after the first stream,
although files from parallel compressors consist of many streams.
"""

import bz2
import codecs
import contextlib
import importlib
import io
import itertools
import json
import lzma
import re
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO, Callable, ContextManager, Dict, Iterable, Iterator, Optional, Sequence, Tuple

from ..platform.errors import InputError

STANDARD_INPUT = "-"
"""File name that denotes standard input."""

ESCAPE_INVALID = "surrogateescape"
"""Value of ``fallback`` in :func:`read_lines` by which :func:`is_valid_utf8` can detect invalid bytes."""

BOM = "\ufeff"
"""Byte order mark, with which some files begin."""

_PIECE, _ZSTD_PIECE = 1 << 16, 1 << 11
"""Number of bytes to read at a time, of compressed data or in search of the first line with text.

The package zstandard decompresses a whole piece at once, to as much as 35,000 times its size.
"""
MOST_AT_ONCE = 1 << 24
"""Maximum number of bytes to decompress at a time."""
MOST_TIMES, ALWAYS_ALLOWED = 1000, 1 << 28
"""Limits on the decompressed size: 1000 times the compressed size, which text never has, or 256 MiB if it is more."""

_COMPRESSED = re.compile(rb"\x1f\x8b\x08|BZh[1-9]1AY&SY|\xfd7zXZ\0|\x28\xb5\x2f\xfd")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_ESCAPED = re.compile("[\udc80-\udcff]")
_read_input: Any = None
"""Standard input after it has been opened. It cannot be read a second time."""
_begun: Dict[str, Tuple[bytes, "_BlockStream"]] = {}
"""Beginnings that :func:`read_beginning` has read of standard input and pipes, with the whole streams."""


def _make_zstd_decompressor() -> Any:
    """Create a decompressor for one frame of a .zst file, using the module in Python 3.14 or the package zstandard."""
    with contextlib.suppress(ImportError):
        return importlib.import_module("compression.zstd").ZstdDecompressor()
    try:
        return importlib.import_module("zstandard").ZstdDecompressor().decompressobj()
    except ImportError:
        raise OSError(".zst needs zstandard: pip install zstandard, or decompress it first: zstd -d") from None


DECOMPRESSORS: Dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.decompressobj(wbits=31),
    ".xz": lzma.LZMADecompressor,
    ".bz2": bz2.BZ2Decompressor,
    ".zst": _make_zstd_decompressor,
}
"""Mapping from file suffixes to functions that create a decompressor for a single stream."""


def _decompress(path: Path) -> Iterator[bytes]:
    """Yield the content of a file of one or more compressed streams, between which zero bytes are ignored, in blocks.

    Raises OSError if the file is damaged, ends within a stream, or expands to more than text does.
    """
    make, decompressed, block = DECOMPRESSORS[path.suffix], 0, b""
    stream: Any = make()  # decompressor for the current stream, or None between two streams
    with open(path, "rb") as file:
        blocks = iter(lambda: file.read(_ZSTD_PIECE if path.suffix == ".zst" else _PIECE), b"")
        while True:
            if stream is None:
                block = block.lstrip(b"\0") or next((rest for rest in blocks if rest.strip(b"\0")), b"").lstrip(b"\0")
                if not block:
                    return
                stream = make()
            elif getattr(stream, "needs_input", True):
                block = next(blocks, b"")
                if not block:
                    raise OSError("cut off: the compressed data is incomplete")
            # zlib and zstandard have no needs_input. zlib decompresses a block to at most 1,032 times its size.
            most = [MOST_AT_ONCE] if hasattr(stream, "needs_input") else []
            try:
                content = stream.decompress(block, *most)
            except Exception as error:  # each compression library raises its own exceptions
                raise OSError(f"damaged: {error}") from None
            decompressed += len(content)
            if decompressed > max(ALWAYS_ALLOWED, MOST_TIMES * file.tell()):
                times = f"more than {decompressed // max(1, file.tell()):,} times its size"
                raise OSError(f"expands to {times}, which is unusual for text; if it is text, decompress it first")
            yield content
            block = stream.unused_data if stream.eof else b""
            stream = None if stream.eof else stream


def _continue(beginning: bytes, rest: Any, opened: ContextManager[Any]) -> Iterator[bytes]:
    """Yield the beginning of a file, which has been read, and the rest in blocks. Afterwards, ``opened`` is closed."""
    with opened:
        yield beginning
        yield from iter(lambda: rest.read1(_PIECE), b"")


class _BlockStream(io.RawIOBase):
    """A stream of blocks of bytes from a generator, which is closed with the stream."""

    def __init__(self, blocks: Any):
        self._blocks, self._block = blocks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._block = self._block or memoryview(next(filter(None, self._blocks), b""))
        size = min(len(buffer), len(self._block))
        buffer[:size] = self._block[:size]
        self._block = self._block[size:]
        return size

    def close(self) -> None:
        self._blocks.close()
        super().close()


def get_display_name(path: Path) -> str:
    """Return the name by which messages refer to a file."""
    return "standard input" if path.name == STANDARD_INPUT else str(path)


@contextlib.contextmanager
def open_binary(path: Path) -> Iterator[BinaryIO]:
    """Open a plain or compressed file, or standard input (``-``), for reading in binary mode.

    Raises InputError, also while it is read, if the file cannot be read, is damaged or truncated, or standard input has
    already been read.
    """
    global _read_input
    try:
        if _is_begun(path):
            with io.BufferedReader(_begun.pop(str(path))[1]) as file:
                yield file
        elif str(path) == STANDARD_INPUT:
            if sys.stdin is None:
                raise InputError("standard input: cannot be read (it is closed)")
            if sys.stdin is _read_input:
                raise InputError(
                    "standard input (-) is given twice, but can be read only once; write it to a file first"
                )
            _read_input = sys.stdin
            yield sys.stdin.buffer
        elif path.suffix in DECOMPRESSORS:
            with io.BufferedReader(_BlockStream(_decompress(path)), _PIECE) as file:
                yield file
        else:
            with open(path, "rb") as file:
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
        return _decode_beginning(_begun[str(path)][0])
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open_binary(path))
        beginning = piece = file.readline(_PIECE)
        while piece and not _decode_beginning(beginning).strip():
            piece = file.readline(_PIECE)
            beginning += piece
        if is_read_once(path):
            _begun[str(path)] = beginning, _BlockStream(_continue(beginning, file, stack.pop_all()))
    return _decode_beginning(beginning)


def _is_begun(path: Path) -> bool:
    """Return whether the beginning of what can be read only once has been read, from the present standard input."""
    return str(path) in _begun and (str(path) != STANDARD_INPUT or _read_input is sys.stdin)


def _decode_beginning(beginning: bytes) -> str:
    return beginning.decode(_find_encoding(beginning), "ignore").lstrip(BOM)


def _find_encoding(beginning: bytes) -> str:
    """Return the encoding of a file: UTF-16 with a byte order mark or an ASCII character in two bytes, or UTF-8."""
    if beginning.startswith(_UTF16):
        return "utf-16"
    first, second = [*beginning[:2], 1, 1][:2]
    return "utf-8" if bool(first) == bool(second) else "utf-16-le" if first else "utf-16-be"


def is_valid_utf8(text: str) -> bool:
    """Return whether a text was stored as valid UTF-8. It must have been read with ``fallback=ESCAPE_INVALID``."""
    return text.isascii() or not _ESCAPED.search(text)


def read_lines(path: Path, fallback: str = "", counts: Optional[Counter] = None, ends: bool = False) -> Iterator[str]:
    """Yield the lines of a plain or compressed file, or of standard input (``-``), without line endings by default.

    Only line feeds separate lines, so that the lines of parallel files correspond to each other. A byte order mark at
    the beginning is skipped. A file that begins with UTF-16's mark, or with a letter in UTF-16, is read as UTF-16.
    Raises InputError, which names the file and the line, if it cannot be read or decoded.

    Args:
        fallback: treatment of lines that are not valid UTF-8. If it is the name of another encoding, these lines are
            decoded with that encoding. "replace" replaces invalid bytes with U+FFFD. ESCAPE_INVALID allows the caller
            to detect invalid lines. If it is empty, an error is raised.
        counts: counter of lines decoded with ``fallback``, unless it is ESCAPE_INVALID.
        ends: whether to keep the line endings.
    """
    with open_binary(path) as file:
        for number, line in enumerate(file, 1):
            if number == 1 and _COMPRESSED.match(line):
                raise InputError(f"{get_display_name(path)}: is compressed, but not named *{', '.join(DECOMPRESSORS)}")
            if number == 1 and (encoding := _find_encoding(line)) != "utf-8":
                whole = io.BufferedReader(_BlockStream(_continue(line, file, contextlib.nullcontext())))
                try:
                    for text in io.TextIOWrapper(whole, encoding, newline="\n"):
                        yield text if ends else text.rstrip("\r\n")
                except UnicodeDecodeError as error:
                    said = f"not UTF-16, as its beginning says ({error.reason})"
                    raise InputError(f"{get_display_name(path)}: {said}") from None
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


def zip_lines(paths: Sequence[Path], lines: Iterable[Iterable[str]]) -> Iterator[Tuple[str, ...]]:
    """Yield the lines of several files together. Raises InputError, which names two files, if one has fewer lines."""
    for number, together in enumerate(itertools.zip_longest(*lines)):
        if None in together:
            shorter = paths[together.index(None)]
            longer = next(path for path, line in zip(paths, together) if line is not None)
            raise InputError(f"{get_display_name(shorter)} has {number:,} lines, fewer than {get_display_name(longer)}")
        yield together


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


@contextlib.contextmanager
def report_damage(path: Path, advice: str, prefix: str = "") -> Iterator[None]:
    """Context manager for reading a stored file, in which errors of all kinds in its content become InputError.

    The message begins with ``prefix``, such as "--labels: ", and ends in ``advice`` to the user.
    """
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{prefix}there is no {path}; {advice}") from None
    except Exception as error:  # json, zipfile, zlib, numpy and safetensors have various exceptions
        reason = "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        reason = f"{type(error).__name__}: {reason}" if isinstance(error, KeyError) or not reason else reason
        raise InputError(f"{prefix}{path} is damaged ({reason}){_make_end(advice)}") from None


def _make_end(advice: str) -> str:
    return f". {advice}" if advice[:1].isupper() else f"; {advice}"


def name_format(kind: str, version: int = 1) -> str:
    """Return the entry "format" in the header of files of a kind, such as "fairseq-etads shortlist 1"."""
    return f"fairseq-etads {kind} {version}"


def check_format(found: Any, kind: str, path: Any, advice: str, newest: int = 1, older: bool = False) -> Dict[str, Any]:
    """Return the header that was found in a file, without its format. Raise InputError if it is of another kind.

    The header is a dictionary with the entry "format" (:func:`name_format`), in which an entry "schema_version" may
    replace the version. Later versions are refused. If ``older``, files of earlier versions, without a format, are not.
    """
    header = dict(found) if isinstance(found, dict) else {}
    if older and "format" not in header:
        return header
    known = header.pop("format", None)
    name, _, version = str(known).rpartition(" ")
    if "schema_version" in header:
        name, version = known, json.dumps(header.pop("schema_version"))
    if name != f"fairseq-etads {kind}":
        shown = f'not a file of the kind "{kind}" (its "format" is {json.dumps(known)[:60]})'
        raise InputError(f"{path}: {shown}{_make_end(advice)}")
    if not re.fullmatch("[1-9][0-9]{0,8}", version):
        raise InputError(f'{path}: "{version[:60]}" is not a version of its format{_make_end(advice)}')
    if int(version) > newest:
        later = f"written by a later version of fairseq-etads (format {version}; this one reads up to {newest})"
        raise InputError(f"{path}: {later}: update with pip install --upgrade fairseq-etads")
    return header


def read_json(path: Path, advice: str) -> Dict[str, Any]:
    """Read a JSON file that contains an object. Raises InputError as in :func:`report_damage`."""
    with report_damage(path, advice):
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("not a JSON object")
    return content
