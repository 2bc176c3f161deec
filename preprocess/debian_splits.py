"""Select pairs from Debian packages, and assign them to splits such that no text occurs in two splits.

No source package, document or synopsis occurs in two splits. The same applies to paragraphs and sentences with at least
UNIT_CHARS characters. Source packages are treated as the same package if their names differ only in digits and dots
(gcc-11, gcc-12). Two texts are considered equal if they match after case folding and after replacing each sequence of
digits with 0. Two paragraphs or sentences are also considered equal if they match after the names of their packages
have been masked. A sentence ends with one of the characters ``.!?:;``, followed by a space. Shorter phrases ("This
package contains the documentation.") and paraphrases may occur in several splits.

Source packages that share such a text are merged into groups with a union-find algorithm. A seeded hash of the group's
name determines the split for the whole group. In Debian 12, the largest group contains 9 % of the corpus, because the
descriptions of related libraries share boilerplate text. If UNIT_CHARS were 40, shared paragraphs would merge a quarter
of the corpus into one group. A group that is larger than HELD_OUT_SHARE of valid or test is assigned to train, so that
no family of packages dominates an evaluation.
"""

import argparse
import hashlib
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Dict, Iterable, List, Optional, Sequence, Set, Tuple

from tqdm import tqdm

from fairseq_etads.text.json_files import SPLITS

from .debian_index import stem_package_name

UNIT_CHARS = 60
"""Minimum length, in characters, of paragraphs and sentences that must not occur in two splits."""

HELD_OUT_SHARE = 0.05
"""Maximum fraction of the pairs in valid or test that may belong to the same group.

This limit does not apply to groups of at most HELD_OUT_MINIMUM pairs.
"""

HELD_OUT_MINIMUM = 5
"""Maximum size, in pairs, of groups that are exempt from HELD_OUT_SHARE."""

TRANSITIONAL = re.compile(r"\b(transitional|dummy)[ -]+((transitional|dummy|meta)[ -]*)*packages?\b", re.I)
Groups = Dict[str, List["DescriptionPair"]]


@dataclass(frozen=True)
class DescriptionPair:
    """Document and summary of a Debian package.

    Attributes:
        package: name of the binary package.
        source_package: name of the source package.
        paragraphs: paragraphs of the long description, each on a single line.
        target: synopsis of the package, which is used as the summary.
    """

    package: str
    source_package: str
    paragraphs: Tuple[str, ...]
    target: str

    @property
    def source(self) -> str:
        """The long description on a single line, which is used as the document."""
        return " ".join(self.paragraphs)


def normalise_for_comparison(text: str) -> str:
    """Normalise a text for comparison: fold its case, and replace each sequence of digits with 0."""
    return re.sub(r"\d+", "0", text.casefold())


def make_overlap_keys(pair: DescriptionPair) -> Set[str]:
    """Return all texts in a pair that must not occur in two splits, normalised for comparison."""
    keys = {"document " + normalise_for_comparison(pair.source), "synopsis " + normalise_for_comparison(pair.target)}
    names = {n for name in (pair.package, pair.source_package) for n in (name, stem_package_name(name)) if len(n) > 2}
    alternatives = "|".join(sorted((re.escape(normalise_for_comparison(n)) for n in names), key=len, reverse=True))
    own_name = re.compile(rf"(?<!\w)({alternatives})(?!\w)") if names else None
    # Both the paragraphs and the whole line are split into sentences. The output files contain the whole line but not
    # the paragraphs, so a later check of these files can find only the sentences of the line.
    for text in {*pair.paragraphs, pair.source}:
        for unit in (u for u in [text, *re.split(r"(?<=[.!?:;])\s+", text)] if len(u) >= UNIT_CHARS):
            unit = normalise_for_comparison(unit)
            keys |= {"text " + unit, "text " + (own_name.sub("@", unit) if own_name else unit)}
    return keys


def find_drop_reason(pair: DescriptionPair, options: argparse.Namespace) -> Optional[str]:
    """Return the reason for dropping a pair, regardless of other pairs, or None if the pair should be kept."""
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


def select_pairs(
    pairs: Iterable[DescriptionPair], options: argparse.Namespace
) -> Tuple[List[DescriptionPair], Counter]:
    """Select the pairs to keep, in their original order.

    If several pairs have the same document, only the first one is kept.

    Returns:
        The selected pairs, and the number of dropped pairs for each reason.
    """
    kept: Dict[str, DescriptionPair] = {}
    dropped: Counter = Counter()
    for pair in pairs:
        reason, document = find_drop_reason(pair, options), normalise_for_comparison(pair.source)
        if reason is None and document in kept:
            same = normalise_for_comparison(kept[document].target) == normalise_for_comparison(pair.target)
            reason = "duplicate pair" if same else "duplicate document"
        if reason is None:
            kept[document] = pair
        else:
            dropped[reason] += 1
    return list(kept.values()), dropped


def group_related_pairs(pairs: Sequence[DescriptionPair]) -> Groups:
    """Group pairs if their source packages share a text, or if the package names differ only in digits and dots.

    Returns:
        A dictionary that maps group names to pairs. The name of a group is the alphabetically first source package in
        the group.
    """
    parent: Dict[str, str] = {}

    def find_root(node: str) -> str:
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = parent[parent[node]]  # path halving limits the height of the trees
            node = parent[node]
        return node

    for pair in tqdm(pairs, desc="grouping", unit="pair", disable=not sys.stderr.isatty()):
        name = pair.source_package
        for key in {"name " + (re.sub(r"[\d.]+", "", name).strip("-") or name), *make_overlap_keys(pair)}:
            parent[find_root(key)] = find_root("package " + name)
    members: Groups = defaultdict(list)
    for pair in pairs:
        members[find_root("package " + pair.source_package)].append(pair)
    return {min(p.source_package for p in group): group for group in members.values()}


def assign_groups_to_splits(groups: Groups, options: argparse.Namespace) -> Tuple[Groups, Counter]:
    """Assign each group of pairs to a split.

    The groups are processed in the order of their seeded hashes. Each group is assigned to the first split in the order
    test, valid, train that has enough space for all of its pairs. The pairs in each split remain in this order, so the
    first lines of each output file are a random sample.

    Returns:
        The splits, and the number of pairs that were dropped because of ``--max-per-group`` or because no split had
        enough space.
    """

    def compute_sort_key(text: str) -> Tuple[str, str]:
        return hashlib.sha256(f"{options.seed} {text}".encode()).hexdigest(), text

    sizes = {"test": options.test_size, "valid": options.valid_size}
    sizes["train"] = options.train_size or sys.maxsize
    splits: Groups = {split: [] for split in SPLITS}
    dropped: Counter = Counter()
    for name in sorted(groups, key=compute_sort_key):
        group = sorted(groups[name], key=lambda p: compute_sort_key(f"{p.package} {p.source}"))
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


def find_split_overlaps(splits: Groups) -> List[str]:
    """Return the source packages and texts that occur in several splits. The list is empty for a valid corpus."""
    home: Dict[str, str] = {}
    pairs = ((split, pair) for split in splits for pair in splits[split])
    keys = ((split, key) for split, p in pairs for key in {"package " + p.source_package, *make_overlap_keys(p)})
    return sorted({key for split, key in keys if home.setdefault(key, split) != split})
