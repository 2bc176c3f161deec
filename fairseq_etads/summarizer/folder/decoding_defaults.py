"""Change the decoding defaults of a model folder by updating config.json, the checksums and the model card."""

import hashlib
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict

from ...files.checksums import NAME as CHECKSUMS
from ...files.checksums import Checksums, compute_sha256, format_checksum_list
from ...files.outputs import PARTIAL, write_text
from ...platform.errors import InputError
from ...search.options import combine_options
from .config import CARD, CONFIG, EXTRACTOR, read_config
from .model_card import format_defaults_section

_SECTION = re.compile(r"^## Defaults of decoding\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def check_writable(folder: Path) -> None:
    """Raise InputError if a folder is not writable."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"{folder}: cannot be written to ({error.strerror})") from None


def set_decoding_defaults(folder: Path, decoding: Dict[str, Any], note: str) -> None:
    """Replace the decoding defaults of a model folder, and add a note in Markdown about their choice to the model card.

    If the function is interrupted, the folder can still be loaded with either the old or the new defaults, because
    SHA256SUMS is removed before config.json is replaced, and is written again afterwards. A folder without it is loaded
    without comparing checksums. After an interruption, call the function again.

    Raises:
        InputError: the folder is not a model folder, the folder is not writable, or a decoding option is invalid.
    """
    combine_options(decoding, {})
    check_writable(folder)
    config = replace(read_config(folder), decoding=decoding)
    sums = Checksums(folder).listed
    if not sums:  # an earlier interruption has left no SHA256SUMS
        names = [path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
        names = [name for name in names if name not in (CARD, CONFIG) and not name.endswith(PARTIAL)]
        names += [f"{EXTRACTOR}/{CHECKSUMS}"] if (folder / EXTRACTOR / CHECKSUMS).is_file() else []
        sums = {name: compute_sha256(folder / name) for name in names}
    sums = {**sums, CONFIG: hashlib.sha256(config.to_json().encode()).hexdigest()}
    (folder / CHECKSUMS).unlink(missing_ok=True)
    write_text(folder / CONFIG, config.to_json())
    card, section = folder / CARD, format_defaults_section(config, note)
    if card.is_file():
        text = card.read_bytes().decode("utf-8", "replace")
        is_there = _SECTION.search(text)
        text = _SECTION.sub(lambda _: f"{section}\n", text, count=1) if is_there else f"{text}\n{section}"
        write_text(card, text, "replace")
    write_text(folder / CHECKSUMS, format_checksum_list(sums))
