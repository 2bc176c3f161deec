"""The command ``etads-models``: list architectures, show their options, or write configuration files."""

import argparse
import logging
import sys
import warnings
from pathlib import Path

from tabulate import tabulate

from ..platform.console import Parser, command
from ..platform.errors import InputError

EXAMPLES = """\
examples:
  etads-models                       list all architectures
  etads-models etads                 show the options of one architecture
  etads-models --configs configs     write a configuration of each architecture for fairseq-hydra-train
"""

VOCABULARY = 50_000
"""Default number of words in the dictionary (--vocabulary)."""


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-models",
        description="List the available architectures with their parameter counts, or show the options of one "
        "architecture.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("arch", metavar="ARCH", nargs="?", help="architecture for which to show the options")
    parser.add_argument("--vocabulary", type=int, help=f"size of the source dictionary (default: {VOCABULARY})")
    parser.add_argument(
        "--target-vocabulary",
        type=int,
        help="size of the target dictionary; with a shared dictionary, the number of its words that summaries can "
        "contain (default: the size of the source dictionary)",
    )
    parser.add_argument(
        "--configs",
        metavar="DIR",
        type=Path,
        help="write a fairseq-hydra-train configuration for every architecture to DIR/ARCH.yaml",
    )
    return parser


@command(_build_parser)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-models``."""
    if args.arch and args.configs:
        raise InputError(
            f"--configs {args.configs}: cannot be used with ARCH {args.arch}; it writes configurations "
            "of all architectures"
        )
    for option, size in (("--vocabulary", args.vocabulary), ("--target-vocabulary", args.target_vocabulary)):
        if size is not None and size < 5:
            raise InputError(f"{option} {size}: choose 5 or more")
        if size is not None and (args.arch or args.configs):
            other = f"ARCH {args.arch}" if args.arch else f"--configs {args.configs}"
            raise InputError(
                f"{option} {size} has no effect with {other}: it is only for the list of all architectures"
            )
    warnings.simplefilter("ignore")  # Hydra warns about how fairseq calls it
    logging.getLogger("hydra").setLevel(logging.WARNING)  # Hydra logs a debug message for each model
    from ..pipeline.architectures import PRESETS, describe_architectures, make_options_parser, write_configurations

    if args.configs:
        written = write_configurations(args.configs)
        print(f"{len(written)} configurations: {args.configs}/ARCH.yaml")
        return
    if args.arch:
        if args.arch not in PRESETS:
            raise InputError(f"ARCH {args.arch}: choose one of {', '.join(PRESETS)}")
        make_options_parser(args.arch).print_help()
        return
    rows = describe_architectures(args.vocabulary or VOCABULARY, args.target_vocabulary)
    heads = ["--arch", "parameters", "changed options"]
    print(tabulate(rows, heads, "plain", disable_numparse=True, colalign=("left", "right", "left")))


if __name__ == "__main__":
    sys.exit(main())
