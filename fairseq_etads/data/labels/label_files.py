"""Read and write label and probability files, which can only be used with the data for which they were created.

    labels.words.SPLIT             written by etads-labels --kind words
    labels.sentences.SPLIT         written by etads-labels --kind match, extract or distribution
    probabilities.words.SPLIT, probabilities.sentences.SPLIT        written by etads-select

The first line is a comment with a JSON object that describes how the file was created, with the numbers of "documents"
and of tokens that were read from each ("truncate_source"). Each of the other lines belongs to one document. It contains
the first 16 hexadecimal digits of the document's hash, a tab, and fields that are separated by spaces:

    words           a label or probability for each token, or "-" for a sentence mark
    sentences       labels: one field for each summary sentence (for "extract": for each extracted sentence). The field
                    is the index of a document sentence. For "distribution", the field consists of pairs such as
                    0:0.25,3:0.75, or is "-" if there are no pairs.
                    probabilities: a probability for each document sentence, or "-" if the sentence has no words
"""

import hashlib
import json
import mmap
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np

from ...files.inputs import report_damage
from ...files.outputs import open_output
from ...platform.errors import InputError

UNITS = ("words", "sentences")
NOTHING = "-"


def compute_source_hash(tokens: Sequence[str]) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 hash of a document's tokens, joined with spaces."""
    return hashlib.sha256(" ".join(tokens).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def make_label_file_name(what: str, unit: str, split: str) -> str:
    """Return the name of a file with ``what``, "labels" or "probabilities", of a unit in UNITS, such as "words"."""
    return f"{what}.{unit}.{split}"


def write_label_rows(path: Path, header: Dict[str, Any], rows: Iterable[Tuple[str, Sequence[str]]]) -> None:
    """Write labels or probabilities: ``header`` as JSON in the first line, then each document's hash and fields."""
    with open_output(path) as file:
        file.write(f"# {json.dumps(header)}\n")
        for digest, fields in rows:
            file.write(f"{digest}\t{' '.join(fields)}\n")


class SelectionFile:
    """File with labels or probabilities of this number of ``documents``, if given. Its lines are read on demand.

    Raises InputError, which names ``option``, if the file is missing, damaged or incomplete, or covers others.
    """

    def __init__(self, path: Path, option: str, documents: Optional[int] = None):
        self.path = path
        self._map: Optional[mmap.mmap] = None
        with report_damage(path, f"{_name_creating_command(path.name)} creates it", f"{option}: "):
            with open(path, "rb") as file:
                first = file.readline()
                if not first.startswith(b"# "):
                    raise ValueError("its first line is not a comment")
                self.header: Dict[str, Any] = json.loads(first[2:])  # the JSON object in the first line
                starts = [len(first)]
                for line in file:
                    starts.append(starts[-1] + len(line))
            if int(self.header["documents"]) != len(starts) - 1 or (len(starts) > 1 and line[-1:] != b"\n"):
                raise ValueError(f"it has {len(starts) - 1:,} lines instead of {self.header['documents']:,}")
        self._starts = np.array(starts)
        if documents is not None and len(self) != documents:
            raise InputError(f"{option}: {path} covers {len(self):,} documents, but DATA has {documents:,}")

    def __len__(self) -> int:
        return len(self._starts) - 1

    def check_kind(self, option: str, kind: Optional[str] = None) -> None:
        """Raise InputError if the labels are not of a ``kind`` of etads-labels or, without one, are distributions."""
        found = self.header.get("kind")
        if found == "distribution" if kind is None else found != kind:
            raise InputError(
                f"{option}: {self.path} contains labels of the kind {found}; create it with etads-labels --kind "
                f"{kind or 'extract or match'}"
            )

    def __getstate__(self) -> Dict[str, Any]:
        """Return the state for pickling, without the memory map, which cannot be pickled."""
        return {**vars(self), "_map": None}

    def read_row(self, number: int, tokens: Optional[Sequence[str]] = None) -> List[str]:
        """Return the fields of the document with index ``number``.

        Raises InputError if its line has no tab or, given its ``tokens``, if the file was created for other documents.
        """
        if self._map is None:
            with open(self.path, "rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        line = self._map[self._starts[number] : self._starts[number + 1]].decode("utf-8", "replace")
        digest, tab, rest = line.rstrip("\n").partition("\t")
        if not tab:
            raise InputError(f"{self.path}, line {number + 2}: no tab found")
        if tokens is not None and digest != compute_source_hash(tokens):
            raise InputError(
                f"{self.path}, line {number + 2}: does not match document {number} (from 0) of the data, so the order "
                f"or text of documents differs; create the file again with {_name_creating_command(self.path.name)}"
            )
        return rest.split()

    def read_probabilities(self, number: int, tokens: Optional[Sequence[str]] = None) -> List[Optional[float]]:
        """Return the probabilities of a document's words or sentences, with None for those that have none.

        Raises InputError if the file was created for other documents than ``tokens``, or a field is not a number.
        """
        fields = self.read_row(number, tokens)
        try:
            return [None if field == NOTHING else float(field) for field in fields]
        except ValueError as error:
            raise InputError(f"{self.path}, line {number + 2}: {error}") from None


def _name_creating_command(name: str) -> str:
    return "etads-labels" if name.startswith("labels.") else "etads-select"
