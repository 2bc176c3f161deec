"""Select pairs from Debian packages and assign them to splits, so that no text occurs in two splits.

The module guarantees that no source package, no document, no synopsis, and no paragraph or sentence of UNIT_CHARS
characters or more occurs in two splits. Source packages with names that differ only in digits and dots (gcc-11, gcc-12)
are treated as one. Texts are equal if they match after case folding and after replacing each run of digits with 0.
Paragraphs and sentences are also equal if they match after masking the name of each package. Sentences are separated by
``.!?:;`` and a space. Shorter phrases ("This package contains the documentation.") and paraphrases may occur in several
splits.

Source packages that share such a text are merged into groups (union-find). A seeded hash of a group's name determines
the split of the whole group. In Debian 12, the largest group contains 9 % of the corpus, because the descriptions of
library families share boilerplate. With a limit of 40 characters, paragraphs would already join a quarter of the
corpus. Groups larger than HELD_OUT_SHARE of valid or test are assigned to train, so that no family dominates an
evaluation.
"""

import argparse
import hashlib
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Dict, Iterable, List, Optional, Sequence, Set, Tuple

from tqdm import tqdm

from fairseq_etads.text.atomic import SPLITS

from .debian_index import stem

UNIT_CHARS = 60
"""Minimum length, in characters, of a paragraph or sentence that may not occur in two splits."""

HELD_OUT_SHARE = 0.05
"""Maximum share of one group in valid or test, unless the group contains at most HELD_OUT_MINIMUM pairs."""

HELD_OUT_MINIMUM = 5
"""Maximum number of pairs in a group with a larger share than HELD_OUT_SHARE."""

TRANSITIONAL = re.compile(r"\b(transitional|dummy)[ -]+((transitional|dummy|meta)[ -]*)*packages?\b", re.I)
Groups = Dict[str, List["Pair"]]


@dataclass(frozen=True)
class Pair:
    """One document: the ``paragraphs`` of the long description (one line each), and the synopsis as ``target``."""

    package: str
    source_package: str
    paragraphs: Tuple[str, ...]
    target: str

    @property
    def source(self) -> str:
        """Complete description on one line."""
        return " ".join(self.paragraphs)


def canonical(text: str) -> str:
    """Normalise a text for comparison: fold its case and replace each run of digits with 0."""
    return re.sub(r"\d+", "0", text.casefold())


def text_keys(pair: Pair) -> Set[str]:
    """List all texts of a pair that may occur in only one split, normalised for comparison."""
    keys = {"document " + canonical(pair.source), "synopsis " + canonical(pair.target)}
    names = {n for name in (pair.package, pair.source_package) for n in (name, stem(name)) if len(n) > 2}
    alternatives = "|".join(sorted((re.escape(canonical(n)) for n in names), key=len, reverse=True))
    own_name = re.compile(rf"(?<!\w)({alternatives})(?!\w)") if names else None
    # Both the paragraphs and the whole line are split into sentences, because only the line can be checked in the
    # files.
    for text in {*pair.paragraphs, pair.source}:
        for unit in (u for u in [text, *re.split(r"(?<=[.!?:;])\s+", text)] if len(u) >= UNIT_CHARS):
            unit = canonical(unit)
            keys |= {"text " + unit, "text " + (own_name.sub("@", unit) if own_name else unit)}
    return keys


def drop_reason(pair: Pair, options: argparse.Namespace) -> Optional[str]:
    """Return a reason to drop a pair, regardless of other pairs; None to keep the pair."""
    n_source, n_target = len(pair.source.split()), len(pair.target.split())
    checks = {
        "empty description": n_source == 0,
        "empty synopsis": n_target == 0,
        "transitional or dummy package": bool(TRANSITIONAL.search(f"{pair.target} | {pair.source}")),
        "below --min-source-words": n_source < options.min_source_words,
        "above --max-source-words": n_source > options.max_source_words,
        "below --min-target-words": n_target < options.min_target_words,
        "above --max-target-words": n_target > options.max_target_words,
    }
    return next((reason for reason, holds in checks.items() if holds), None)


def select(pairs: Iterable[Pair], options: argparse.Namespace) -> Tuple[List[Pair], Counter]:
    """Select pairs in order, only the first of equal documents; also return the number of pairs dropped for each
    reason.
    """
    kept: Dict[str, Pair] = {}
    dropped: Counter = Counter()
    for pair in pairs:
        reason, document = drop_reason(pair, options), canonical(pair.source)
        if reason is None and document in kept:
            same = canonical(kept[document].target) == canonical(pair.target)
            reason = "duplicate pair" if same else "duplicate document"
        if reason is None:
            kept[document] = pair
        else:
            dropped[reason] += 1
    return list(kept.values()), dropped


def group_pairs(pairs: Sequence[Pair]) -> Groups:
    """Group pairs with source packages that share a text or, apart from digits, a name. The first name is the key."""
    parent: Dict[str, str] = {}

    def find(node: str) -> str:
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = parent[parent[node]]  # path halving, which keeps the trees flat
            node = parent[node]
        return node

    for pair in tqdm(pairs, desc="grouping", unit="pair", disable=not sys.stderr.isatty()):
        name = pair.source_package
        for key in {"name " + (re.sub(r"[\d.]+", "", name).strip("-") or name), *text_keys(pair)}:
            parent[find(key)] = find("package " + name)
    members: Groups = defaultdict(list)
    for pair in pairs:
        members[find("package " + pair.source_package)].append(pair)
    return {min(p.source_package for p in group): group for group in members.values()}


def assign(groups: Groups, options: argparse.Namespace) -> Tuple[Groups, Counter]:
    """Assign groups to splits; also return the numbers of pairs dropped because of ``--max-per-group`` and of the
    sizes.

    Groups are processed in the order of their seeded hash. Each group is assigned to the first of test, valid and train
    that has space for all of its pairs. The lines keep this order, so the first lines of a file are a random sample of
    the file.
    """

    def rank(text: str) -> Tuple[str, str]:
        return hashlib.sha256(f"{options.seed} {text}".encode()).hexdigest(), text

    sizes = {"test": options.test_size, "valid": options.valid_size}
    sizes["train"] = options.train_size or sys.maxsize
    splits: Groups = {split: [] for split in SPLITS}
    dropped: Counter = Counter()
    for name in sorted(groups, key=rank):
        group = sorted(groups[name], key=lambda p: rank(f"{p.package} {p.source}"))
        used = group[: options.max_per_group or None]
        dropped["above --max-per-group"] += len(group) - len(used)
        for split, size in sizes.items():
            largest = size if split == "train" else max(HELD_OUT_MINIMUM, int(size * HELD_OUT_SHARE))
            if len(used) <= min(largest, size - len(splits[split])):
                splits[split].extend(used)
                break
        else:
            dropped["no room in any split"] += len(used)
    return splits, dropped


def crossings(splits: Groups) -> List[str]:
    """Find source packages and texts that occur in more than one split; the list must be empty."""
    home: Dict[str, str] = {}
    pairs = ((split, pair) for split in splits for pair in splits[split])
    keys = ((split, key) for split, p in pairs for key in {"package " + p.source_package, *text_keys(p)})
    return sorted({key for split, key in keys if home.setdefault(key, split) != split})
