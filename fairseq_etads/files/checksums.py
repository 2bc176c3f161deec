"""Record and verify the checksums of the files in a folder (SHA256SUMS, in the format of ``sha256sum -c``).

In folders without SHA256SUMS, such as data from fairseq-preprocess, nothing is verified. Computing SHA-256 takes about
0.7 s per GiB.
"""

import contextlib
import hashlib
import re
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Tuple

from ..platform.errors import InputError
from .outputs import write_text

NAME = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_HEAD = "# SHA-256 of the lines below: "

Stamp = Tuple[int, int, int]
"""Size, modification time in nanoseconds, and inode number of a file. A change of the file alters at least one."""


def compute_sha256(path: Path) -> str:
    """Return the SHA-256 digest of a file in hexadecimal."""
    return compute_checksum_and_line_count(path)[0]


def compute_checksum_and_line_count(path: Path) -> Tuple[str, int]:
    """Return the SHA-256 digest of a file in hexadecimal, and its number of lines. The file is read in blocks."""
    digest, lines, last = hashlib.sha256(), 0, b"\n"
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
            lines += block.count(b"\n")
            last = block[-1:]
    return digest.hexdigest(), lines + (last != b"\n")


def _make_stamp(path: Path) -> Stamp:
    about = path.stat()
    return about.st_size, about.st_mtime_ns, about.st_ino


def format_checksum_list(checksums: Dict[str, str]) -> str:
    """Format a mapping from file names to SHA-256 digests as lines, after a comment with the checksum of these."""
    lines = "".join(f"{checksums[name]}  {name}\n" for name in sorted(checksums))
    return f"{_HEAD}{hashlib.sha256(lines.encode()).hexdigest()}\n{lines}"


def _parse_checksum_list(content: str) -> Dict[str, str]:
    """Parse the content of SHA256SUMS, with or without the comment in the first line."""
    head, end, rest = content.partition("\n")
    if not head.startswith("#"):
        rest = content
    elif head + end != _HEAD + hashlib.sha256(rest.encode()).hexdigest() + "\n":
        raise ValueError("its own checksum is wrong")
    found = [_LINE.fullmatch(line) for line in rest.split("\n")[:-1]]
    if not found or None in found:
        raise ValueError(f"line {found.index(None) + 1} is not a checksum" if found else "it lists nothing")
    return {match.group(2): match.group(1) for match in found if match}


def list_recorded_files(folder: Path) -> List[Path]:
    """Return SHA256SUMS in a folder and the files that it lists. Raises InputError if it is damaged."""
    return [folder / NAME, *(folder / name for name in Checksums(folder).listed)]


class Checksums:
    """Checksums of the files in a folder, which need not exist, and files that must not change while they are read.

    ``advice`` is added to messages about damage, as a sentence without a full stop. Raises InputError if SHA256SUMS is
    damaged.
    """

    def __init__(self, folder: Path, advice: str = "Create it again"):
        self.folder, self.path = folder, folder / NAME
        self._repair_advice = f"{advice} or, if you changed it on purpose, delete {self.path}"
        self.listed: Dict[str, str] = {}  # SHA-256 by names like "words/train.source"; empty without SHA256SUMS
        self._watched: Dict[Path, Stamp] = {}
        try:
            if self.path.is_file():
                self.listed = _parse_checksum_list(self.path.read_bytes().decode("utf-8"))
        except ValueError as error:
            raise InputError(f"{self.path} is damaged: {error}. {self._repair_advice}") from None

    def verify(self, names: Iterable[str], may_be_missing: bool = False) -> None:
        """Verify the checksums of the named files, and watch them for later changes. Unlisted names are ignored.

        Raises InputError if a listed file has changed or, unless ``may_be_missing``, is missing.
        """
        for name in names:
            path = self.folder / name
            if name in self.listed and (path.exists() or not may_be_missing):
                if not path.is_file():
                    raise InputError(f"{path} is missing, but {NAME} in its folder lists it. {self._repair_advice}")
                self.watch(path)
                self.compare(name, compute_sha256(path))

    def compare(self, name: str, checksum: str) -> None:
        """Raise InputError if the file ``name`` is listed with a checksum that differs from ``checksum``."""
        if self.listed.get(name, checksum) != checksum:
            found = f"{self.folder / name} is damaged or was changed: its checksum differs from {NAME}"
            raise InputError(f"{found}. {self._repair_advice}")

    def watch(self, *paths: Path) -> None:
        """Record the sizes and modification times of files, so that :meth:`verify_unchanged` can detect changes."""
        self._watched.update({path: _make_stamp(path) for path in paths})

    def verify_unchanged(self) -> None:
        """Raise InputError if a watched file has changed, unless it was deleted: open files can still be read."""
        for path, stamp in self._watched.items():
            with contextlib.suppress(FileNotFoundError):
                if _make_stamp(path) != stamp:
                    raise InputError(f"{path} changed while it was being read; run the command again")

    @contextlib.contextmanager
    def record_new_files(self, *names: str) -> Iterator[None]:
        """Context manager for creating new files from watched files. On exit, the new files are listed and watched.

        Raises InputError if a watched file has changed within the context. The new files are then deleted.
        """
        self.forget(*names)
        yield
        try:
            self.verify_unchanged()
        except InputError:
            for name in names:
                (self.folder / name).unlink(missing_ok=True)
            raise
        self.add(*names)

    def forget(self, *names: str) -> None:
        """Remove files from the list before they are replaced, so that the new files are not reported as damaged."""
        for name in names:
            self._watched.pop(self.folder / name, None)
        if any(name in self.listed for name in names):
            self._write({name: checksum for name, checksum in self.listed.items() if name not in names})

    def add(self, *names: str) -> None:
        """List the checksums of those files that are not listed yet, and watch them for changes."""
        if new := [name for name in names if name not in self.listed]:
            self.watch(*(self.folder / name for name in new))
            self._write({**self.listed, **{name: compute_sha256(self.folder / name) for name in new}})

    def _write(self, listed: Dict[str, str]) -> None:
        """Replace SHA256SUMS atomically."""
        self.listed = listed
        write_text(self.path, format_checksum_list(listed))
