"""Find the dictionary of a pretrained checkpoint that does not record its dictionary, such as fairseq's BART.

fairseq publishes BART as ``model.pt`` with ``dict.txt`` (or ``dict.source.txt`` and ``dict.target.txt``) in the same
folder. With these files, word embeddings can be matched by word, even if the data's dictionary lists the words in a
different order.
"""

import os
from typing import Any, Dict, List, Sequence

import torch
from fairseq.data import Dictionary
from torch import Tensor

from ..vocabulary.dictionary import is_padding_word, load_checked_dictionary

MASK = "<mask>"
"""The mask symbol, which fairseq's pretraining task adds after the words in the dictionary file."""


class CheckpointVocabulary:
    """The words that belong to the rows of a checkpoint's word embedding tables.

    Attributes:
        files: a dictionary from "source" and "target" to the paths of the dictionary files. If the checkpoint's folder
            contains only one such file, both have the same path. If it contains none, ``files`` is empty.
    """

    def __init__(self, checkpoint: str, task: Any):
        folder = os.path.dirname(checkpoint)
        self.checkpoint = checkpoint
        self.dictionaries = {"source": task.source_dictionary, "target": task.target_dictionary}
        self.files: Dict[str, str] = {}
        for side in self.dictionaries:
            language = getattr(task.cfg, f"{side}_lang", None) or side
            paths = (os.path.join(folder, name) for name in (f"dict.{language}.txt", f"dict.{side}.txt", "dict.txt"))
            found = next(filter(os.path.isfile, paths), None)
            if found is not None:
                self.files[side] = found
        self.files = {side: self.files.get(side, path) for path in self.files.values() for side in self.dictionaries}
        read = {path: load_checked_dictionary(Dictionary.load, path).symbols for path in set(self.files.values())}
        self._words: Dict[str, List[str]] = {side: read[path] for side, path in self.files.items()}

    def reorder_rows(self, name: str, given: Tensor, parameter: Tensor) -> Tensor:
        """Reorder the rows of a word embedding table to match the data's dictionary.

        Args:
            name: the parameter name.
            given: the table in the checkpoint (R, …).
            parameter: the table in the model (V, …). fairseq pads its dictionaries with artificial words. If the
                checkpoint lacks such a word, its row in ``parameter`` is kept.

        Raises:
            ValueError: R differs from the number of words in the file, or a known word of the data is not in the file.
        """
        side = "source" if name.startswith("encoder.") else "target"
        words = self._get_table_words(side, name, len(given))
        places = {word: row for row, word in enumerate(words)}
        # A shared embedding table has one row per word in the source dictionary, which includes the target words.
        wanted: Sequence[str] = self.dictionaries[side].symbols[: len(parameter)]
        missing = [word for word in wanted if word not in places and not is_padding_word(word)]
        if missing:
            raise ValueError(
                f"--init-from {self.checkpoint}: {len(missing):,} of the {len(wanted):,} known words of DATA are not "
                f"in its dictionary {self.files[side]}, for example {missing[0]!r}: prepare the data with that file "
                "(etads-prepare --tokens gpt2 --dictionary)"
            )
        pairs = [(row, places[word]) for row, word in enumerate(wanted) if word in places]
        here, there = torch.tensor(pairs).unbind(1)
        fitted = parameter.detach().to(given, copy=True)
        fitted[here] = given[there]
        return fitted

    def _get_table_words(self, side: str, name: str, rows: int) -> List[str]:
        """Return the words of a table's ``rows``. A row beyond the words in the file is the mask symbol."""
        words = self._words[side]
        if rows == len(words) + 1 and MASK not in words:
            return [*words, MASK]
        if rows != len(words):
            raise ValueError(
                f"--init-from {self.checkpoint}: {name} has {rows:,} rows, but its dictionary {self.files[side]} has "
                f"{len(words):,} words, special symbols included: replace this file with the dictionary of its training"
            )
        return words
