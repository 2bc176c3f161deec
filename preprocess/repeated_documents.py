"""Count documents that occur more than once in a corpus."""

import hashlib
from pathlib import Path
from typing import Dict, Iterator, Sequence

import numpy as np

from fairseq_etads.text.files import read_lines


def count_repeated_documents(text: Path, splits: Sequence[str], repeated: bool = False) -> Dict[str, Dict[str, int]]:
    """For each split, count the documents that have already occurred in the same split or in an earlier split.

    Documents are compared by 8-byte hashes of their lines in TEXT/SPLIT.source, so each document requires 8 bytes of
    memory. Empty lines are ignored. The probability that any two different documents out of a million have the same
    hash is less than 1 in 20 million.

    Args:
        repeated: whether each training document is repeated on consecutive lines, one line for each of its reference
            summaries. These repetitions are not counted as duplicates.
    """
    found: Dict[str, Dict[str, int]] = {}
    known: Dict[str, np.ndarray] = {}
    for split in splits:
        hashes = np.fromiter(_iterate_hashes(text / f"{split}.source", repeated and split == "train"), dtype=np.uint64)
        known[split] = np.unique(hashes)
        found[split] = {"duplicates": len(hashes) - len(known[split])}
        for other in splits[: splits.index(split)]:
            found[split][f"also in {other}"] = int(np.isin(hashes, known[other]).sum())
    return found


def _iterate_hashes(path: Path, skip_repeated: bool) -> Iterator[int]:
    previous = ""
    for line in read_lines(path):
        if line and not (skip_repeated and line == previous):
            yield int.from_bytes(hashlib.blake2b(line.encode(), digest_size=8).digest(), "little")
        previous = line
