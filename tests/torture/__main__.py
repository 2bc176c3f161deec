"""``python -m torture``: disturb every long command, and count the outcomes; see scripts/torture.sh."""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from . import trials
from .trials import Torture


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/torture.sh", description=__doc__)
    add = parser.add_argument
    add("--seed", type=int, default=1, help="random seed of corpus, moments and places (default: %(default)s)")
    add(
        "--kills", type=int, default=50, help="number of moments at which each command is killed (default: %(default)s)"
    )
    add(
        "--places",
        type=int,
        default=3,
        help="number of places of each file that are damaged in each way (default: %(default)s)",
    )
    add(
        "--moments",
        type=int,
        default=12,
        help="number of moments at which files vanish or change (default: %(default)s)",
    )
    add("--sample", type=int, help="maximum number of trials of each kind of fault, drawn at random")
    add("--jobs", type=int, default=2, help="number of trials at a time (default: %(default)s)")
    add("--only", nargs="+", choices=sorted(trials.GROUPS), default=list(trials.GROUPS), help="kinds of faults to try")
    add("--commands", nargs="+", metavar="NAME", help="only these commands")
    add("--out", type=Path, help="working folder (default: a temporary folder)")
    return parser


def main() -> int:
    args = build_parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the counts so far are printed
    with tempfile.TemporaryDirectory(prefix="torture-", dir=args.out) as folder:
        torture = Torture(Path(folder), args)
        try:
            torture.run()
        finally:
            torture.close()
            print(torture.table.markdown(), flush=True)
    for said, where in torture.table.refusals.items():
        print(f"refused ({where}): {said}", file=sys.stderr)
    return int(bool(torture.table.faults))


if __name__ == "__main__":
    sys.exit(main())
