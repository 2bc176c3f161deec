"""A shortlist: the few words that a document's summary may need, so that a search does not look at all of them.

As in machine translation (Jean et al. 2015, section 3.2; Devlin 2017, section 4), they are

- the special symbols and the words that are most frequent in summaries,
- the document's own words, as far as the model knows them,
- for each word of the document those that summaries of documents with this word most often have.

A table, which ``etads-shortlist`` makes, holds the first and the last. Its file is in the format safetensors: numbers
and texts, and nothing that could run. "frequent" (F,) and "together" (V_s, k) are ids of summary words, int32; -1 fills
rows of "together" with fewer than k; its row number is the id of the document's word.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Optional, Sequence

import numpy as np
import torch
from torch import Tensor

from ..text.checksums import Checksums
from ..text.files import InputError
from .candidates import Candidates
from .dictionary import fingerprint, known_words

FORMAT = "fairseq-etads shortlist 1"
"""Changed when older versions would misread a file."""
ADVICE = "Make it again with etads-shortlist"


class ListedCandidates(Candidates):
    """The candidates of a batch of B texts, each of which has a list of its own.

    Args:
        listed: (B, V) bool, which words are on each text's list; special symbols are on all. unk: the unknown word.
    """

    def __init__(self, listed: Tensor, unk: int):
        self.known_words, self.unk = listed.size(1), unk
        self.words = listed.any(dim=0).nonzero().flatten()
        allowed = listed[:, self.words]  # (B, C)
        self.allowed = None if bool(allowed.all()) else allowed


@dataclass(frozen=True, eq=False)
class Shortlist:
    """The table of a file, for one pair of dictionaries. V_s and V are the known words of documents and summaries.

    Attributes:
        frequent: (F,), int64, ids of the most frequent words of summaries.
        together: (V_s + 1, k), int64, for each word of documents the words of summaries that go with it; the unknown
            word's id fills shorter rows, and the last one, which stands for all other words.
        own: (V_s + 1,), int64, the same words' ids in summaries; the unknown word's where there is none.
        known_words: V. specials: special symbols, the smallest ids. unk: the unknown word's id.
    """

    frequent: Tensor
    together: Tensor
    own: Tensor
    known_words: int
    specials: int
    unk: int

    def candidates(
        self, src_tokens: Tensor, least: int, extra: Optional[Tensor] = None, always: Sequence[int] = ()
    ) -> Candidates:
        """The words of documents (B, S).

        Args:
            src_tokens: ids of the documents' dictionary. least: fewest words of a list, if there are as many.
            extra: (B, n), ids of further words of each document's summary. always: of all summaries; ids from V on, the
                copy tail, are skipped in both.
        """
        tokens = src_tokens.cpu()
        # the last column takes what the summaries do not know
        listed = torch.zeros(len(tokens), self.known_words + 1, dtype=torch.bool)  # (B, V + 1)
        listed[:, : max(self.specials, least)] = True
        listed[:, self.frequent] = True
        listed[:, torch.tensor(always, dtype=torch.long).clamp(max=self.known_words)] = True
        words = tokens.clamp(max=len(self.own) - 1)
        listed.scatter_(1, self.own[words], True)
        listed.scatter_(1, self.together[words].flatten(1), True)
        if extra is not None:
            listed.scatter_(1, extra.cpu().clamp(max=self.known_words), True)
        return ListedCandidates(listed[:, : self.known_words].to(src_tokens.device), self.unk)

    @classmethod
    def of(cls, frequent: np.ndarray, together: np.ndarray, source: Any, target: Any) -> "Shortlist":
        """From the arrays of a file (see the module) and the two dictionaries."""
        unk, known = target.unk(), known_words(target)
        own = torch.full((len(together) + 1,), unk)
        for number, word in enumerate(source.symbols[: len(together)]):
            found = target.indices.get(word, known)
            own[number] = found if found < known else unk
        rows = np.vstack([together, np.full((1, together.shape[1]), -1, dtype=together.dtype)])
        table = torch.from_numpy(rows).long()
        table[: source.nspecial] = unk  # nothing goes with padding, which depends on the batch
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
    """Write a file, listed in the folder's SHA256SUMS if it has one.

    Args:
        frequent: (F,) and together: (V_s, k), int32, see the module. source, target: the dictionaries.
        made_from: what the file says about its origin.
    """
    from safetensors.numpy import save

    about = {
        "format": FORMAT,
        "source_dictionary": fingerprint(source),
        "target_dictionary": fingerprint(target),
        "made_from": json.dumps(made_from),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    checksums = Checksums(path.parent, ADVICE)
    checksums.forget(path.name)
    partial = path.with_name(f"{path.name}.partial")
    try:
        partial.write_bytes(save({"frequent": frequent, "together": together}, metadata=about))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    if checksums.listed:
        checksums.add(path.name)


def read_shortlist(path: Path, source: Any, target: Any, option: str = "--shortlist") -> Shortlist:
    """The table of a file.

    Args:
        source, target: the dictionaries of documents and summaries. option: that named the file, for messages.

    Raises:
        InputError: there is no such file, it is damaged, or it is about other dictionaries.
    """
    from safetensors import SafetensorError, safe_open

    where = f"{option} {path}"
    if not path.is_file():
        raise InputError(f"{where}: there is no such file; etads-shortlist makes it")
    Checksums(path.parent, ADVICE).verify([path.name])
    try:
        with safe_open(str(path), framework="numpy") as file:
            about = file.metadata() or {}
            names = set(file.keys())
            arrays = {name: file.get_tensor(name) for name in names & {"frequent", "together"}}
    except (SafetensorError, OSError, ValueError, TypeError, RuntimeError, OverflowError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{where} is damaged, or no shortlist ({reason}). {ADVICE}") from None
    if about.get("format") != FORMAT:
        raise InputError(f'{where} is no shortlist of this version ("format": {about.get("format")!r}). {ADVICE}')
    for side, dictionary in (("source", source), ("target", target)):
        made, found = about.get(f"{side}_dictionary"), fingerprint(dictionary)
        if made != found:
            raise InputError(
                f"{where} was made with another {side} dictionary (fingerprint {made}) than the model's ({found}): "
                "make one of the data with which the model was trained"
            )
    problem = _problem(arrays, known_words(source), known_words(target))
    if problem:
        raise InputError(f"{where} is damaged: {problem}. {ADVICE}")
    return Shortlist.of(arrays["frequent"], arrays["together"], source, target)


def _problem(arrays: Dict[str, np.ndarray], source_words: int, target_words: int) -> str:
    """What is wrong with the arrays of a file; empty if nothing."""
    for name, dimensions, least in (("frequent", 1, 0), ("together", 2, -1)):
        array = arrays.get(name)
        if array is None or array.dtype != np.int32 or array.ndim != dimensions:
            return f"it has no {name!r}, or not as 32-bit integers in {dimensions} dimension(s)"
        if array.size and not (least <= array.min() and array.max() < target_words):
            return f"{name!r} has an id that is none of the {target_words:,} words of summaries"
    if len(arrays["together"]) != source_words:
        return f"'together' has {len(arrays['together']):,} rows for {source_words:,} words of documents"
    return ""
