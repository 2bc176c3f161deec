"""What the commands of preparation share: the option --jobs."""

import argparse
import os


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add the option --jobs."""
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all processors, %(default)s)"
    )
