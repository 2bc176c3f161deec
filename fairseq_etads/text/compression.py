"""Read compressed files, and raise an error if the compressed data is truncated or damaged.

The modules in Python's standard library accept some damaged files. gzip reads an empty file as an empty text. lzma and
bz2 silently ignore damaged data after the first stream, although files from parallel compressors consist of many
streams.
"""

import bz2
import importlib
import io
import lzma
import zlib
from pathlib import Path
from typing import Any, BinaryIO, Callable, Dict

BLOCK = 1 << 16
"""Number of compressed bytes to read at a time."""
MOST_AT_ONCE = 1 << 24
"""Maximum number of bytes to decompress at a time."""
BUFFER = 1 << 16
"""Size of the buffer for decompressed data in bytes."""
MOST_TIMES, ALWAYS_ALLOWED = 1000, 1 << 28
"""Limits on the decompressed size: 1000 times the compressed size or 256 MiB, whichever is larger.

A text is usually 3 to 20 times as large as its compressed file.
"""


class _StepwiseDecompressor:
    """Zstandard decompressor that stops after roughly the requested number of bytes, like Python's decompressors."""

    STEP = 1 << 11
    """Number of compressed bytes per step, which can expand to as much as 70 MB."""

    def __init__(self, stream: Any):
        self.stream = stream
        self.waiting = self.unused_data = b""

    @property
    def eof(self) -> bool:
        return self.stream.eof

    @property
    def needs_input(self) -> bool:
        return not self.waiting

    def decompress(self, data: bytes, max_length: int) -> bytes:
        self.waiting += data
        made = bytearray()
        while self.waiting and not self.eof and len(made) < max_length:
            step, self.waiting = self.waiting[: self.STEP], self.waiting[self.STEP :]
            made += self.stream.decompress(step)
        if self.eof:
            self.unused_data, self.waiting = self.stream.unused_data + self.waiting, b""
        return bytes(made)


def _make_zstd_decompressor() -> Any:
    """Create a decompressor for one frame of a .zst file, using the module in Python 3.14 or the package zstandard."""
    try:
        return importlib.import_module("compression.zstd").ZstdDecompressor()
    except ImportError:
        pass
    try:
        return _StepwiseDecompressor(importlib.import_module("zstandard").ZstdDecompressor().decompressobj())
    except ImportError:
        raise OSError(".zst needs zstandard: pip install zstandard, or decompress it first: zstd -d") from None


DECOMPRESSORS: Dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.decompressobj(wbits=31),
    ".xz": lzma.LZMADecompressor,
    ".bz2": bz2.BZ2Decompressor,
    ".zst": _make_zstd_decompressor,
}
"""Mapping from file suffixes to functions that create a decompressor for a single stream."""


class _DecompressedStream(io.RawIOBase):
    """Raw stream that decompresses a file consisting of one or more compressed streams.

    Zero bytes between two compressed streams are ignored.

    Read operations raise OSError if the file is damaged or ends within a compressed stream.
    """

    def __init__(self, file: BinaryIO, make: Callable[[], Any]):
        self.file, self.make = file, make
        self.stream: Any = make()  # decompressor for the current stream, or None between two streams
        self.rest = b""  # compressed bytes after the end of the current stream
        self.ready = memoryview(b"")
        self.compressed = self.decompressed = 0
        """Numbers of compressed and decompressed bytes that have been read so far."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.ready:
            waiting = self.stream is not None and not getattr(self.stream, "needs_input", True)
            block = b"" if waiting else self._read_block()
            if not block and not waiting:
                return 0
            try:
                self.ready = memoryview(self._decompress(block))
            except Exception as error:  # each compression library raises its own exceptions
                raise OSError(f"damaged: {error}") from None
            self._check_expansion_ratio()
            if self.stream.eof:
                self.rest, self.stream = self.stream.unused_data, None
        size = min(len(buffer), len(self.ready))
        buffer[:size] = self.ready[:size]
        self.ready = self.ready[size:]
        return size

    def _decompress(self, block: bytes) -> bytes:
        """Decompress at most about MOST_AT_ONCE bytes at a time.

        With gzip, a whole block is decompressed at once. The result is at most 1,032 times as large as the block.
        """
        if hasattr(self.stream, "needs_input"):
            return self.stream.decompress(block, MOST_AT_ONCE)
        return self.stream.decompress(block)

    def _check_expansion_ratio(self) -> None:
        self.decompressed += len(self.ready)
        if self.decompressed > max(ALWAYS_ALLOWED, MOST_TIMES * self.compressed):
            times = self.decompressed // max(1, self.compressed)
            raise OSError(
                f"expands to more than {times:,} times its size, which is unusual for text; if it is text, "
                "decompress it first"
            )

    def _read_block(self) -> bytes:
        """Read compressed bytes for the current stream or for a new stream, and none at the end of the file."""
        block, self.rest = self.rest or self._read_compressed(), b""
        if self.stream is not None:
            if not block:
                raise OSError("cut off: the compressed data is incomplete")
            return block
        while block and not block.lstrip(b"\0"):
            block = self._read_compressed()
        self.stream = self.make() if block else None
        return block.lstrip(b"\0")

    def _read_compressed(self) -> bytes:
        block = self.file.read(BLOCK)
        self.compressed += len(block)
        return block

    def close(self) -> None:
        self.file.close()
        super().close()


def open_compressed(path: Path) -> BinaryIO:
    """Open a compressed file for reading the decompressed content. Its suffix must be a key of DECOMPRESSORS."""
    return io.BufferedReader(_DecompressedStream(open(path, "rb"), DECOMPRESSORS[path.suffix]), BUFFER)
