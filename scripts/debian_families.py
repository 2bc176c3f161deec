#!/usr/bin/env python3
"""Print the family of each test pair in a Debian corpus, and mark pairs that also occur in the sample corpus.

    python scripts/debian_families.py data/debian > results/debian-families.tsv
    python scripts/debian_families.py data/debian2 --seen data/debian > results/debian_recipe-families.tsv

A family consists of the packages built from one source package and from all source packages that share a text with it
or have the same name except for digits. etads-debian keeps each family in one split. Each line of the output describes
a test pair: the name of its family, a tab, and the split of the sample corpus that contains the pair, or "-". Length
limits and blocked n-grams were chosen on the sample, so its validation and test pairs are not regarded as unseen. With
--seen DIR, a pair is marked "seen" if its family has a validation or test pair in the corpus DIR or in the sample.
"""

import argparse
from pathlib import Path
from typing import Dict, List

from etads_preprocess.debian import SAMPLE
from etads_preprocess.debian_splits import DescriptionPair, group_related_pairs

from fairseq_etads.text.files import open_binary
from fairseq_etads.text.json_files import SPLITS


def read_text_lines(path: Path) -> List[str]:
    """Read the lines of a text file, which may be compressed."""
    with open_binary(path) as file:
        return file.read().decode("utf-8").split("\n")[:-1]


def read_pairs(folder: Path, split: str, suffix: str = "") -> List[DescriptionPair]:
    """Read the pairs of a split, with the names of their packages and source packages."""
    names, texts, targets = (
        read_text_lines(folder / f"{split}.{kind}{suffix}") for kind in ("package", "source", "target")
    )
    pairs = zip((name.split("\t") for name in names), texts, targets)
    return [DescriptionPair(name, source, (text,), target) for (name, source), text, target in pairs]


def main() -> None:
    """Print one line for each test pair."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="output folder of etads-debian")
    parser.add_argument(
        "--seen", type=Path, metavar="DIR", help="folder that etads-debian wrote for a previously used corpus"
    )
    args = parser.parse_args()
    pairs, seen = read_pairs(args.corpus, "test"), []
    if args.seen:
        for split in ("valid", "test"):
            seen += [*read_pairs(args.seen, split), *read_pairs(SAMPLE, split, ".xz")]
    family = {pair.package: name for name, group in group_related_pairs([*pairs, *seen]).items() for pair in group}
    mark: Dict[str, str] = {}
    for split in SPLITS:
        mark.update({line.split("\t")[0]: split for line in read_text_lines(SAMPLE / f"{split}.package.xz")})
    seen_families = {family[pair.package] for pair in seen}
    mark.update({pair.package: "seen" for pair in pairs if family[pair.package] in seen_families})
    for pair in pairs:
        print(family[pair.package], mark.get(pair.package, "-"), sep="\t")


if __name__ == "__main__":
    main()
