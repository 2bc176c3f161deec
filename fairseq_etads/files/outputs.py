"""Write output files atomically, in one process at a time, and without overwriting input files.

All commands of this project use this module to write files. A file is written under a temporary name in the same
folder, and renamed when it is complete: if the process is killed, an existing file is not changed.
"""

import argparse
import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import socket
import time
from pathlib import Path
from typing import IO, Any, BinaryIO, Dict, Iterator, Mapping, Optional, Set, TextIO, Tuple, Union

from ..platform.errors import InputError

try:
    import fcntl
except ImportError:  # on Windows, nothing is locked
    fcntl = None  # type: ignore[assignment]

PARTIAL = ".partial"
"""Suffix of files that are not yet complete."""
LOCK = ".lock"
"""Suffix of the lock file for an output file, and name of the lock file in an output folder."""

COMPRESSED = (".gz", ".xz", ".bz2", ".zst", ".lz4")
"""Suffixes of compressed files, which no command writes."""

_NO_ROOM = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))

_held: Set[str] = set()
"""Paths of the lock files that are locked by the current process."""


def _acquire(path: Path) -> Optional[IO[str]]:
    """Lock a file, and write into it who holds the lock. Returns None if another process holds it.

    On file systems without locks, no other process seems to hold it. The file is deleted when the lock is given up.
    """
    while True:
        file = open(path, "a+", encoding="utf-8", errors="replace")  # noqa: SIM115  # closed by _release()
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        except OSError:
            pass
        # The previous holder may have deleted the file after it was opened here but before it was locked.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                break
        file.close()
    file.seek(0)
    if file.read(7) not in ("", '{"pid":'):
        file.close()
        raise InputError(f"{path}: is not a lock file of this program; move it away")
    file.truncate(0)
    program, started = argparse.ArgumentParser().prog or "python", time.strftime("%Y-%m-%d %H:%M:%S")
    json.dump({"pid": os.getpid(), "host": socket.gethostname(), "command": program, "started": started}, file)
    file.flush()
    return file


def _describe_holder(path: Path) -> str:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        return f"{about['command']}, process {about['pid']} on {about['host']}, since {about['started']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _release(path: Path, file: IO[str]) -> None:
    with contextlib.suppress(OSError):  # the folder may no longer exist
        path.unlink()
    file.close()


@contextlib.contextmanager
def lock_output(output: Path, option: str = "--output", folder: bool = False) -> Iterator[Tuple[int, ...]]:
    """Context manager in which other processes cannot write to an output file or (if ``folder``) folder.

    A file is in an existing folder. A missing folder is created, and deleted on exit if it is still empty. The value is
    a tuple that contains the file descriptor of the lock. The tuple is empty if a caller already holds the lock. A
    child process that inherits the descriptor also holds the lock, which ends with the last of these processes. Raises
    InputError, which names ``option`` and the other process, if another process holds the lock, or if the folder cannot
    be created.
    """
    made = [place for place in (output, *output.parents) if not place.exists()] if folder else []
    try:
        if folder:
            output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to {option} {output}: {error.strerror}") from None
    path = Path(os.path.realpath(output))  # resolve() raises RuntimeError for a link to itself
    path = path / LOCK if folder else path.with_name(f".{path.name}{LOCK}")
    if folder and str(path) in _held:  # a caller already holds the lock
        yield ()
        return
    file = None if str(path) in _held else _acquire(path)
    if file is None:
        who = _describe_holder(path)
        raise InputError(f"{option} {output}: is being written ({who}); wait, or name another output")
    _held.add(str(path))
    try:
        if folder:
            _delete_stale_locks(output.resolve())
        yield (file.fileno(),)
    finally:
        _held.discard(str(path))
        _release(path, file)
        for empty in made:
            with contextlib.suppress(OSError):  # keep non-empty folders
                empty.rmdir()


def _delete_stale_locks(folder: Path) -> None:
    """Delete lock files in a folder and its subfolders that processes killed after renaming their output have left."""
    for path in (*folder.glob(f".*{LOCK}"), *folder.glob(f"*/.*{LOCK}")):
        with contextlib.suppress(OSError, InputError):  # kept if it is not the user's or not this program's
            if str(path) not in _held and (file := _acquire(path)):
                _release(path, file)


def check_no_colon(option: str, path: Optional[Path]) -> None:
    """Raise InputError if the path of a folder for fairseq contains a colon, by which fairseq separates folders."""
    if ":" in str(path or ""):
        raise InputError(f"{option} {path}: contains a colon, by which fairseq separates folders; choose another name")


@contextlib.contextmanager
def make_temporary_output(path: Union[str, Path]) -> Iterator[Path]:
    """Yield the path of a temporary file that replaces ``path`` on exit, or is deleted after an error in the context.

    Links are followed. If ``path`` is not a regular file, such as /dev/stdout or a named pipe, no temporary file is
    used. Raises InputError if another process is writing to the file.
    """
    path = Path(path)
    if path.exists() and not path.is_file():  # /dev/stdout may link to a pipe, which has no real path
        with name_file_in_errors(path):
            yield path
        return
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock_output(path, "output"):
        # The current process holds the lock, so these files must have been left by killed processes.
        pattern = re.compile(rf"{re.escape(path.name)}\.[0-9a-f]{{8}}{re.escape(PARTIAL)}")
        for stale in filter(lambda other: pattern.fullmatch(other.name), list(path.parent.iterdir())):
            stale.unlink(missing_ok=True)
        partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PARTIAL}")
        try:
            with name_file_in_errors(path):
                yield partial
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def name_file_in_errors(path: Path) -> Iterator[None]:
    """Add the path to errors of ``write()`` and ``flush()`` about lack of room, which do not name the file."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _NO_ROOM:
            error.filename = str(path)
        raise


@contextlib.contextmanager
def open_output(path: Union[str, Path], errors: str = "strict", newline: str = "\n") -> Iterator[TextIO]:
    """Open a UTF-8 text file for writing, as :func:`make_temporary_output` does."""
    with make_temporary_output(path) as name, open(name, "w", encoding="utf-8", errors=errors, newline=newline) as file:
        yield file


@contextlib.contextmanager
def open_binary_output(path: Union[str, Path]) -> Iterator[BinaryIO]:
    """Open a binary file for writing, as :func:`make_temporary_output` does."""
    with make_temporary_output(path) as partial, open(partial, "wb") as file:
        yield file


def copy_file(source: Path, target: Path) -> None:
    """Copy a file, as :func:`make_temporary_output` does."""
    with make_temporary_output(target) as partial:
        shutil.copyfile(source, partial)


def write_text(path: Union[str, Path], text: str, errors: str = "strict") -> None:
    """Write a text to a file, as :func:`make_temporary_output` does."""
    with open_output(path, errors) as file:
        file.write(text)


def write_json(path: Union[str, Path], content: Dict[str, Any]) -> None:
    """Write a dictionary to a JSON file. File names that are not valid UTF-8 are escaped, and restored by reading."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n", "backslashreplace")


@contextlib.contextmanager
def make_output_folder(path: Path, option: str) -> Iterator[Path]:
    """Yield the path of a temporary folder that is renamed to ``path`` on exit, or deleted after an error.

    An empty folder at ``path`` is replaced. Raises InputError if ``path`` is a file, a non-empty folder or the current
    working directory, or another process is creating the folder.
    """
    given, path = path, path.resolve()
    if path == Path.cwd():
        raise InputError(f"{option} {given}: is the current folder, which cannot be replaced; name another folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock_output(path, option):
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            raise InputError(f"{option} {given} already exists: name another folder, or delete it")
        partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PARTIAL}")
        partial.mkdir()
        try:
            yield partial
            os.replace(partial, path)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


def check_output_paths(outputs: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
    """Raise InputError if an output is a folder, is named like a compressed file, or is read or written twice.

    ``outputs`` and ``inputs`` map names of options or arguments to a path, several paths, or None. The path ``-`` is
    ignored. For an input folder, pass the files in it. Two paths can name the same file through links.
    """
    written: Dict[str, Tuple[str, Path]] = {}
    for option, path in _iterate_paths(outputs):
        if path.is_dir():
            raise InputError(f"{option} {path}: is a folder; name a file")
        if path.suffix in COMPRESSED:
            raise InputError(f"{option} {path}: is written uncompressed; choose a name without {path.suffix}")
        identity = _make_file_identity(path)
        if identity in written:
            raise InputError(f"{option} {path} and {written[identity][0]} name the same file: choose two names")
        written[identity] = option, path
    for name, path in _iterate_paths(inputs):
        identity = _make_file_identity(path)
        if identity in written:
            option, output = written[identity]
            raise InputError(f"{option} {output} is also read ({name} {path}): name another file to write to")


def _iterate_paths(named: Mapping[str, Any]) -> Iterator[Tuple[str, Path]]:
    for option, value in named.items():
        for path in [value] if isinstance(value, (str, Path)) else value or ():
            if path is not None and str(path) not in ("", "-"):
                yield option, Path(path)


def _make_file_identity(path: Path) -> str:
    """Return a key that is the same for all paths that refer to the same file."""
    try:
        about = path.stat()
    except OSError:
        return os.path.realpath(path)
    return f"{about.st_dev}:{about.st_ino}" if path.is_file() else os.path.realpath(path)
