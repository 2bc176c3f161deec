"""SHA256SUMS: checksums of a folder's files at their creation, in the format of ``sha256sum -c``.

Commands that create files write the list. Commands that read files verify them to detect damage. If there is no list,
as for data from fairseq-preprocess, nothing is verified. SHA-256 takes about 0.7 s per GiB.
"""

import contextlib
import hashlib
import os
import re
from pathlib import Path
from typing import Dict, Iterable, Iterator, Tuple

from ..platform.errors import InputError
from ..platform.outputs import write_text

NAME = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_HEAD = "# SHA-256 of the lines below: "

Stamp = Tuple[int, int, int]
"""Size, time of the last change in nanoseconds, and inode of a file; a change affects at least one of the three."""


def sha256(path: Path) -> str:
    """Compute the SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _stamp(path: Path) -> Stamp:
    about = path.stat()
    return about.st_size, about.st_mtime_ns, about.st_ino


def list_of(checksums: Dict[str, str]) -> str:
    """Format SHA256SUMS from ``checksums`` (name -> SHA-256).

    The first line is a comment with the checksum of the list itself.
    """
    lines = "".join(f"{checksums[name]}  {name}\n" for name in sorted(checksums))
    return f"{_HEAD}{hashlib.sha256(lines.encode()).hexdigest()}\n{lines}"


def _read_list(content: str) -> Dict[str, str]:
    """Read a list, with or without the first line, as name -> SHA-256; raises ValueError if the list is damaged."""
    head, end, rest = content.partition("\n")
    if not head.startswith("#"):
        rest = content
    elif head + end != _HEAD + hashlib.sha256(rest.encode()).hexdigest() + "\n":
        raise ValueError("its own checksum is wrong")
    found = [_LINE.fullmatch(line) for line in rest.split("\n")[:-1]]
    if not found or None in found:
        raise ValueError(f"line {found.index(None) + 1} is not a checksum" if found else "it lists nothing")
    return {match.group(2): match.group(1) for match in found if match}


class Checksums:
    """The list of a folder, and the files that must not change while a command reads them.

    Args:
        folder: the folder, which need not exist.
        advice: advice for the user about a damaged file: a sentence without its full stop.

    Attributes:
        listed: name -> SHA-256, empty if there is no list. A name is a path in the folder, such as
            "words/train.source".

    Raises:
        InputError: the list itself is damaged.
    """

    def __init__(self, folder: Path, advice: str = "Create it again"):
        self.folder, self.advice, self.path = folder, advice, folder / NAME
        self.listed: Dict[str, str] = {}
        self._watched: Dict[Path, Stamp] = {}
        if not self.path.is_file():
            return
        try:
            self.listed = _read_list(self.path.read_bytes().decode("utf-8"))
        except ValueError as error:
            raise InputError(f"{self.path} is damaged: {error}. {self._way_out()}") from None

    def _way_out(self) -> str:
        return f"{self.advice} or, if you changed it on purpose, delete {self.path}"

    def verify(self, names: Iterable[str], may_be_missing: bool = False) -> None:
        """Verify the named files that are listed, and watch them from now on.

        Raises:
            InputError: a file has changed or is missing.
        """
        for name in names:
            path = self.folder / name
            if name in self.listed and not (may_be_missing and not path.exists()):
                if not path.is_file():
                    raise InputError(f"{path} is missing, but {NAME} in its folder lists it. {self._way_out()}")
                self.watch(path)
                self.compare(name, sha256(path))

    def compare(self, name: str, checksum: str) -> None:
        """Raise InputError if the file is listed with a different checksum."""
        if self.listed.get(name, checksum) != checksum:
            raise InputError(
                f"{self.folder / name} is damaged or was changed: its checksum differs from {NAME}. {self._way_out()}"
            )

    def watch(self, *paths: Path) -> None:
        """Record the sizes and modification times of files, for :meth:`verify_unchanged`."""
        self._watched.update({path: _stamp(path) for path in paths})

    def verify_unchanged(self) -> None:
        """Raise InputError if a watched file has changed. Deleted files are ignored: open files stay readable."""
        for path, stamp in self._watched.items():
            with contextlib.suppress(FileNotFoundError):
                if _stamp(path) != stamp:
                    raise InputError(f"{path} changed while it was being read; run the command again")

    @contextlib.contextmanager
    def making(self, *names: str) -> Iterator[None]:
        """Context manager for creating files from watched files; the new files are listed and watched.

        Raises:
            InputError: a watched file has changed in the meantime, and the new files have been deleted.
        """
        self.forget(*names)
        yield
        try:
            self.verify_unchanged()
        except InputError:
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.folder / name)
            raise
        self.add(*names)

    def forget(self, *names: str) -> None:
        """Remove files that are about to be replaced from the list, so that their change is not an error."""
        for name in names:
            self._watched.pop(self.folder / name, None)
        if any(name in self.listed for name in names):
            self._write({name: checksum for name, checksum in self.listed.items() if name not in names})

    def add(self, *names: str) -> None:
        """List files that have been created, and watch them."""
        if not names:
            return
        self.watch(*(self.folder / name for name in names))
        self._write({**self.listed, **{name: sha256(self.folder / name) for name in names}})

    def add_unlisted(self, *names: str) -> None:
        """List files from an older version, or from a command that ended before it could list them."""
        self.add(*(name for name in names if name not in self.listed))

    def _write(self, listed: Dict[str, str]) -> None:
        """Replace the list atomically."""
        self.listed = listed
        write_text(self.path, list_of(listed))
