"""Count repeated documents and find near-duplicate documents within a split or across splits.

The similarity between two documents is the Jaccard similarity of their sets of SHINGLE consecutive words, lower-cased
and without punctuation. MinHash (Broder 1997) estimates it from PERMUTATIONS hash values per document, with a standard
error of at most 0.044. Locality-sensitive hashing determines which documents are compared, so that time and memory (10
KB per document) are proportional to the number of documents.
"""

import hashlib
import itertools
from importlib import metadata
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import numpy as np
from tqdm import tqdm

from fairseq_etads.files.inputs import read_lines
from fairseq_etads.files.outputs import open_output
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.words import SENTENCE_MARK, find_words

from .encode import map_in_order

DEFAULT_SIMILARITY = 0.8
SHINGLE = 5
"""Number of words in a sequence (shingle).

With fewer, different texts about a subject would be similar; with more, a changed word would reduce similarity more.
"""
PERMUTATIONS = 128
LIST = "near-duplicates.tsv"
FOUND_SHARE = 0.99
"""Minimum probability of comparing two documents if their similarity equals the value of --near-duplicates."""
EXAMPLES, QUOTED = 5, 120
"""Number of the most similar pairs that report.json quotes, and of characters that are quoted from each document."""


def _hash_line(line: str) -> int:
    return int.from_bytes(hashlib.blake2b(line.encode(), digest_size=8).digest(), "little")


def count_repeated_documents(text: Path, splits: Sequence[str], repeated: bool = False) -> Dict[str, Dict[str, int]]:
    """For each split, count the documents that have already occurred in the same split or in an earlier split.

    Documents are compared by 8-byte hashes of their lines in TEXT/SPLIT.source. Empty lines are ignored. If training
    documents are ``repeated`` for each of their summaries, equal consecutive lines are one document.
    """
    found: Dict[str, Dict[str, int]] = {}
    known: Dict[str, np.ndarray] = {}
    for split in splits:
        lines = read_lines(text / f"{split}.source")
        if repeated and split == "train":
            lines = (line for line, _ in itertools.groupby(lines))
        hashes = np.fromiter(map(_hash_line, filter(None, lines)), dtype=np.uint64)
        known[split] = np.unique(hashes)
        found[split] = {"duplicates": len(hashes) - len(known[split])}
        for other in splits[: splits.index(split)]:
            found[split][f"also in {other}"] = int(np.isin(hashes, known[other]).sum())
    return found


def check_datasketch() -> None:
    """Raise InputError if datasketch is not installed. Call this function before any work is done."""
    try:
        import datasketch  # noqa: F401
    except ImportError:
        raise InputError("--near-duplicates: datasketch is missing: pip install datasketch") from None


def make_shingles(line: str) -> Set[str]:
    """Return all sequences of SHINGLE consecutive words in a document, or a single one of all its words if fewer."""
    words = find_words(line.replace(SENTENCE_MARK, " "))
    return {" ".join(words[start : start + SHINGLE]) for start in range(max(len(words) - SHINGLE + 1, bool(words)))}


def _make_sketcher() -> Callable[[str], Optional[np.ndarray]]:
    """Return a function that computes a document's MinHash signature, (PERMUTATIONS,), or None without words."""
    from datasketch import MinHash

    def compute_signature(line: str) -> Optional[np.ndarray]:
        sketch, shingles = MinHash(num_perm=PERMUTATIONS, seed=1), sorted(make_shingles(line))
        sketch.update_batch([shingle.encode() for shingle in shingles])
        return sketch.hashvalues if shingles else None

    return compute_signature


def choose_lsh_bands(similarity: float) -> Tuple[int, int]:
    """Return the numbers of bands and of hash values in each, the most that find FOUND_SHARE of pairs so similar."""
    for size in range(PERMUTATIONS, 1, -1):
        count = PERMUTATIONS // size
        if count > 1 and 1 - (1 - similarity**size) ** count >= FOUND_SHARE:
            return count, size
    return PERMUTATIONS // 2, 2


class _DuplicateIndex:
    """Index for finding near-duplicates. Of several near-duplicates in a split, only the first one is indexed."""

    def __init__(self, similarity: float):
        from datasketch import MinHash, MinHashLSH

        self._sketch, self.similarity = MinHash, similarity
        self._table = MinHashLSH(num_perm=PERMUTATIONS, params=choose_lsh_bands(similarity))
        self._documents: List[Tuple[np.ndarray, str, int]] = []

    def add(self, split: str, line: int, signature: np.ndarray) -> Dict[str, Tuple[float, int]]:
        """Add a document. Return the similarity and the line of its most similar document, for each split with one."""
        sketch = self._sketch(num_perm=PERMUTATIONS, seed=1)
        sketch.hashvalues = signature
        found: Dict[str, Tuple[float, int]] = {}
        for key in sorted(self._table.query(sketch)):
            other_signature, other, place = self._documents[key]
            similarity = float((other_signature == signature).mean())
            if similarity >= self.similarity and similarity > found.get(other, (0.0, 0))[0]:
                found[other] = similarity, place
        if split not in found:
            self._table.insert(len(self._documents), sketch, check_duplication=False)
            self._documents.append((signature, split, line))
        return found


def _iterate_distinct_documents(text: Path, splits: Sequence[str]) -> Iterator[Tuple[str, int, str]]:
    """Yield the split, line number and text of each document, except empty documents and exact duplicates."""
    known: Set[int] = set()
    for split in splits:
        for number, line in enumerate(read_lines(text / f"{split}.source"), 1):
            digest = _hash_line(line)
            if line and digest not in known:
                known.add(digest)
                yield split, number, line


def find_near_duplicates(text: Path, splits: Sequence[str], similarity: float, jobs: int) -> Dict[str, Any]:
    """Compare all documents in the files TEXT/SPLIT.source, and write a list of near-duplicates to TEXT/LIST.

    Of identical documents, only the first one is compared. Returns the section of report.json: settings, examples and
    the numbers of near-duplicates of earlier documents in the same split ("within") or another ("also in train").
    """
    index = _DuplicateIndex(similarity)
    counts = {split: {"within": 0} for split in splits}
    for other, split in itertools.combinations(splits, 2):
        counts[split][f"also in {other}"] = 0
    examples: List[Tuple[float, str, int, str, int]] = []
    documents = _iterate_distinct_documents(text, splits)
    lines = (line for _, _, line in _iterate_distinct_documents(text, splits))
    signatures = map_in_order(_make_sketcher, (), lines, jobs, ("datasketch",))
    with open_output(text / LIST) as file:
        file.write("split\tline\tsplit of the other\tline of the other\tsimilarity\n")
        compared = tqdm(zip(documents, signatures), desc="near-duplicates", unit=" documents", disable=None)
        for (split, number, _), signature in compared:
            for other, (value, place) in ({} if signature is None else index.add(split, number, signature)).items():
                counts[split]["within" if other == split else f"also in {other}"] += 1
                file.write(f"{split}\t{number}\t{other}\t{place}\t{value:.2f}\n")
                examples = sorted([*examples, (-value, split, number, other, place)])[:EXAMPLES]
    quoted = []
    for value, split, number, other, place in examples:
        found = (f"{split}.source", number), (f"{other}.source", place)
        texts = [next(itertools.islice(read_lines(text / name), line - 1, None)) for name, line in found]
        # The quotation starts shortly before the first difference.
        same = sum(1 for _ in itertools.takewhile(lambda pair: len({*pair}) == 1, zip(*texts)))
        start = max(same - QUOTED // 2, 0)
        texts = [f"{'…' * bool(start)}{line[start : start + QUOTED]}" for line in texts]
        where = [f"{name}, line {line}" for name, line in found]
        quoted.append({"similarity": round(-value, 2), "where": where, "text": texts})
    made = f"minhash:{PERMUTATIONS}|datasketch-{metadata.version('datasketch')}"
    signature = f"NEAR-DUPLICATES|jaccard>={similarity:g}|words:{SHINGLE}|{made}"
    return {"signature": signature, "splits": counts, "examples": quoted}


def summarise_near_duplicates(report: Dict[str, Any]) -> Iterator[str]:
    """Summarise the report in a few lines of text for the terminal."""
    yield f"near-duplicates, by {report['signature']}; all are listed in {LIST}:"
    for split, counts in report["splits"].items():
        yield f"  {split}: " + ", ".join(f"{number:,} {where}" for where, number in counts.items())
    for example in report["examples"]:
        yield f"  similarity {example['similarity']:.2f}: {' and '.join(example['where'])}"
        yield from (f"    {quoted}" for quoted in example["text"])
