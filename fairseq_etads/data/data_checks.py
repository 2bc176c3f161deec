"""Verify the checksums of data files when they are loaded, and detect later changes while the files are in use."""

import os
import re
from pathlib import Path
from typing import Any, Dict

from ..text.checksums import Checksums

ADVICE = "Create the data again"
SUBWORD_MODELS = ("bpe_codes", "sentencepiece_model", "huggingface_tokenizer")
"""Options of fairseq's --bpe classes that specify the path of a subword model created by etads-prepare."""


class DataChecks:
    """Check that data files match DATA/SHA256SUMS, if this file exists.

    fairseq maps the data files into memory. If a file is changed while it is in use, the data in memory changes as
    well.

    Attributes:
        checked: mapping from the path of each verified data folder to the checksums of its files.
    """

    def __init__(self) -> None:
        self.checked: Dict[str, Checksums] = {}

    def _get_checksums(self, directory: str) -> Checksums:
        if directory not in self.checked:
            self.checked[directory] = Checksums(Path(directory), ADVICE)
        return self.checked[directory]

    def check_dictionaries(self, directory: str) -> None:
        """Verify the checksums of factors.json and of all dictionaries, including factor dictionaries.

        Raises InputError if a file has changed.
        """
        checksums = self._get_checksums(directory)
        checksums.verify(name for name in checksums.listed if name.endswith((".txt", ".json")))

    def check_split_checksums(self, directory: str, split: str) -> None:
        """Verify the checksums of all files in a split, including its additional parts (train1, train2, ...).

        Raises InputError if a file has changed.
        """
        checksums = self._get_checksums(directory)
        checksums.verify(name for name in checksums.listed if re.match(rf"{re.escape(split)}\d*\.", name))

    def check_unchanged(self) -> None:
        """Raise InputError if a file has changed since it was verified."""
        for checksums in self.checked.values():
            checksums.verify_unchanged()


def check_not_empty(directory: str, split: str, languages: str) -> None:
    """Raise ValueError if a split or one of its parts contains no pairs.

    Unlike fairseq's own error message, this message names the split.

    Args:
        languages: file name suffixes of documents and summaries, such as "source-target".
    """
    files = re.compile(rf"({re.escape(split)}\d*)\.{re.escape(languages)}\.[^.]+\.bin")
    for file in os.scandir(directory) if os.path.isdir(directory) else ():
        found = files.fullmatch(file.name)
        if found and not file.stat().st_size:  # even a document without words contains an end symbol
            raise ValueError(f'the split "{found.group(1)}" in "{directory}" has no pairs: leave it out')


def check_subword_model_checksum(args: Any) -> None:
    """Verify the subword model of a --bpe class against SHA256SUMS in the folder of the model.

    Raises InputError if the model has changed.
    """
    for option in SUBWORD_MODELS:
        path = getattr(args, option, None)
        if path and os.path.isfile(path):
            Checksums(Path(path).parent, "Prepare the text again").verify([Path(path).name])
