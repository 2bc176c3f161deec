"""Write outputs completely or not at all, by one process at a time, and never over an input.

Every command of the project writes its files through this module:

- :func:`writing` and :func:`writing_bytes` write a file under a temporary name in the target's folder, and rename it
  when it is complete. If the process is killed, the target is unchanged.
- :func:`locked` keeps a second process from an output, a file or a folder, and names the lock's holder. The lock ends
  with the process, however it ends.
- :func:`check_outputs` refuses an output that is one of the inputs, through links, too.
"""

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import (
    IO,
    Any,
    BinaryIO,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Set,
    TextIO,
    Tuple,
    Union,
)

from .errors import InputError
from .processes import lock

PARTIAL = ".partial"
"""Ending of incomplete files."""
LOCK = ".lock"
"""Ending of the lock file next to an output, or name of the lock file in a folder."""

_NO_ROOM = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))

_held: Set[str] = set()
"""Lock files that this process holds."""


class _Lock:
    """A locked file with the name of its holder."""

    def __init__(self, path: Path):
        self.path = path
        self._file: Optional[IO[Any]] = None

    def acquire(self) -> bool:
        """Lock the file, which is created if necessary; False if another process has it."""
        while True:
            file = open(self.path, "a+", encoding="utf-8")  # noqa: SIM115  # closed by release()
            if not lock(file):
                file.close()
                return False
            # the previous holder may have deleted it between the two lines above
            if _is_still(file, self.path):
                break
            file.close()
        file.truncate(0)
        started = time.strftime("%Y-%m-%d %H:%M:%S")
        about = {"pid": os.getpid(), "host": socket.gethostname(), "command": _command(), "started": started}
        file.write(json.dumps(about))
        file.flush()
        self._file = file
        return True

    def holder(self) -> str:
        """Describe the lock's holder, for a message."""
        try:
            about = json.loads(self.path.read_text(encoding="utf-8"))
            return f"{about['command']}, process {about['pid']} on {about['host']}, since {about['started']}"
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"

    def fileno(self) -> int:
        """The file descriptor of the locked file."""
        assert self._file is not None
        return self._file.fileno()

    def release(self) -> None:
        """Delete the file and give up the lock."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # its folder may no longer exist
                self.path.unlink()
            self._file.close()
            self._file = None


def _is_still(file: IO[Any], path: Path) -> bool:
    """Tell whether an open file is still the one at ``path``."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    opened = os.fstat(file.fileno())
    return (opened.st_dev, opened.st_ino) == (there.st_dev, there.st_ino)


def _command() -> str:
    return os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python"


@contextlib.contextmanager
def locked(output: Path, option: str = "--output", folder: bool = False) -> Iterator[Tuple[int, ...]]:
    """Keep other processes from writing an output.

    Yields the file descriptor of the lock, if it has one: a process that inherits it holds the lock, too.

    Args:
        output: a file in an existing folder, or with ``folder`` a folder, which is created, and deleted if it stays
            empty.
        option: the option that names it.

    Raises:
        InputError: another process has it, which the message names; or the folder cannot be created.
    """
    made = _make_folders(output, option) if folder else []
    path = output.resolve()
    path = path / LOCK if folder else path.with_name(f".{path.name}{LOCK}")
    if folder and str(path) in _held:  # locked by a caller
        yield ()
        return
    guard = _Lock(path)
    if str(path) in _held or not guard.acquire():
        raise InputError(f"{option} {output}: is being written at the moment ({guard.holder()}); wait, or name another")
    _held.add(str(path))
    try:
        yield (guard.fileno(),)
    finally:
        _held.discard(str(path))
        guard.release()
        for empty in made:
            with contextlib.suppress(OSError):  # the folder is not empty
                empty.rmdir()


def _make_folders(folder: Path, option: str) -> List[Path]:
    """Create a folder and its parents; returns the ones that were missing, the innermost first."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to {option} {folder}: {error.strerror}") from None
    return missing


@contextlib.contextmanager
def _completed(path: Path, expected_lines: Optional[Callable[[], int]] = None) -> Iterator[Path]:
    """Path of a temporary file that replaces ``path`` if no error is raised.

    Links are followed. Files that are not regular, such as /dev/stdout or a named pipe, are written directly.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        yield path
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path, "output"):
        for stale in _partials(path):  # left by killed processes; this process now holds their lock
            with contextlib.suppress(FileNotFoundError):
                stale.unlink()
        partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PARTIAL}")
        try:
            yield partial
            if expected_lines is not None:
                _check_lines(partial, path, expected_lines())
            os.replace(partial, path)
        except BaseException as error:
            with contextlib.suppress(FileNotFoundError):
                partial.unlink()
            if isinstance(error, OSError) and error.filename is None and error.errno in _NO_ROOM:
                error.filename = str(path)  # Python does not know whether an error occurred while writing
            raise


def _partials(path: Path) -> List[Path]:
    """Find incomplete files of ``path`` that :func:`_completed` has left."""
    pattern = re.compile(rf"{re.escape(path.name)}\.[0-9a-f]{{8}}{re.escape(PARTIAL)}")
    return [other for other in path.parent.iterdir() if pattern.fullmatch(other.name)]


def _check_lines(partial: Path, path: Path, expected: int) -> None:
    with open(partial, "rb") as file:
        written = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    if written != expected:
        raise InputError(
            f"{path}: {written:,} lines were written for {expected:,} input lines, so the output was discarded"
        )


@contextlib.contextmanager
def writing(
    path: Union[str, Path], errors: str = "strict", newline: str = "\n", lines: Optional[Callable[[], int]] = None
) -> Iterator[TextIO]:
    """A UTF-8 text file that appears under its name only when it is complete.

    If an error is raised inside, the temporary file is deleted, and an existing file stays unchanged.

    Args:
        lines: called at the end; returns the required number of lines.

    Raises:
        InputError: another process is writing it, or it has another number of lines.
    """
    how: Dict[str, Any] = {"encoding": "utf-8", "errors": errors, "newline": newline}
    with _completed(Path(path), lines) as partial, open(partial, "w", **how) as file:
        yield file


@contextlib.contextmanager
def writing_bytes(path: Union[str, Path]) -> Iterator[BinaryIO]:
    """Like :func:`writing`, for bytes."""
    with _completed(Path(path)) as partial, open(partial, "wb") as file:
        yield file


@contextlib.contextmanager
def writing_by_name(path: Union[str, Path]) -> Iterator[Path]:
    """Like :func:`writing`, for libraries that open files themselves: yields the path to write to."""
    with _completed(Path(path)) as partial:
        yield partial


def copy_file(source: Path, target: Path) -> None:
    """Copy a file, which appears under its name only when it is complete."""
    with writing_by_name(target) as partial:
        shutil.copyfile(source, partial)


def write_text(path: Union[str, Path], text: str, errors: str = "strict") -> None:
    """Write a text file, which appears under its name only when it is complete."""
    with writing(path, errors) as file:
        file.write(text)


@contextlib.contextmanager
def writing_folder(path: Path, option: str) -> Iterator[Path]:
    """A folder that appears under its name only when it is complete: yields a temporary folder to fill.

    It replaces only an empty folder. If an error is raised inside, it is deleted.

    Raises:
        InputError: there is a file of that name, or a folder that is not empty or is the current one; or another
            process is making it.
    """
    given, path = path, path.resolve()
    if path == Path.cwd():
        raise InputError(f"{option} {given}: is the current folder, which cannot be replaced: name another one")
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path, option):
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            raise InputError(f"{option} {given} exists already: name another one, or delete it")
        partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PARTIAL}")
        partial.mkdir()
        try:
            yield partial
            os.replace(partial, path)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


def check_outputs(outputs: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
    """Refuse outputs that are also inputs or other outputs.

    Args:
        outputs, inputs: option, or name of an argument -> a path, several, or None. ``-`` is not a file. For an input
            folder, the caller lists the files that are read.

    Raises:
        InputError: two are the same file, by their names or through links.
    """
    written: Dict[str, Tuple[str, Path]] = {}
    for option, path in _paths(outputs):
        identity = _identity(path)
        if identity in written:
            raise InputError(f"{option} {path} and {written[identity][0]} name the same file: choose two names")
        written[identity] = option, path
    for name, path in _paths(inputs):
        identity = _identity(path)
        if identity in written:
            option, output = written[identity]
            raise InputError(f"{option} {output} is also read ({name} {path}): name another file to write to")


def _paths(named: Mapping[str, Any]) -> Iterator[Tuple[str, Path]]:
    for option, value in named.items():
        values: Iterable[Any] = [value] if isinstance(value, (str, Path)) or value is None else value
        for path in values:
            if path is not None and str(path) not in ("", "-"):
                yield option, Path(path)


def _identity(path: Path) -> str:
    """A key that is equal for two paths of the same file."""
    try:
        about = path.stat()
    except OSError:
        return os.path.realpath(path)
    return f"{about.st_dev}:{about.st_ino}" if path.is_file() else os.path.realpath(path)
