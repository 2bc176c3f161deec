"""Count documents that occur twice in a corpus or in two of its splits."""

import hashlib
from pathlib import Path
from typing import Dict, Iterator, Sequence

import numpy as np

from fairseq_etads.text.files import read_lines


def overlap(text: Path, splits: Sequence[str], repeated: bool = False) -> Dict[str, Dict[str, int]]:
    """Count the documents of each split that occur twice in the split or also occur in an earlier split.

    Whole lines of TEXT/SPLIT.source are compared by 8 bytes of a hash, which requires 8 bytes of memory per document.
    Empty lines are ignored. Among a million documents, the probability of a single false match is 1 in 20 million.

    Args:
        repeated: whether training documents are repeated on consecutive lines, once for each reference. Such documents
            are counted once.
    """
    found: Dict[str, Dict[str, int]] = {}
    known: Dict[str, np.ndarray] = {}
    for split in splits:
        hashes = np.fromiter(_hashes(text / f"{split}.source", repeated and split == "train"), dtype=np.uint64)
        known[split] = np.unique(hashes)
        found[split] = {"duplicates": len(hashes) - len(known[split])}
        for other in splits[: splits.index(split)]:
            found[split][f"also in {other}"] = int(np.isin(hashes, known[other]).sum())
    return found


def _hashes(path: Path, skip_repeated: bool) -> Iterator[int]:
    previous = ""
    for line in read_lines(path):
        if line and not (skip_repeated and line == previous):
            yield int.from_bytes(hashlib.blake2b(line.encode(), digest_size=8).digest(), "little")
        previous = line
