#!/usr/bin/env python3
"""Number the families of test documents in a Debian corpus, and mark documents that also occur in the sample corpus.

    python scripts/debian_families.py data/debian > results/debian-families.tsv

A family consists of the packages of one source package and of all source packages that share a text or
(except for digits) a name with it. etads-debian keeps each family in one split. Each line of the output describes a
test pair: the name of its family, a tab, and the split of the sample corpus that contains the pair, or "-". Length
limits and blocked n-grams were chosen on the sample, so its validation and test pairs are not regarded as unseen.
"""

import argparse
import lzma
from pathlib import Path
from typing import Dict, List

from etads_preprocess.debian import SAMPLE
from etads_preprocess.debian_splits import Pair, group_pairs

from fairseq_etads.text.atomic import SPLITS


def lines(path: Path) -> List[str]:
    """Read the lines of a text file."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def main() -> None:
    """Print one line for each test pair."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="output folder of etads-debian")
    corpus = parser.parse_args().corpus
    names = [line.split("\t") for line in lines(corpus / "test.package")]
    texts = zip(lines(corpus / "test.source"), lines(corpus / "test.target"))
    pairs = [Pair(name, source, (text,), target) for (name, source), (text, target) in zip(names, texts)]
    family = {pair.package: name for name, group in group_pairs(pairs).items() for pair in group}
    in_sample: Dict[str, str] = {}
    for split in SPLITS:
        with lzma.open(SAMPLE / f"{split}.package.xz", "rt", encoding="utf-8") as file:
            in_sample.update({line.split("\t")[0]: split for line in file})
    for pair in pairs:
        print(family[pair.package], in_sample.get(pair.package, "-"), sep="\t")


if __name__ == "__main__":
    main()
