"""Shortlists of the words that the summary of a document may need, so that a search does not consider all words.

As in machine translation (Jean et al. 2015, section 3.2; Devlin 2017, section 4), the shortlist of a document contains

- the special symbols and the most frequent words in summaries,
- the words of the document that are known words of the target dictionary,
- for each word of the document, the most frequent words in summaries of documents that contain this word.

``etads-shortlist`` stores the first and the third group in a table. The file uses the safetensors format, so it
contains numbers and metadata but no executable code: the int32 arrays "frequent" (F,) and "together" (V_s, k) of ids in
the target dictionary, the format, the fingerprints of both dictionaries, and how the table was created.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Optional, Sequence

import numpy as np
import torch
from torch import Tensor

from ..files.checksums import Checksums
from ..files.inputs import check_format, name_format, report_damage
from ..files.outputs import open_binary_output
from ..platform.errors import InputError
from .dictionary import compute_fingerprint, count_known_words
from .output import CandidateWords

KIND, VERSION = "shortlist", 1
"""Kind of files, and version of their format, which changes whenever older versions cannot read new files."""
ADVICE = "Create it again with etads-shortlist"


class PerTextCandidateWords(CandidateWords):
    """The candidates of a batch of B texts, each with the words of its row in ``listed`` (B, V), a boolean mask."""

    def __init__(self, listed: Tensor, unk: int):
        self.known_words, self.unk = listed.size(1), unk
        self.words = listed.any(dim=0).nonzero().flatten()
        allowed = listed[:, self.words]  # (B, C)
        self.allowed = None if bool(allowed.all()) else allowed


@dataclass(frozen=True, eq=False)
class Shortlist:
    """The shortlist table for a source dictionary with V_s known words and a target dictionary with V known words.

    The last rows of ``together`` and ``own`` represent all unknown document words. Rows of ``together`` are padded with
    the id of the unknown word, the only id in its last row.
    """

    frequent: Tensor  # the ids of the F most frequent words in summaries (F,), int64
    together: Tensor  # the ids of the summary words that are associated with each document word (V_s + 1, k), int64
    own: Tensor  # the id of each document word in the target dictionary, or of the unknown word (V_s + 1,), int64
    known_words: int  # V, the number of known words in the target dictionary
    specials: int  # the number of special symbols, which have the smallest ids
    unk: int  # the id of the unknown word

    def choose_candidates(
        self, src_tokens: Tensor, least: int, extra: Optional[Tensor] = None, always: Sequence[int] = ()
    ) -> CandidateWords:
        """Choose the candidates for the summaries of documents, given their ids in the source dictionary (B, S).

        Each list has ``least`` words, if there are enough. Additional words are ``always`` for all summaries and
        ``extra`` (B, n) for each; ids in the copy tail are ignored.
        """
        tokens = src_tokens.cpu()
        # The last column collects words that are not known words of the target dictionary.
        listed = torch.zeros(len(tokens), self.known_words + 1, dtype=torch.bool)  # (B, V + 1)
        listed[:, : max(self.specials, least)] = True
        listed[:, self.frequent] = True
        listed[:, torch.tensor(always, dtype=torch.long).clamp(max=self.known_words)] = True
        words = tokens.clamp(max=len(self.own) - 1)
        listed.scatter_(1, self.own[words], True)
        listed.scatter_(1, self.together[words].flatten(1), True)
        if extra is not None:
            listed.scatter_(1, extra.cpu().clamp(max=self.known_words), True)
        return PerTextCandidateWords(listed[:, : self.known_words].to(src_tokens.device), self.unk)

    @classmethod
    def from_arrays(cls, frequent: np.ndarray, together: np.ndarray, source: Any, target: Any) -> "Shortlist":
        """Create a shortlist from the arrays in a file (see :func:`write_shortlist`) and the dictionaries."""
        unk, known = target.unk(), count_known_words(target)
        own = torch.full((len(together) + 1,), unk)
        for number, word in enumerate(source.symbols[: len(together)]):
            found = target.indices.get(word, known)
            own[number] = found if found < known else unk
        rows = np.vstack([together, np.full((1, together.shape[1]), -1, dtype=together.dtype)])
        table = torch.from_numpy(rows).long()
        table[: source.nspecial] = unk  # associate no words with special symbols, because padding depends on the batch
        return cls(
            frequent=torch.from_numpy(frequent).long(),
            together=table.masked_fill(table < 0, unk),
            own=own,
            known_words=known,
            specials=min(target.nspecial, known),
            unk=unk,
        )


def write_shortlist(
    path: Path, frequent: np.ndarray, together: np.ndarray, source: Any, target: Any, made_from: Dict[str, Any]
) -> None:
    """Write a shortlist to a file. If the folder contains a file SHA256SUMS, add the checksum of the shortlist to it.

    Args:
        frequent, together: the ids of the most frequent words in summaries (F,), and of the summary words that are
            associated with each document word (V_s, k), int32. Rows with fewer than k words are padded with -1.
        made_from: description of how the shortlist was created, which is stored in the metadata.
    """
    from safetensors.numpy import save

    about = {
        "format": name_format(KIND, VERSION),
        "source_dictionary": compute_fingerprint(source),
        "target_dictionary": compute_fingerprint(target),
        "made_from": json.dumps(made_from),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    checksums = Checksums(path.parent, ADVICE)
    checksums.forget(path.name)
    with open_binary_output(path) as file:
        file.write(save({"frequent": frequent, "together": together}, metadata=about))
    if checksums.listed:
        checksums.add(path.name)


def read_shortlist(path: Path, source: Any, target: Any, option: str = "--shortlist") -> Shortlist:
    """Read a shortlist from a file.

    Raises InputError, which names ``option``, if it is missing, damaged, or created with other dictionaries.
    """
    from safetensors import safe_open

    where = f"{option} {path}"
    if not path.is_file():
        raise InputError(f"{where}: no such file; etads-shortlist creates it")
    Checksums(path.parent, ADVICE).verify([path.name])
    with report_damage(path, ADVICE, f"{option} "), safe_open(str(path), framework="numpy") as file:
        about = file.metadata() or {}
        arrays = {name: file.get_tensor(name) for name in {*file.keys()} & {"frequent", "together"}}
    check_format(about, KIND, where, ADVICE, VERSION)
    for side, dictionary in (("source", source), ("target", target)):
        made, found = about.get(f"{side}_dictionary"), compute_fingerprint(dictionary)
        if made != found:
            raise InputError(
                f"{where} was created with a different {side} dictionary (fingerprint {made}) from the model's "
                f"({found}): create a shortlist from the model's training data"
            )
    if problem := _find_array_error(arrays, count_known_words(source), count_known_words(target)):
        raise InputError(f"{where} is damaged: {problem}. {ADVICE}")
    return Shortlist.from_arrays(arrays["frequent"], arrays["together"], source, target)


def _find_array_error(arrays: Dict[str, np.ndarray], source_words: int, target_words: int) -> str:
    """Return a description of the first error in the arrays of a file, or an empty string if the arrays are valid."""
    for name, dimensions, least in (("frequent", 1, 0), ("together", 2, -1)):
        array = arrays.get(name)
        if array is None or array.dtype != np.int32 or array.ndim != dimensions:
            return f"{name!r} is missing, or not 32-bit integers in {dimensions} dimension(s)"
        if array.size and not (least <= array.min() and array.max() < target_words):
            return f"{name!r} has an id outside the {target_words:,} words of summaries"
    if len(arrays["together"]) != source_words:
        return f"'together' has {len(arrays['together']):,} rows for {source_words:,} words of documents"
    return ""
