"""The faults: damage to a file, a full disk, a folder that cannot be written to, files that vanish or change."""

import ctypes
import os
import random
from pathlib import Path
from typing import Callable, Dict

PAGE = 4096


def _change_byte(path: Path, draw: random.Random, change: Callable[[int], int]) -> None:
    """Replace a random byte of the file by the result of ``change``."""
    place = draw.randrange(path.stat().st_size)
    with open(path, "r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([change(byte)]))


def flip_bit(path: Path, draw: random.Random) -> None:
    """Flip a random bit of the file."""
    _change_byte(path, draw, lambda byte: byte ^ (1 << draw.randrange(8)))


def change_byte(path: Path, draw: random.Random) -> None:
    """Replace a random byte of the file by another one."""
    _change_byte(path, draw, lambda byte: (byte + draw.randrange(1, 256)) % 256)


def truncate(path: Path, draw: random.Random) -> None:
    """Truncate the file at a random place."""
    os.truncate(path, draw.randrange(path.stat().st_size))


def zero_page(path: Path, draw: random.Random) -> None:
    """Overwrite a page of the file, or all of a shorter one, with zeros."""
    size = path.stat().st_size
    start = draw.randrange(-(-size // PAGE)) * PAGE
    with open(path, "r+b") as file:
        file.seek(start)
        file.write(bytes(min(PAGE, size - start)))


DAMAGES: Dict[str, Callable[[Path, random.Random], None]] = {
    "a bit flipped": flip_bit,
    "a byte changed": change_byte,
    "truncated": truncate,
    "a page of zeros": zero_page,
}

_libc = ctypes.CDLL(None, use_errno=True)
_READ_ONLY, _REMOUNT, _BIND, _DETACH = 1, 32, 4096, 2


def _mount(source: str, target: Path, kind: str, flags: int, options: str) -> None:
    if _libc.mount(source.encode(), str(target).encode(), kind.encode(), flags, options.encode()):
        raise OSError(ctypes.get_errno(), f"mount {target}: {os.strerror(ctypes.get_errno())}")


def limit_space(folder: Path, size: int, again: bool = False) -> None:
    """Mount a file system of ``size`` bytes over an empty folder; ``again``: change its size."""
    _mount("tmpfs", folder, "tmpfs", _REMOUNT if again else 0, f"size={size}")


def make_read_only(folder: Path) -> None:
    """Mount the folder over itself, read-only; file modes would not stop root from writing."""
    _mount(str(folder), folder, "", _BIND, "")
    _mount(str(folder), folder, "", _BIND | _REMOUNT | _READ_ONLY, "")


def unmount(folder: Path) -> None:
    """Undo what :func:`limit_space` or :func:`make_read_only` did."""
    if _libc.umount2(str(folder).encode(), _DETACH):
        raise OSError(ctypes.get_errno(), f"umount {folder}: {os.strerror(ctypes.get_errno())}")


def can_mount(folder: Path) -> bool:
    """Tell whether this process may mount file systems, by trying it on an empty folder."""
    try:
        limit_space(folder, PAGE)
        unmount(folder)
    except OSError:
        return False
    return True
