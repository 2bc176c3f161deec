"""Load source factors, such as the part of speech. Each factor assigns a value to every word in a document.

The factors are stored in the data folder together with the binarised words:

DATA/factors.json                    {"factors": ["pos", "ner", "tf", "idf"]}
DATA/dict.factor-NAME.txt            fairseq dictionary of the values
DATA/SPLIT.factor-NAME.{bin,idx}     ids of the values and the end symbol, in fairseq's indexed format
"""

import functools
import itertools
import json
import os
import re
from typing import Any, Dict, Sequence, Tuple

import numpy as np
from fairseq import utils
from fairseq.data import Dictionary, data_utils

from ..vocabulary.dictionary import (
    check_dictionaries_share_ids,
    check_trained_dictionary,
    compute_fingerprint,
    load_checked_dictionary,
)

FILE = "factors.json"
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_load_dictionary = functools.partial(load_checked_dictionary, Dictionary.load)


def load_factor_dictionaries(directory: str) -> Dict[str, Dictionary]:
    """Load the dictionaries of the factors in a data folder, keyed by factor name. None without factors.json.

    Raises ValueError if factors.json or a dictionary is malformed, and FileNotFoundError if a dictionary is missing.
    """
    path = os.path.join(directory, FILE)
    if not os.path.isfile(path):
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            names = json.load(file)["factors"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f'{path}: expected {{"factors": [names]}} ({type(error).__name__}: {error})') from None
    # Factor names are used in file names, so they must be plain words.
    if not isinstance(names, list) or any(not isinstance(name, str) or not _NAME.fullmatch(name) for name in names):
        raise ValueError(f"{path}: names of factors must consist of letters, digits, - and _; found {names!r}")
    dictionaries = {}
    for name in names:
        file_name = os.path.join(directory, f"dict.factor-{name}.txt")
        if not os.path.isfile(file_name):
            raise FileNotFoundError(f'{path} names the factor "{name}", but there is no {file_name}')
        dictionaries[name] = _load_dictionary(file_name)
    return dictionaries


def load_factor(directory: str, split: str, name: str, dictionary: Dictionary, sizes: Sequence[int]) -> Any:
    """Load the values of one factor for all documents in a split, whose lengths with the end symbol are ``sizes``.

    Raises FileNotFoundError if the split contains no file with the values of this factor, and ValueError if a document
    does not have as many values as ``sizes`` says.
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


class SourceFactors:
    """Source factors in the data of a task with the options ``cfg``, and source factors that the models read."""

    def __init__(self, cfg: Any):
        self._cfg = cfg
        self.names: Tuple[str, ...] = ()

    @functools.cached_property
    def dictionaries(self) -> Dict[str, Dictionary]:
        """Dictionaries of all factors in the data folder, keyed by factor name."""
        return load_factor_dictionaries(utils.split_paths(self._cfg.data)[0]) if self._cfg.data else {}

    def request_factors(self, names: Tuple[str, ...]) -> None:
        """Request the factors that a model reads. All batches then contain these factors in the given order.

        Raises ValueError if another model reads different factors, or data folders have different dictionaries of one.
        """
        if self.names and names and names != self.names:
            raise ValueError(f"the models of an ensemble read different factors: {self.names} and {names}")
        self.names = self.names or names
        first, *further = utils.split_paths(self._cfg.data or "")
        for name, folder in itertools.product(names, further):
            file_name = f"dict.factor-{name}.txt"
            check_dictionaries_share_ids(
                _load_dictionary, os.path.join(first, file_name), os.path.join(folder, file_name)
            )

    def load(self, directory: str, split: str, sizes: Sequence[int]) -> Dict[str, Any]:
        """Load the values of all factors that the models read, keyed by factor name. See :func:`load_factor`."""
        return {name: load_factor(directory, split, name, self.dictionaries[name], sizes) for name in self.names}

    def check_no_factors_needed(self) -> None:
        """Raise ValueError if a model reads factors, where documents are available only as plain words."""
        if self.names:
            raise ValueError(
                f"the model reads source factors ({', '.join(self.names)}; --source-factors), but only words were "
                "given: binarise the documents with their factors (etads-prepare --factors) and use fairseq-generate"
            )

    def compute_fingerprints(self) -> Dict[str, str]:
        """Return the fingerprints of the factor dictionaries, keyed by factor name, to store in checkpoints."""
        return {name: compute_fingerprint(self.dictionaries[name]) for name in self.names}

    def check_training_dictionaries(self, trained: Dict[str, str]) -> None:
        """Raise ValueError if a factor dictionary has not the fingerprint in the checkpoint (``trained``)."""
        for name, words in trained.items():
            if name in self.dictionaries:
                check_trained_dictionary(f'dictionary of the factor "{name}"', self.dictionaries[name], words)
