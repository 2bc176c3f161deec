"""Documents that occur twice in a corpus, or in two of its splits."""

import hashlib
from pathlib import Path
from typing import Dict, Iterator, Sequence

import numpy as np

from fairseq_etads.text.files import read_lines


def overlap(text: Path, splits: Sequence[str], pairs: bool = False) -> Dict[str, Dict[str, int]]:
    """By split, how many documents stand in it before already, and in splits before it.

    Compared are whole lines of TEXT/SPLIT.source, empty ones aside, by 8 bytes of a hash each: that is the memory it
    needs, and among a million documents a false hit has a chance of 1 in 20 million.

    Args:
        pairs: a training document stands once for each of its references, one after another; they count once.
    """
    found: Dict[str, Dict[str, int]] = {}
    known: Dict[str, np.ndarray] = {}
    for split in splits:
        hashes = np.fromiter(_hashes(text / f"{split}.source", pairs and split == "train"), dtype=np.uint64)
        known[split] = np.unique(hashes)
        found[split] = {"duplicates": len(hashes) - len(known[split])}
        for other in splits[: splits.index(split)]:
            found[split][f"also in {other}"] = int(np.isin(hashes, known[other]).sum())
    return found


def _hashes(path: Path, once: bool) -> Iterator[int]:
    before = ""
    for line in read_lines(path):
        if line and not (once and line == before):
            yield int.from_bytes(hashlib.blake2b(line.encode(), digest_size=8).digest(), "little")
        before = line
