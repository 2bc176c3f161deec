"""Count package names and rare words in summaries of Debian descriptions, for the recipe debian_pointer.

python -m etads_preprocess.debian_names TEXT PREPARED SUMMARIES...
"""

import re
import sys
from pathlib import Path
from typing import Set

from tabulate import tabulate

from fairseq_etads.files import SIDES
from fairseq_etads.files.inputs import read_lines
from fairseq_etads.vocabulary.dictionary import SummarizationDictionary

from .debian import stem_package_name


def main(text: str, prepared: str, *summaries: str) -> None:
    """Count package names, and words that the vocabulary lacks, that summaries have copied from the documents."""
    dictionary = SummarizationDictionary.load(f"{prepared}/bin/dict.target.txt")
    known = set(dictionary.symbols[: dictionary.known_words])
    packages = [line.split("\t")[0].lower() for line in read_lines(Path(text, "test.package"))]
    references = [_split_raw(line) for line in read_lines(Path(text, "test.target"))]
    named = [{package, stem_package_name(package)} & words for package, words in zip(packages, references)]
    tokens = [Path(prepared, "tokens", f"test.{side}") for side in SIDES]
    rare = [({*summary.split()} & {*document.split()}) - known for document, summary in zip(*map(read_lines, tokens))]
    pairs, words = sum(map(bool, named)), sum(map(len, rare))
    print(f"\nnames: {pairs} of {len(named)} pairs; rare words: {words}\n")
    rows = []
    for path in summaries:
        found = [_split_raw(line) for line in read_lines(Path(path))]
        hits = sum(bool(name & summary) for name, summary in zip(named, found)) / max(1, pairs)
        kept = sum(len(unknown & summary) for unknown, summary in zip(rare, found)) / max(1, words)
        rows.append([f"`{Path(path).parent.name}`", f"{hits:.0%}", f"{kept:.0%}"])
    print(tabulate(rows, ["system", "names", "rare words"], tablefmt="github", disable_numparse=True))


def _split_raw(line: str) -> Set[str]:
    """Return the words of a raw line, which may have marks inside, such as ``libfoo2-dev``."""
    return {*re.findall(r"[\w.+-]*\w[+]*", line.lower())}


if __name__ == "__main__":
    main(*sys.argv[1:])
