"""SHA256SUMS: checksums of a folder's files at their creation, in the format of ``sha256sum -c``.

Commands that make files write the list. Commands that read files verify them, so that damage is noticed. Without a
list, as for data made by fairseq-preprocess, nothing is verified. SHA-256 takes about 0.7 s per GiB.
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
"""Size, time of the last change in nanoseconds, and inode of a file: one of them changes when the file does."""


def sha256(path: Path) -> str:
    """SHA-256 of a file in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _stamp(path: Path) -> Stamp:
    about = path.stat()
    return about.st_size, about.st_mtime_ns, about.st_ino


def list_of(checksums: Dict[str, str]) -> str:
    """Content of SHA256SUMS for ``checksums``, name -> SHA-256. The first line is a comment with the list's own
    checksum.
    """
    lines = "".join(f"{checksums[name]}  {name}\n" for name in sorted(checksums))
    return f"{_HEAD}{hashlib.sha256(lines.encode()).hexdigest()}\n{lines}"


def _read_list(content: str) -> Dict[str, str]:
    """Read the SHA-256 by name from a list, with or without its first line; raises ValueError if it is damaged."""
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
        folder: it need not exist.
        advice: advice to the user about a damaged file; a sentence without its full stop.

    Attributes:
        listed: name -> SHA-256; a name is a path in the folder, such as "words/train.source". Empty without a list.

    Raises:
        InputError: the list itself is damaged.
    """

    def __init__(self, folder: Path, advice: str = "Make it again"):
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
        return f"{self.advice}; or, if you have changed it on purpose, delete {self.path}"

    def verify(self, names: Iterable[str], may_be_missing: bool = False) -> None:
        """Compare the listed files among these, and watch them from now on.

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
        """Raise InputError if the file is listed with another checksum."""
        if self.listed.get(name, checksum) != checksum:
            raise InputError(
                f"{self.folder / name} is damaged or was changed: its checksum is not the one in {NAME}. "
                f"{self._way_out()}"
            )

    def watch(self, *paths: Path) -> None:
        """Remember the modification times of files, for :meth:`verify_unchanged`."""
        self._watched.update({path: _stamp(path) for path in paths})

    def verify_unchanged(self) -> None:
        """Raise InputError if a watched file has changed. Deleting a file does not affect processes that use it."""
        for path, stamp in self._watched.items():
            with contextlib.suppress(FileNotFoundError):
                if _stamp(path) != stamp:
                    raise InputError(f"{path} changed while it was being read; run the command again")

    @contextlib.contextmanager
    def making(self, *names: str) -> Iterator[None]:
        """Context manager for making files from watched ones: lists and watches the new files.

        Raises:
            InputError: a watched file has changed in the meantime; the new files are deleted.
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
        """Drop files from the list that are about to be replaced, so that their change is expected."""
        for name in names:
            self._watched.pop(self.folder / name, None)
        if any(name in self.listed for name in names):
            self._write({name: checksum for name, checksum in self.listed.items() if name not in names})

    def add(self, *names: str) -> None:
        """List files that have been made, and watch them."""
        if not names:
            return
        self.watch(*(self.folder / name for name in names))
        self._write({**self.listed, **{name: sha256(self.folder / name) for name in names}})

    def add_unlisted(self, *names: str) -> None:
        """List files of an older version, or of a command that ended before it could list them."""
        self.add(*(name for name in names if name not in self.listed))

    def _write(self, listed: Dict[str, str]) -> None:
        """Replace the list atomically."""
        self.listed = listed
        write_text(self.path, list_of(listed))
