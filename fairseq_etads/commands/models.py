"""The command ``etads-models`` (train): list architectures and their options."""

import logging
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from tabulate import tabulate

from ..platform.command_options import Bounds, argument, option, options_command
from ..platform.errors import InputError

EXAMPLES = """\
examples:
  etads-models                       list all architectures
  etads-models etads                 show the options of one architecture
  etads-models --configs configs     write a configuration of each architecture for fairseq-hydra-train
"""

VOCABULARY = 50_000
"""Default number of words in the dictionary (--vocabulary)."""
_OF_ALL = {"--configs": "", "--arch": ""}  # these options are for the list of all architectures


@dataclass
class ModelsOptions:
    """Options of ``etads-models``."""

    arch: Optional[str] = argument("ARCH", "architecture for which to show the options", nargs="?")
    vocabulary: Optional[int] = option(
        None, f"size of the source dictionary (default: {VOCABULARY})", bounds=Bounds(5), excludes=_OF_ALL
    )
    target_vocabulary: Optional[int] = option(
        None,
        "size of the target dictionary; with a shared dictionary, the number of its words that summaries can "
        "contain (default: the size of the source dictionary)",
        bounds=Bounds(5),
        excludes=_OF_ALL,
    )
    configs: Optional[Path] = option(
        None,
        "write a fairseq-hydra-train configuration for every architecture to DIR/ARCH.yaml",
        metavar="DIR",
        excludes={"--arch": "it writes configurations of all architectures"},
    )


@options_command(
    "etads-models",
    ModelsOptions,
    description="List the available architectures with their parameter counts, or show the options of one "
    "architecture.",
    epilog=EXAMPLES,
)
def main(args: ModelsOptions) -> None:
    """Run the command ``etads-models``."""
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
