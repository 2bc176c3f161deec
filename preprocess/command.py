"""What the commands of preparation share: the option --jobs, and errors as one line."""

import argparse
import contextlib
import os
import sys
from typing import Iterator

from fairseq_etads.text.files import InputError


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add the option --jobs."""
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all processors, %(default)s)"
    )


def printable(text: str) -> str:
    """The text with escapes for what a terminal cannot show or would obey; names in an input can hold anything."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@contextlib.contextmanager
def errors_in_one_line(prefix: str) -> Iterator[None]:
    """Print an InputError or OSError to stderr as one line behind ``prefix``, and exit with status 2."""
    try:
        yield
    except (InputError, OSError) as error:
        print(f"{prefix}: {printable(str(error))}", file=sys.stderr)
        sys.exit(2)
