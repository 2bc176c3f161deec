"""Datasets of document-summary pairs. This is the only module that truncates texts.

It also counts, in a sample of the training data, the words that a model can neither generate nor copy.
"""

import functools
import logging
import os
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, Dictionary, LanguagePairDataset
from torch import Tensor

from ..vocabulary.dictionary import count_known_words
from .selection import TokenValues, add_token_values_to_batch

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
