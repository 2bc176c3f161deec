"""Count repeated documents and find near-duplicate documents within a split or across splits.

Near-duplicates are found with MinHash from the datasketch package. Each document is represented by the set of all
sequences of SHINGLE consecutive words, lower-cased and without punctuation. The similarity between two documents is the
Jaccard similarity of these sets, i.e. the number of sequences that occur in both documents, divided by the number of
sequences that occur in at least one of them. MinHash (Broder 1997) estimates the similarity from PERMUTATIONS hash
values per document, with a standard error of at most 0.044. Locality-sensitive hashing determines which documents are
compared, so that time and memory are proportional to the number of documents. Each document requires about 10 KB.
"""

import argparse
import hashlib
import math
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import numpy as np
from tqdm import tqdm

from fairseq_etads.platform.errors import InputError
from fairseq_etads.platform.outputs import open_output
from fairseq_etads.text.counted_words import find_words
from fairseq_etads.text.files import read_lines
from fairseq_etads.text.words import SENTENCE_MARK

from .processes import map_in_order

DEFAULT_SIMILARITY = 0.8
SHINGLE = 5
"""Number of words in a sequence (shingle).

With shorter sequences, different texts about the same subject would be similar. With longer sequences, changing a
single word would reduce the similarity more.
"""
PERMUTATIONS = 128
LIST = "near-duplicates.tsv"
FOUND_SHARE = 0.99
"""Minimum probability of comparing two documents if their similarity equals the value of --near-duplicates."""
EXAMPLES = 5
"""Number of pairs that report.json quotes, starting with the most similar pair."""
QUOTED = 120
"""Number of characters that are quoted from each document."""


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


def parse_similarity(text: str) -> float:
    """Parse the value of the option --near-duplicates."""
    try:
        similarity = float(text)
    except ValueError:
        similarity = math.nan
    if not 0.1 <= similarity <= 1:
        raise argparse.ArgumentTypeError(f"{text}: choose a similarity from 0.1 to 1, such as {DEFAULT_SIMILARITY}")
    return similarity


def check_datasketch() -> None:
    """Raise InputError if datasketch is not installed. Call this function before any work is done."""
    try:
        import datasketch  # noqa: F401
    except ImportError:
        raise InputError("--near-duplicates: datasketch is missing: pip install datasketch") from None


def make_shingles(line: str) -> Set[str]:
    """Return the set of all sequences of SHINGLE consecutive words in a document.

    If the document has fewer than SHINGLE words, all words form a single sequence. The set is empty if the document
    contains no words.
    """
    words = find_words(line.replace(SENTENCE_MARK, " "))
    return {" ".join(words[start : start + SHINGLE]) for start in range(max(len(words) - SHINGLE + 1, bool(words)))}


def _compute_signatures(lines: List[str]) -> List[Optional[np.ndarray]]:
    """Compute the MinHash signature of each document, shape (PERMUTATIONS,), or None for documents without words."""
    from datasketch import MinHash

    made: List[Optional[np.ndarray]] = []
    for line in lines:
        runs = sorted(make_shingles(line))
        sketch = MinHash(num_perm=PERMUTATIONS, seed=1)
        sketch.update_batch([run.encode() for run in runs])
        made.append(sketch.hashvalues if runs else None)
    return made


def _skip_worker_setup() -> None:
    """Do nothing. Each worker process calls this function when it starts."""


def choose_lsh_bands(similarity: float) -> Tuple[int, int]:
    """Compute the number of bands into which signatures are divided, and the number of hash values in a band.

    Two documents are compared if their signatures agree in at least one band. The bands are as long as possible under
    the condition that at least a fraction FOUND_SHARE of the document pairs with this similarity are compared.
    """
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
        self._signatures: List[np.ndarray] = []
        self._places: List[Tuple[str, int]] = []

    def add(self, split: str, line: int, signature: np.ndarray) -> Dict[str, Tuple[float, int]]:
        """Add a document to the index.

        Returns:
            A dictionary with an entry for each split that already contains a similar document. It maps the name of the
            split to the similarity and the line number of the most similar document.
        """
        sketch = self._sketch(num_perm=PERMUTATIONS, seed=1)
        sketch.hashvalues = signature
        found: Dict[str, Tuple[float, int]] = {}
        for key in sorted(self._table.query(sketch)):
            other, place = self._places[key]
            similarity = float((self._signatures[key] == signature).mean())
            if similarity >= self.similarity and similarity > found.get(other, (0.0, 0))[0]:
                found[other] = similarity, place
        if split not in found:
            self._table.insert(len(self._places), sketch, check_duplication=False)
            self._signatures.append(signature)
            self._places.append((split, line))
        return found


def _iterate_distinct_documents(text: Path, splits: Sequence[str]) -> Iterator[Tuple[str, int, str]]:
    """Yield the split, line number and text of each document, except empty documents and exact duplicates."""
    known: Set[bytes] = set()
    for split in splits:
        for number, line in enumerate(read_lines(text / f"{split}.source"), 1):
            digest = hashlib.blake2b(line.encode(), digest_size=8).digest()
            if line and digest not in known:
                known.add(digest)
                yield split, number, line


def find_near_duplicates(text: Path, splits: Sequence[str], similarity: float, jobs: int) -> Dict[str, Any]:
    """Compare all documents in the files TEXT/SPLIT.source, and write a list of near-duplicates to TEXT/LIST.

    Among identical documents, only the first one is compared. Identical documents are counted by
    :func:`count_repeated_documents`.

    Returns:
        The section of report.json about near-duplicates. It contains the settings and examples. For each split, it also
        contains the number of documents that are near-duplicates of an earlier document in the same split ("within") or
        of a document in an earlier split ("also in train").
    """
    index = _DuplicateIndex(similarity)
    counts: Dict[str, Dict[str, int]] = {
        split: {"within": 0, **{f"also in {other}": 0 for other in splits[:place]}}
        for place, split in enumerate(splits)
    }
    examples: List[Tuple[float, str, int, str, int]] = []
    signatures = map_in_order(
        _compute_signatures,
        (line for _, _, line in _iterate_distinct_documents(text, splits)),
        jobs,
        _skip_worker_setup,
        (),
        ("datasketch",),
    )
    with open_output(text / LIST) as file:
        file.write("split\tline\tsplit of the other\tline of the other\tsimilarity\n")
        shown = tqdm(
            zip(_iterate_distinct_documents(text, splits), signatures),
            desc="near-duplicates",
            unit=" documents",
            disable=None,
        )
        for (split, number, _), signature in shown:
            for other, (value, place) in ({} if signature is None else index.add(split, number, signature)).items():
                counts[split]["within" if other == split else f"also in {other}"] += 1
                file.write(f"{split}\t{number}\t{other}\t{place}\t{value:.2f}\n")
                examples = sorted([*examples, (-value, split, number, other, place)])[:EXAMPLES]
    made = f"minhash:{PERMUTATIONS}|datasketch-{metadata.version('datasketch')}"
    return {
        "signature": f"NEAR-DUPLICATES|jaccard>={similarity:g}|words:{SHINGLE}|{made}",
        "splits": counts,
        "examples": [_describe_duplicate_pair(text, *example) for example in examples],
    }


def _describe_duplicate_pair(
    text: Path, value: float, split: str, number: int, other: str, place: int
) -> Dict[str, Any]:
    """Describe a pair of near-duplicates, and quote both documents. ``value`` is the negative similarity."""
    first, second = (_read_line(text / f"{name}.source", line) for name, line in ((split, number), (other, place)))
    same = next((i for i, (a, b) in enumerate(zip(first, second)) if a != b), min(len(first), len(second)))
    start = max(same - QUOTED // 2, 0)  # the quotation starts shortly before the first difference
    quoted = [f"{'…' * bool(start)}{line[start : start + QUOTED]}" for line in (first, second)]
    places = [f"{name}.source, line {line}" for name, line in ((split, number), (other, place))]
    return {"similarity": round(-value, 2), "where": places, "text": quoted}


def _read_line(path: Path, number: int) -> str:
    return next(line for at, line in enumerate(read_lines(path), 1) if at == number)


def summarise_near_duplicates(report: Dict[str, Any]) -> Iterator[str]:
    """Summarise the report in a few lines of text for the terminal."""
    yield f"near-duplicates, by {report['signature']}; all are listed in {LIST}:"
    for split, counts in report["splits"].items():
        yield f"  {split}: " + ", ".join(f"{number:,} {where}" for where, number in counts.items())
    for example in report["examples"]:
        yield f"  similarity {example['similarity']:.2f}: {' and '.join(example['where'])}"
        yield from (f"    {quoted}" for quoted in example["text"])
