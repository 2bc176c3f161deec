"""Read and write shortlist files (see :mod:`fairseq_etads.vocabulary.shortlist`).

The files use the safetensors format, so they contain numbers and metadata but no executable code. The int32 arrays
"frequent" (F,) and "together" (V_s, k) contain target vocabulary ids. Row i of "together" belongs to the source word
with id i. Rows with fewer than k words are padded with -1. The metadata contain the format, the fingerprints of both
dictionaries, and a description of how the table was created. A file can only be used with the dictionaries for which it
was created.
"""

import json
from pathlib import Path
from typing import Any, Dict

import numpy as np

from ..platform.errors import InputError
from ..platform.outputs import open_binary_output
from ..text.checksums import Checksums
from ..vocabulary.dictionary import compute_fingerprint, count_known_words
from ..vocabulary.shortlist import Shortlist

FORMAT = "fairseq-etads shortlist 1"
"""Name of the file format. It changes whenever older versions can no longer read new files correctly."""
ADVICE = "Create it again with etads-shortlist"


def write_shortlist(
    path: Path, frequent: np.ndarray, together: np.ndarray, source: Any, target: Any, made_from: Dict[str, Any]
) -> None:
    """Write a shortlist to a file. If the folder contains a file SHA256SUMS, add the checksum of the shortlist to it.

    Args:
        frequent, together: int32 arrays of target vocabulary ids, shapes (F,) and (V_s, k); see the module docstring.
        source, target: source and target dictionaries.
        made_from: description of how the shortlist was created, which is stored in the metadata.
    """
    from safetensors.numpy import save

    about = {
        "format": FORMAT,
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

    Args:
        source, target: source and target dictionaries. Their fingerprints must match the fingerprints in the file.
        option: name of the option that specifies the file, for error messages.

    Raises:
        InputError: the file is missing or damaged, or was created with other dictionaries.
    """
    from safetensors import SafetensorError, safe_open

    where = f"{option} {path}"
    if not path.is_file():
        raise InputError(f"{where}: no such file; etads-shortlist creates it")
    Checksums(path.parent, ADVICE).verify([path.name])
    try:
        with safe_open(str(path), framework="numpy") as file:
            about = file.metadata() or {}
            names = set(file.keys())
            arrays = {name: file.get_tensor(name) for name in names & {"frequent", "together"}}
    except (SafetensorError, OSError, ValueError, TypeError, RuntimeError, OverflowError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{where} is damaged, or not a shortlist ({reason}). {ADVICE}") from None
    if about.get("format") != FORMAT:
        raise InputError(f'{where} is not a shortlist of this version ("format": {about.get("format")!r}). {ADVICE}')
    for side, dictionary in (("source", source), ("target", target)):
        made, found = about.get(f"{side}_dictionary"), compute_fingerprint(dictionary)
        if made != found:
            raise InputError(
                f"{where} was created with a different {side} dictionary (fingerprint {made}) from the model's "
                f"({found}): create a shortlist from the model's training data"
            )
    problem = _find_array_error(arrays, count_known_words(source), count_known_words(target))
    if problem:
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
