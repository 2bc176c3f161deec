"""Assign documents to splits by their hash if a corpus has no predefined splits (--input and --split)."""

import argparse
import hashlib
import math
from dataclasses import dataclass
from typing import List, Optional, Tuple

from fairseq_etads.files import SPLITS
from fairseq_etads.platform.command_options import option
from fairseq_etads.platform.errors import InputError

DEFAULT_SHARES = "90/5/5"


INPUT_EXCLUDES = dict.fromkeys((f"--{split}" for split in SPLITS), "--input is divided into splits")


@dataclass
class SharesOptions:
    """Options for a corpus without its own splits."""

    shares: Optional[str] = option(
        None,
        "proportions of the splits of a corpus that is not split, such as 80/10/10. A hash of the cleaned document "
        "determines its split, so that identical documents are assigned to the same split, and new rows do not change "
        f"the splits of other rows (default: {DEFAULT_SHARES})",
        metavar="TRAIN/VALID/TEST",
        flag="--split",
    )
    split_seed: Optional[int] = option(None, "seed of the hash that assigns documents to splits (default: 1)")


@dataclass(frozen=True)
class SplitShares:
    """Shares of train, valid and test as given and as fractions, and the seed of the hash that assigns documents."""

    text: str
    fractions: Tuple[float, ...]
    seed: int = 1

    @property
    def splits(self) -> List[str]:
        """Names of the splits with a share greater than 0."""
        return [split for split, fraction in zip(SPLITS, self.fractions) if fraction]

    def assign_split(self, words: str) -> str:
        """Return the split to which a document is assigned, given its words after cleaning, separated by spaces."""
        digest = hashlib.sha256(f"{self.seed} {words}".encode("utf-8", "surrogatepass")).digest()
        place = int.from_bytes(digest[:8], "big") / 2**64
        for split in self.splits:
            place -= self.fractions[SPLITS.index(split)]
            if place < 0:
                return split
        return self.splits[-1]  # reached only because of rounding errors


def parse_shares(args: argparse.Namespace) -> SplitShares:
    """Parse --split and --split-seed. Raises InputError unless --split consists of three valid numbers."""
    text = args.shares or DEFAULT_SHARES
    try:
        numbers = [float(part) for part in text.split("/")]
    except ValueError:
        numbers = []
    total = sum(numbers)
    if len(numbers) != len(SPLITS) or min(numbers) < 0 or not 0 < total < math.inf:
        raise InputError(f"--split {text}: choose shares of train, valid and test, such as {DEFAULT_SHARES}")
    seed = 1 if args.split_seed is None else args.split_seed
    return SplitShares(text, tuple(number / total for number in numbers), seed)


def refuse_shares(args: argparse.Namespace, reason: str) -> None:
    """Raise InputError with ``reason`` if --split or --split-seed is set."""
    for name, value in (("--split", args.shares), ("--split-seed", args.split_seed)):
        if value is not None:
            raise InputError(f"{name} {value}: {reason}")


def parse_input_options(args: argparse.Namespace) -> Optional[SplitShares]:
    """Return the shares of the splits of --input, or None if --train, --valid and --test name the splits.

    Raises:
        InputError: neither is given, or --split or --split-seed is used without --input.
    """
    if args.input:
        return parse_shares(args)
    if not any(getattr(args, split) for split in SPLITS):
        raise InputError("give at least one of --train, --valid and --test, or --input, which is split into them")
    refuse_shares(args, "has no effect without --input")
    return None
