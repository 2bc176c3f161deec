"""Source factors: a value for each word of a document, such as its part of speech, stored with the binarised words.

The files in the data folder are:

DATA/factors.json                    {"factors": ["pos", "ner", "tf", "idf"]}
DATA/dict.factor-NAME.txt            fairseq's dictionary of the values
DATA/SPLIT.factor-NAME.{bin,idx}     fairseq's indexed data: one value per word, and the end symbol
"""

import json
import os
import re
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq import utils
from fairseq.data import Dictionary, LanguagePairDataset, data_utils

from ..vocabulary.dictionary import fingerprint, load_checked

FILE = "factors.json"
_NAME = re.compile(r"[A-Za-z0-9_-]+")


def load_factor_dictionaries(directory: str) -> Dict[str, Dictionary]:
    """Read the dictionary of each factor in a data folder, by the factor's name; empty without factors.json.

    Raises:
        ValueError: factors.json or a dictionary is malformed.
        FileNotFoundError: a dictionary is missing.
    """
    path = os.path.join(directory, FILE)
    if not os.path.isfile(path):
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            names = json.load(file)["factors"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f'{path}: expected {{"factors": [names]}} ({type(error).__name__}: {error})') from None
    # A factor's name is part of file names, so it must be a plain word.
    if not isinstance(names, list) or any(not isinstance(name, str) or not _NAME.fullmatch(name) for name in names):
        raise ValueError(f"{path}: names of factors must consist of letters, digits, - and _; found {names!r}")
    dictionaries = {}
    for name in names:
        file_name = os.path.join(directory, f"dict.factor-{name}.txt")
        if not os.path.isfile(file_name):
            raise FileNotFoundError(f'{path} names the factor "{name}", but there is no {file_name}')
        dictionaries[name] = load_checked(Dictionary.load, file_name)
    return dictionaries


def load_factor(directory: str, split: str, name: str, dictionary: Dictionary, sizes: Sequence[int]) -> Any:
    """Load the values of one factor for a split.

    Args:
        sizes: lengths of the documents with the end symbol; the number of values per document must be the same.

    Raises:
        FileNotFoundError: the split has no such file.
        ValueError: the file belongs to other documents.
    """
    path = os.path.join(directory, f"{split}.factor-{name}")
    values = data_utils.load_indexed_dataset(path, dictionary, "mmap")
    if values is None:
        raise FileNotFoundError(
            f'--source-factors: split "{split}" has no values of the factor "{name}" ({path}.idx); create the data '
            "again with etads-prepare --factors"
        )
    if len(values) != len(sizes):
        raise ValueError(
            f"{path}: {len(values):,} documents, but split {split} has {len(sizes):,}; create the data again"
        )
    differ = np.nonzero(np.asarray(values.sizes) != np.asarray(sizes))[0]
    if len(differ):
        first = int(differ[0])
        raise ValueError(
            f"{path}: {len(differ):,} documents have different numbers of values and words; the first is number "
            f"{first} (from 0; {values.sizes[first]} and {sizes[first]}); create the data again"
        )
    return values


class FactoredPairs(LanguagePairDataset):
    """fairseq's pairs of texts, with the factors of the documents.

    Attributes:
        factors: for each factor, a dataset with a value for each token of a document; empty without factors.
    """

    factors: Sequence[Any] = ()

    def __getitem__(self, index: int) -> Dict[str, Any]:
        example: Dict[str, Any] = super().__getitem__(index)
        if self.factors:
            example["factors"] = torch.stack([values[index] for values in self.factors], dim=1)
        return example

    def collater(self, samples: List[Dict[str, Any]], pad_to_length: Optional[Dict[str, int]] = None) -> Dict[str, Any]:
        """Collate like fairseq, and add any factors to net_input: "factors" (B, S, F), int64, padded like documents."""
        batch: Dict[str, Any] = super().collater(samples, pad_to_length)
        if batch and self.factors:
            tokens, pad = batch["net_input"]["src_tokens"], self.src_dict.pad()
            factors = tokens.new_full((*tokens.shape, len(self.factors)), pad)
            values = {sample["id"]: sample["factors"] for sample in samples}
            for row, number in enumerate(batch["id"].tolist()):
                factors[row, tokens[row] != pad] = values[number].to(factors)
            batch["net_input"]["factors"] = factors
        return batch


class SourceFactors:
    """The source factors of a task's data, and the factors that its models read.

    Args:
        cfg: the task's options. The data folder is read when a dictionary is first requested.
    """

    def __init__(self, cfg: Any):
        self._cfg = cfg
        self._dictionaries: Optional[Dict[str, Dictionary]] = None
        self.names: Tuple[str, ...] = ()

    @property
    def dictionaries(self) -> Dict[str, Dictionary]:
        """Return the dictionary of each factor of the data, by name."""
        if self._dictionaries is None:
            directories = utils.split_paths(self._cfg.data) if self._cfg.data else []
            self._dictionaries = load_factor_dictionaries(directories[0]) if directories else {}
        return self._dictionaries

    @dictionaries.setter
    def dictionaries(self, dictionaries: Dict[str, Dictionary]) -> None:
        self._dictionaries = dictionaries

    def read(self, names: Tuple[str, ...]) -> None:
        """Add a model's factors to batches, in the model's order."""
        if self.names and names and names != self.names:
            raise ValueError(f"the models of an ensemble read different factors: {self.names} and {names}")
        self.names = self.names or names

    def load(self, directory: str, split: str, sizes: Sequence[int]) -> Dict[str, Any]:
        """Load the values of the factors that the models read; see :func:`load_factor`."""
        return {name: load_factor(directory, split, name, self.dictionaries[name], sizes) for name in self.names}

    def refuse_plain_words(self) -> None:
        """Raise ValueError if a model reads factors, because only words are given."""
        if self.names:
            raise ValueError(
                f"the model reads source factors ({', '.join(self.names)}; --source-factors), but only words were "
                "given: binarise the documents with their factors (etads-prepare --factors) and use fairseq-generate"
            )

    def fingerprints(self) -> Dict[str, str]:
        """Compute fingerprints of the factors' dictionaries, for the checkpoint."""
        return {name: fingerprint(self.dictionaries[name]) for name in self.names}

    def check_trained_with(self, trained: Dict[str, str]) -> None:
        """Raise ValueError if a dictionary is not the checkpoint's.

        Args:
            trained: the :meth:`fingerprints` in the checkpoint.
        """
        for name, words in trained.items():
            if name in self.dictionaries and fingerprint(self.dictionaries[name]) != words:
                raise ValueError(
                    f'the dictionary of the factor "{name}" in DATA is not the one the checkpoint was trained with: '
                    "give the data folder of the training"
                )
