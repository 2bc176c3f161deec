"""Reads compressed files strictly: what is cut off or damaged raises an error instead of ending the text early.

Python's own readers are lenient in three places: gzip takes a file of no bytes for an empty text, and lzma and bz2
silently leave out what follows the first stream if it is damaged (parallel compressors write many streams).
"""

import bz2
import importlib
import io
import lzma
import zlib
from pathlib import Path
from typing import Any, BinaryIO, Callable, Dict

BLOCK = 1 << 16
"""Compressed bytes that are read at a time."""


def _zstd_decompressor() -> Any:
    """A decompressor of one .zst frame, from Python 3.14 itself or the package zstandard."""
    try:
        return importlib.import_module("compression.zstd").ZstdDecompressor()
    except ImportError:
        pass
    try:
        return importlib.import_module("zstandard").ZstdDecompressor().decompressobj()
    except ImportError:
        raise OSError(".zst needs zstandard: pip install zstandard, or decompress it first: zstd -d") from None


DECOMPRESSORS: Dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.decompressobj(wbits=31),
    ".xz": lzma.LZMADecompressor,
    ".bz2": bz2.BZ2Decompressor,
    ".zst": _zstd_decompressor,
}
"""Suffix of a compressed file -> what makes a decompressor of one stream."""


class _Decompressed(io.RawIOBase):
    """The decompressed bytes of a file of one or more streams, with or without zeros as padding between them.

    Reading raises OSError if the file is damaged, or ends within a stream.
    """

    def __init__(self, file: BinaryIO, make: Callable[[], Any]):
        self.file, self.make = file, make
        self.stream: Any = make()  # None between two streams
        self.rest = b""  # compressed bytes behind the stream that has ended
        self.ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.ready:
            block = self._next_block()
            if not block:
                return 0
            try:
                self.ready = memoryview(self.stream.decompress(block))
            except Exception as error:  # every library has its own
                raise OSError(f"damaged: {error}") from None
            if self.stream.eof:
                self.rest, self.stream = self.stream.unused_data, None
        size = min(len(buffer), len(self.ready))
        buffer[:size] = self.ready[:size]
        self.ready = self.ready[size:]
        return size

    def _next_block(self) -> bytes:
        """Compressed bytes for the stream, a new one if need be; none at the end of the file."""
        block, self.rest = self.rest or self.file.read(BLOCK), b""
        if self.stream is not None:
            if not block:
                raise OSError("cut off: the compressed data do not end")
            return block
        while block and not block.lstrip(b"\0"):
            block = self.file.read(BLOCK)
        self.stream = self.make() if block else None
        return block.lstrip(b"\0")

    def close(self) -> None:
        self.file.close()
        super().close()


def open_compressed(path: Path) -> BinaryIO:
    """Open a file whose suffix is in DECOMPRESSORS for reading, decompressed."""
    return io.BufferedReader(_Decompressed(open(path, "rb"), DECOMPRESSORS[path.suffix]), BLOCK)
