"""Data that are compared with their checksums when they are loaded, and watched while they are used."""

import os
import re
from pathlib import Path
from typing import Any, Dict

from fairseq.data import encoders

from ..text.checksums import Checksums

ADVICE = "Make the data again"
SUBWORD_MODELS = ("bpe_codes", "sentencepiece_model")
"""Options of fairseq's --bpe classes that name a file of etads-prepare's."""


class CheckedTask:
    """A mixin for a fairseq task: refuses data that are not what DATA/SHA256SUMS says, if that file is there.

    fairseq maps data into memory, so that a change of a file while it is used would change what is read.

    Attributes:
        checked: data directory -> what has been checked of it.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.checked: Dict[str, Checksums] = {}

    @staticmethod
    def check_dictionaries(directory: str) -> Checksums:
        """Compare the dictionaries, those of factors too, and factors.json; raises InputError."""
        checksums = Checksums(Path(directory), ADVICE)
        checksums.verify(name for name in checksums.listed if name.endswith((".txt", ".json")))
        return checksums

    def check_split(self, directory: str, split: str) -> None:
        """Compare all files of a split, and of its parts if it has any (train, train1, ...); raises InputError."""
        if directory not in self.checked:
            self.checked[directory] = Checksums(Path(directory), ADVICE)
        checksums = self.checked[directory]
        checksums.verify(name for name in checksums.listed if re.match(rf"{re.escape(split)}\d*\.", name))

    def check_unchanged(self) -> None:
        """Raise InputError if a file has changed since it was compared."""
        for checksums in self.checked.values():
            checksums.verify_unchanged()

    def build_bpe(self, args: Any) -> Any:
        """As fairseq's, but the subword model is compared with the SHA256SUMS beside it first."""
        for option in SUBWORD_MODELS:
            path = getattr(args, option, None)
            if path and os.path.isfile(path):
                Checksums(Path(path).parent, "Prepare the text again").verify([Path(path).name])
        return encoders.build_bpe(args)
