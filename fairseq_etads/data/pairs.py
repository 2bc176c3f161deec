"""Datasets of document-summary pairs, with source factors, labels and probabilities of their words and sentences.

This is the only module that truncates texts. A source factor, such as the part of speech, assigns a value to every word
in a document. The factors are stored in the data folder together with the binarised words:

DATA/factors.json                    {"factors": ["pos", "ner", "tf", "idf"]}
DATA/dict.factor-NAME.txt            fairseq dictionary of the values
DATA/SPLIT.factor-NAME.{bin,idx}     ids of the values and the end symbol, in fairseq's indexed format

The module also counts, in a sample of the training data, the words that a model can neither generate nor copy.
"""

import functools
import itertools
import json
import logging
import os
import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type, Union

import numpy as np
import torch
from fairseq import utils
from fairseq.data import BaseWrapperDataset, Dictionary, LanguagePairDataset, data_utils
from fairseq.data.data_utils import collate_tokens
from torch import Tensor

from ..platform.errors import InputError
from ..text.words import SENTENCE_MARK
from ..vocabulary.dictionary import (
    check_dictionaries_share_ids,
    check_trained_dictionary,
    compute_fingerprint,
    count_known_words,
    load_checked_dictionary,
)
from .labels import NOTHING, UNITS, SelectionFile, make_label_file_name
from .preparation import convert_ids_to_tokens

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


logger = logging.getLogger(__name__)
_PAIR_FILE = re.compile(r"[^.]+\.([^.-]+)-([^.-]+)\.(?:\1|\2)(?:\..*)?")


def detect_language_pair(directory: str) -> Tuple[Optional[str], Optional[str]]:
    """Return the suffixes of file names of documents and summaries in a data folder, or (None, None) without pairs.

    fairseq's own function could mistake a factor file such as train.factor-tf.idx for a file of documents.
    """
    for name in sorted(os.listdir(directory)):
        match = _PAIR_FILE.fullmatch(name)
        if match:
            return match[1], match[2]
    return None, None


def truncate_tokens(tokens: Tensor, limit: int, eos: int, ends_if_cut: bool = True) -> Tensor:
    """Truncate a text, an int tensor of token ids (T,), to its first ``limit`` tokens, and append the end symbol.

    The limit does not count the end symbol, which the text may already have. Unless ``ends_if_cut``, a text that is
    truncated has no end symbol.
    """
    text = tokens[:-1] if len(tokens) and tokens[-1] == eos else tokens
    if len(text) > limit and not ends_if_cut:
        return text[:limit]
    return torch.cat([text[:limit], tokens.new_tensor([eos])])


class TruncatedDataset(BaseWrapperDataset):
    """Dataset of token sequences that are truncated to ``limit`` tokens, followed by the end symbol ``eos``.

    ``dataset`` contains token ids (T,), with or without the end symbol, and ``sizes`` their lengths with it. The limit
    does not count it. Truncated sequences have an end symbol only if ``ends_if_cut``.
    """

    def __init__(self, dataset: Any, sizes: Sequence[int], limit: int, eos: int, ends_if_cut: bool = True):
        super().__init__(dataset)
        self.limit = limit
        self.eos = eos
        self.ends_if_cut = ends_if_cut
        self.full_sizes = full = np.asarray(sizes)
        cut = full > limit + 1
        self._sizes = np.where(cut, limit + ends_if_cut, full)
        self.texts_cut = int(cut.sum())
        self.tokens_cut = int((full - limit - 1)[cut].sum())
        self.tokens = int(full.sum()) - len(full)

    def __getitem__(self, index: int) -> Tensor:
        return truncate_tokens(self.dataset[index], self.limit, self.eos, self.ends_if_cut)

    @property
    def sizes(self) -> np.ndarray:
        return self._sizes

    def get_original_text(self, index: int) -> str:
        """Return the text of an example in a raw dataset (``--dataset-impl raw``), truncated like the ids."""
        return " ".join(self.dataset.get_original_text(index).split()[: self.limit])

    def log_truncation(self, what: str) -> None:
        """Log how much of the texts, called ``what``, is cut off. Texts of a single token are not used, nor logged."""
        if self.texts_cut and self.limit > 1:
            share = self.tokens_cut / max(self.tokens, 1)
            logger.info(
                f"{what}: {self.texts_cut:,} of {len(self):,} cut to {self.limit} tokens "
                f"({self.tokens_cut:,} tokens, {share:.1%}, left out)"
            )


class SummarizationDataset(LanguagePairDataset):
    """Dataset of truncated document-summary pairs for training, validation, generation and interactive use.

    Raises ValueError if the number of summaries differs from the number of documents.

    Args:
        src, src_sizes, src_dict, tgt, tgt_sizes, tgt_dict: datasets, lengths and dictionaries of documents and
            summaries, which have the same meaning as in fairseq's ``LanguagePairDataset``.
        truncate_source, truncate_target: maximum numbers of tokens to keep in documents and summaries, not counting the
            end symbol.
        ends_if_cut: whether to append the end symbol to truncated summaries. If False, the last token of a truncated
            summary is a word.
        name: name of the dataset in log messages, such as "train".
        factors: mapping from factor names to datasets with one value for each source token. The values are truncated
            and padded in the same way as the tokens.
        sort_within: number of pairs per group. During training, the pairs are shuffled in each epoch and then sorted by
            length within groups of this size. If the number is 0, all pairs are sorted by length once, as in fairseq.
        references: number of pairs at the start of the dataset for which batches also contain the untruncated
            summaries: the list "references" of tensors (T,), with None for other pairs.
        kwargs: further keyword arguments of fairseq's ``LanguagePairDataset``.
    """

    token_values: Mapping[str, TokenValues] = {}  # datasets of values of source tokens, by their names in batches

    def __init__(
        self,
        src: Union[Sequence[Tensor], BaseWrapperDataset],
        src_sizes: Sequence[int],
        src_dict: Dictionary,
        tgt: Optional[Sequence[Tensor]] = None,
        tgt_sizes: Optional[Sequence[int]] = None,
        tgt_dict: Optional[Dictionary] = None,
        *,
        truncate_source: int,
        truncate_target: int,
        ends_if_cut: bool = True,
        name: str = "input",
        factors: Optional[Dict[str, Any]] = None,
        sort_within: int = 0,
        references: int = 0,
        **kwargs: Any,
    ):
        self.references = references
        cut = functools.partial(TruncatedDataset, sizes=src_sizes, limit=truncate_source, eos=src_dict.eos())
        documents = cut(src)
        documents.log_truncation(f"{name} documents")
        summaries = None
        if tgt is not None and tgt_sizes is not None and tgt_dict is not None:
            if len(tgt) != len(src):
                raise ValueError(f"{name}: {len(src):,} documents but {len(tgt):,} summaries; create the data again")
            summaries = TruncatedDataset(tgt, tgt_sizes, truncate_target, tgt_dict.eos(), ends_if_cut)
            summaries.log_truncation(f"{name} summaries")
        lengths = None if summaries is None else summaries.sizes
        super().__init__(documents, documents.sizes, src_dict, summaries, lengths, tgt_dict, **kwargs)
        self.sort_within = sort_within
        self._epoch = 1
        self.factors = [cut(values) for values in (factors or {}).values()]

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Whether fairseq may reuse the batches of the previous epoch. Shuffling pairs into groups makes new ones."""
        return not (self.sort_within and self.shuffle)

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch. fairseq calls this method before it creates the batches of that epoch."""
        super().set_epoch(epoch)
        self._epoch = epoch

    def ordered_indices(self) -> np.ndarray:
        """Return the order of documents: by length, or shuffled and then by length in groups of ``sort_within``."""
        if self.can_reuse_epoch_itr_across_epochs:
            return super().ordered_indices()
        # fairseq seeds numpy with --seed before this call, so the state of numpy's generator is the same in each epoch.
        order = np.random.default_rng([np.random.randint(2**31), self._epoch]).permutation(len(self))
        parts = np.split(order, range(self.sort_within, len(order), self.sort_within))
        return np.concatenate([part[np.lexsort((self.tgt_sizes[part], self.src_sizes[part]))] for part in parts])

    def collater(self, samples: List[Any], pad_to_length: Optional[Any] = None) -> Any:
        """Collate samples like fairseq, and add "references", the entries in ``token_values``, and factors, if any.

        The entry "factors" of "net_input" is an int64 tensor (B, S, F), padded in the same way as the documents.
        """
        batch = super().collater(samples, pad_to_length)
        if not batch:
            return batch
        add_token_values_to_batch(batch, self.token_values, self.src_dict.pad())
        numbers, tokens, pad = batch["id"].tolist(), batch["net_input"]["src_tokens"], self.src_dict.pad()
        if self.factors:
            factors = tokens.new_full((*tokens.shape, len(self.factors)), pad)
            for row, number in enumerate(numbers):
                values = torch.stack([each[number] for each in self.factors], dim=1)
                factors[row, tokens[row] != pad] = values.to(factors)
            batch["net_input"]["factors"] = factors
        if self.references and self.tgt is not None:
            batch["references"] = [self.tgt.dataset[n] if n < self.references else None for n in numbers]
        return batch

    def check_batch_size(self, max_tokens: Optional[int]) -> None:
        """Raise ValueError if a text has more than ``max_tokens`` tokens, so that no batch could contain it."""
        for option, texts in (("--truncate-source", self.src), ("--truncate-target", self.tgt)):
            longest = 0 if texts is None else int(texts.sizes.max(initial=0))
            if longest > (max_tokens or longest):
                most = f"{option} {texts.limit}: the longest text has {longest} tokens with its end"
                raise ValueError(f"--max-tokens {max_tokens} is too small with {most}")

    def batch_by_size(
        self,
        indices: np.ndarray,
        max_tokens: Optional[int] = None,
        max_sentences: Optional[int] = None,
        required_batch_size_multiple: int = 1,
    ) -> List[np.ndarray]:
        """Divide all documents into batches, in the order of ``indices``.

        fairseq's own method drops the last batch, which contains the longest documents, without a message if its size
        is not a multiple of ``--required-batch-size-multiple`` (8 by default).
        """
        batches = super().batch_by_size(indices, max_tokens, max_sentences, required_batch_size_multiple)
        batched = sum(len(batch) for batch in batches)
        return [*batches, np.asarray(indices[batched:])] if batched < len(indices) else batches


SAMPLE = 2000
"""Maximum number of pairs to sample from a split."""

UNKNOWN_ALLOWED = 0.002
"""Maximum fraction of unknown words in the training documents of a model with a pointer, which is met by subwords."""


class SummaryWordCounts(NamedTuple):
    """Word counts in a sample of summaries, not including end symbols."""

    pairs: int  # document-summary pairs in the sample
    words: int  # all words in the summaries
    unknown: int  # words that the model cannot generate
    copyable: int  # unknown words that occur in the document of the summary
    in_document: int  # known and unknown words that occur in the document of the summary, except "<unk>"


def count_summary_words(pairs: Any, dictionary: Dictionary) -> SummaryWordCounts:
    """Count the words in a sample of the summaries in a ``SummarizationDataset``, by the target dictionary."""
    known, unk, eos = count_known_words(dictionary), dictionary.unk(), dictionary.eos()
    chosen = range(0, len(pairs), max(1, -(-len(pairs) // SAMPLE)))  # evenly spaced
    words = unknown = copyable = in_document = 0
    for number in chosen:
        summary, document = (np.asarray(side[number]) for side in (pairs.tgt, pairs.src))
        summary = summary[summary != eos]
        occurs = np.isin(summary, document) & (summary != unk)
        outside = summary >= known
        words += len(summary)
        unknown += int((outside | (summary == unk)).sum())
        copyable += int((outside & occurs).sum())
        in_document += int(occurs.sum())
    return SummaryWordCounts(len(chosen), words, unknown, copyable, in_document)


def check_unknown_words_in_split(split: str, pairs: Any, pointer: str, task: Any) -> None:
    """Check that a split of a task, a ``SummarizationDataset``, is suitable for a model with this type of pointer.

    Raises ValueError as :func:`check_unknown_document_words` and :func:`check_unknown_summary_words` do.
    """
    training = split == task.cfg.train_subset
    check_unknown_document_words(split, pairs.src.dataset, pointer, task.source_dictionary, training)
    if training and not task.is_loading and split not in task.datasets:
        check_unknown_summary_words(split, pairs, pointer, task.target_dictionary)


def check_unknown_summary_words(split: str, pairs: Any, pointer: str, dictionary: Dictionary) -> None:
    """Log the fraction of unknown words in the summaries.

    Raises ValueError if no word in the sampled summaries could be copied by a pointer of this type.
    """
    counts = None if pairs.tgt is None else count_summary_words(pairs, dictionary)
    if counts is None or not counts.words:
        return
    found = (
        f"{counts.unknown:,} of {counts.words:,} words of {split}'s summaries (a sample of {counts.pairs:,}) are "
        f"unknown, {counts.unknown / counts.words:.2%}; {counts.copyable:,} of the unknown ones are in their document"
    )
    logger.info(found)
    if pointer == "switch" and not counts.copyable:
        raise ValueError(
            f"--pointer switch: {found}, so there is no word from which to learn copying. Create the data "
            "with fewer known words in summaries (etads-prepare --target-size), from text that keeps its rare words "
            "(etads-corpus gigaword --rare 0), or choose --pointer soft or none"
        )
    if pointer == "soft" and not counts.in_document:
        raise ValueError(f"--pointer soft: {found}, and no known word is in the documents, so there is nothing to copy")
    if pointer == "soft" and counts.unknown and not counts.copyable:
        logger.warning(f"--pointer soft will only copy words that the model can also generate: {found}")


def check_unknown_document_words(
    split: str, documents: Any, pointer: str, dictionary: Dictionary, training: bool
) -> None:
    """Log a warning if a pointer cannot copy some words of the documents, which are not in the source dictionary.

    Raises ValueError if this dictionary has no copy tail, and UNKNOWN_ALLOWED is exceeded in training documents.
    """
    checked = [documents[number] for number in range(min(len(documents), SAMPLE)) if pointer != "none"]
    words = sum(map(len, checked))
    unknown = sum(int((document == dictionary.unk()).sum()) for document in checked)
    if not unknown:
        return
    found = f"{unknown:,} of the first {words:,} words of {split}'s documents are {dictionary.unk_word}"
    if training and unknown > UNKNOWN_ALLOWED * words and count_known_words(dictionary) == len(dictionary):
        raise ValueError(
            f"--pointer {pointer}: the dictionary in DATA has no copy tail (words with count 0), and {found}; "
            "they cannot be copied. Create the data with etads-prepare, or create a dictionary with etads-dictionary "
            "and the data with fairseq-preprocess --srcdict DICT --joined-dictionary"
        )
    logger.warning(f"{found}; they cannot be copied, because they are not in the dictionary's copy tail")
