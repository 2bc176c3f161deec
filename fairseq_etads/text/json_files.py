"""Read and write JSON files, compute checksums, and define suffixes for the files of a split."""

import hashlib
import json
from pathlib import Path
from typing import Any, Dict, Tuple

from ..platform.errors import InputError
from ..platform.outputs import open_output

SPLITS = ("train", "valid", "test")
SIDES = ("source", "target")
ORIGINAL = "original"
"""Suffix of the file SPLIT.source.original, which contains the documents with their original case and digits."""
ORIGIN = "origin"
"""Suffix of the file SPLIT.source.origin, which names the origin of each document with one word, such as "cnn"."""


def write_json(path: Path, content: Dict[str, Any]) -> None:
    """Write a dictionary to a JSON file.

    File names that are not valid UTF-8 are escaped, and are restored when the file is read.
    """
    with open_output(path, "backslashreplace") as file:
        json.dump(content, file, indent=2, ensure_ascii=False)
        file.write("\n")


def read_json(path: Path, advice: str) -> Dict[str, Any]:
    """Read a JSON file that contains an object.

    Args:
        advice: advice to the user that is added to the error message if the file is damaged.

    Raises:
        InputError: the file is damaged or does not contain a JSON object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged ({error}); {advice}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} is damaged (not a JSON object); {advice}")
    return content


def compute_checksum_and_line_count(path: Path) -> Tuple[str, int]:
    """Return the SHA-256 digest of a file in hexadecimal, and its number of lines. The file is read in blocks."""
    digest, lines, last = hashlib.sha256(), 0, b"\n"
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
            lines += block.count(b"\n")
            last = block[-1:]
    return digest.hexdigest(), lines + (last != b"\n")
