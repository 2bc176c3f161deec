"""Reading and writing text files, the error, the option --jobs: what every preparation does alike."""

import argparse
import contextlib
import os
from pathlib import Path
from typing import Iterator, TextIO


class PrepareError(Exception):
    """Something the user can put right; shown as one line."""


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """The option --jobs."""
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all processors, %(default)s)"
    )


@contextlib.contextmanager
def atomic_writer(path: Path) -> Iterator[TextIO]:
    """A UTF-8 text file that appears under its name only when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial_path = path.with_name(path.name + ".partial")
    with open(partial_path, "w", encoding="utf-8", newline="\n") as file:
        yield file
    os.replace(partial_path, path)


def read_lines(path: Path) -> Iterator[str]:
    """Lines without their ends. Only a newline ends one: str.splitlines() also splits at U+2028 and loses the pairing.

    Raises:
        PrepareError: the file is not UTF-8; names file and line.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield line.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise PrepareError(f"{path}, line {number}: not UTF-8 ({error.reason} at byte {error.start})") from None
