"""Load labels or probabilities for the tokens and sentences of documents."""

from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Type

import numpy as np
import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.data.data_utils import collate_tokens
from torch import Tensor

from ..platform.errors import InputError
from ..text.words import SENTENCE_MARK
from .labels import NOTHING, UNITS, SelectionFile, make_label_file_name
from .prepared_pairs import convert_ids_to_tokens

MISSING = -1.0
"""Value of the end symbol, sentence marks and padding, which have no label or probability."""
CHECKED = 200
"""Number of evenly spaced documents that are checked when a file is opened.

All other documents are checked when their values are read.
"""


class TokenValues:
    """Dataset with a label or probability for each token of the truncated documents in a split.

    If the labels or probabilities belong to sentences, all words in a sentence receive the same value. Raises
    InputError, which names ``option``, if the file is damaged, was created for other documents, or covers fewer tokens
    than ``limit``, the maximum number to read from a document without the end symbol.

    ``unit`` is "words" or "sentences". The ``documents`` are token ids (T,) with the end symbol, and ``sizes`` lengths.
    """

    kind: Optional[str] = None
    """Required kind of labels (``etads-labels --kind``), or None for every kind except distributions."""

    def __init__(
        self,
        path: Path,
        unit: str,
        documents: Any,
        sizes: Sequence[int],
        dictionary: Dictionary,
        limit: int,
        option: str,
    ):
        self.file, self.unit = SelectionFile(path, option, len(documents)), unit
        self._documents, self._dictionary, self._limit = documents, dictionary, limit
        self.file.check_kind(option, self.kind)
        made = int(self.file.header.get("truncate_source", limit))
        if made < min(limit, max(map(int, sizes), default=1) - 1):
            raise InputError(
                f"{option}: {path} was created from the first {made} tokens of each document, but --truncate-source is "
                f"{limit}: create it again with --truncate-source {limit}"
            )
        for number in range(0, len(documents), max(1, len(documents) // CHECKED)):
            self.file.read_row(number, convert_ids_to_tokens(documents[number], dictionary))

    def __len__(self) -> int:
        return len(self.file)

    def __getitem__(self, number: int) -> Tensor:
        """Return the values of one document, for the tokens a float32 tensor of shape (T + 1,).

        The value is MISSING at the end symbol and at sentence marks. Raises InputError if the file was created for
        other documents, or the line of the document is malformed.
        """
        tokens = convert_ids_to_tokens(self._documents[number], self._dictionary)
        fields = self.file.read_row(number, tokens)
        try:
            return self._parse_fields(fields, tokens[: self._limit])
        except (ValueError, IndexError) as error:
            raise InputError(f"{self.file.path}, line {number + 2}: {error}") from None

    def _parse_fields(self, fields: List[str], tokens: List[str]) -> Tensor:
        """Convert the fields of a line to the values of the first tokens of its document."""
        if self.unit == "words":
            values = _parse_values(fields[: len(tokens)])
            if len(values) < len(tokens):
                raise ValueError(f"{len(values)} values for {len(tokens)} tokens")
            return torch.tensor([*values, MISSING])
        numbers, is_mark = _number_sentences(tokens)
        table = np.zeros(int(numbers.max(initial=-1)) + 1)
        if self.file.path.name.startswith("labels."):
            chosen = [int(field) for field in fields if field != NOTHING]
            table[[number for number in chosen if number < len(table)]] = 1
        else:
            given = _parse_values(fields[: len(table)])
            table[: len(given)] = given
        return torch.tensor([*np.where(is_mark, MISSING, table[numbers]).tolist(), MISSING])

    def collate(self, tokens: Tensor, numbers: Sequence[int], pad: int) -> Tensor:
        """Collate the values of the documents in a batch, shape (B, S), float32. The value at padding is MISSING.

        ``tokens`` are their token ids, shape (B, S), and ``numbers`` their indices in the split.
        """
        table = torch.full(tokens.shape, MISSING)
        for row, number in enumerate(numbers):
            table[row, tokens[row] != pad] = self[number]
        return table


def _parse_values(fields: List[str]) -> List[float]:
    return [MISSING if field == NOTHING else float(field) for field in fields]


def _number_sentences(tokens: List[str]) -> Tuple[np.ndarray, np.ndarray]:
    """Return the index of the sentence of each token, and a mask of the sentence marks."""
    is_mark = np.array([token == SENTENCE_MARK for token in tokens], dtype=bool)
    return np.cumsum(is_mark) - is_mark, is_mark


class SentenceTargets(TokenValues):
    """Dataset with a distribution over the document sentences for each summary sentence in a split.

    The file is created with ``etads-labels --kind distribution``. If a document is truncated, the weights of the
    remaining sentences are rescaled to sum to 1, unless all are 0. The values of a document have shape (n, m), where n
    is the number of non-empty summary sentences and m the number of document sentences.
    """

    kind = "distribution"

    def _parse_fields(self, fields: List[str], tokens: List[str]) -> Tensor:
        count = tokens.count(SENTENCE_MARK) + 1  # number of document sentences that the model reads
        rows = torch.zeros(len(fields), count)
        for row, field in zip(rows, fields):
            for pair in [] if field == NOTHING else field.split(","):
                sentence, weight = pair.split(":")
                if int(sentence) < count:
                    row[int(sentence)] = float(weight)
        total = rows.sum(dim=1, keepdim=True)
        return rows / total.masked_fill(total == 0, 1)

    def collate(self, tokens: Tensor, numbers: Sequence[int], pad: int) -> Tensor:
        """Collate the distributions of the documents, shape (B, n, m), float32. Values at padding are 0."""
        found: List[Tensor] = [self[number] for number in numbers]
        sizes = [max([1, *(rows.shape[axis] for rows in found)]) for axis in (0, 1)]
        table = torch.zeros(len(found), *sizes)
        for place, rows in zip(table, found):
            place[: rows.shape[0], : rows.shape[1]] = rows
        return table


class SentenceOrderDataset(TokenValues):
    """Dataset with the indices of document sentences that match the summary sentences, in the order of the summary.

    The file is created with ``etads-labels --kind match``. The values of a document have shape (n,), int64, without
    sentences that are cut off by truncation.
    """

    kind = "match"

    def _parse_fields(self, fields: List[str], tokens: List[str]) -> Tensor:
        numbers, is_mark = _number_sentences(tokens)
        read = set(numbers[~is_mark].tolist())
        return torch.tensor([int(field) for field in fields if int(field) in read], dtype=torch.long)

    def collate(self, tokens: Tensor, numbers: Sequence[int], pad: int) -> Tensor:
        """Collate the sentence indices of the documents, shape (B, n), int64, padded with -1."""
        found = [self[number] for number in numbers]
        table: Tensor = collate_tokens(found, -1, pad_to_length=1)
        return table


def add_token_values_to_batch(batch: Dict[str, Any], values: Mapping[str, TokenValues], pad: int) -> None:
    """Add labels or probabilities to a batch of documents, by the names of the new entries."""
    for name, dataset in values.items():
        batch[name] = dataset.collate(batch["net_input"]["src_tokens"], batch["id"].tolist(), pad)


def open_selection(folder: str, split: str, pairs: Any, limit: int) -> TokenValues:
    """Open the probabilities of words or sentences in an output folder of etads-select (``--selection``)."""
    first = Path(utils.split_paths(folder)[0])
    paths = {unit: first / make_label_file_name("probabilities", unit, split) for unit in UNITS}
    unit = next((unit for unit in UNITS if paths[unit].is_file()), UNITS[0])
    documents = pairs.src.dataset, pairs.src.full_sizes, pairs.src_dict, limit
    return TokenValues(paths[unit], unit, *documents, option="--selection")


class DocumentLabels:
    """Provider of the labels for training and the selection probabilities for decoding, by a task's options."""

    def __init__(self, cfg: Any):
        self._cfg = cfg
        self.unit: Optional[str] = None  # "words" or "sentences", or None if the models do not require labels
        self.in_order = False  # whether sentences are labelled in the order of the summary: SentenceOrderDataset
        self.reads_targets = False  # whether --selection-loss requires distributions over sentences: SentenceTargets

    def request_labels(self, unit: Optional[str], in_order: bool = False) -> None:
        """Request the labels that a model requires; see the attributes with the same names."""
        self.unit, self.in_order = unit, in_order

    def request_labels_for_criterion(self, cfg: Any, criterion: Any) -> None:
        """Request the labels that a criterion requires, given its options and its class."""
        if getattr(cfg, "extraction_loss", 0):
            self.request_labels("sentences")
        if getattr(criterion, "reads_labels", None) is False:
            self.request_labels(None)
        self.reads_targets = bool(getattr(cfg, "selection_loss", 0))

    def load(
        self, directory: str, split: str, pairs: Any, limit: int, is_loading: bool, decodes: bool
    ) -> Dict[str, TokenValues]:
        """Load the additional values to include in the batches of a split, the ``SummarizationDataset`` ``pairs``.

        The keys of the result are "labels" and "sentence_targets" during training, and "selection" during decoding
        (``decodes``). A trained model (``is_loading``) does not require labels. Raises InputError if a label or
        probability file is missing or unsuitable (see :class:`TokenValues`).
        """
        found: Dict[str, TokenValues] = {}
        documents = pairs.src.dataset, pairs.src.full_sizes, pairs.src_dict, limit
        labels: Type[TokenValues] = SentenceOrderDataset if self.in_order else TokenValues
        targets = "sentences" if self.reads_targets else None
        for name, kind, unit, option in (
            ("labels", labels, self.unit, "--labels"),
            ("sentence_targets", SentenceTargets, targets, "--selection-loss"),
        ):
            path = Path(self._cfg.labels or directory) / make_label_file_name("labels", unit or "", split)
            if unit is not None and (path.is_file() or not is_loading):  # etads-select does not require labels
                found[name] = kind(path, unit, *documents, option=option)
        if self._cfg.selection and decodes:
            found["selection"] = open_selection(self._cfg.selection, split, pairs, limit)
        return found
