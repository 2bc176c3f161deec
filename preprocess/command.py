"""What the commands of preparation share: the option --jobs, and what all commands share."""

import argparse
import os

from fairseq_etads.console import Parser, errors_in_one_line, printable

__all__ = ["Parser", "add_jobs", "errors_in_one_line", "printable"]


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add the option --jobs."""
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all processors, %(default)s)"
    )
