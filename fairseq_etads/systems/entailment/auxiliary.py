"""``--auxiliary-task entailment``: additional updates that train the encoder to recognise entailment."""

import logging
from array import array
from itertools import chain
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np
import torch
import torch.nn.functional as F
from fairseq.data import data_utils
from torch import Tensor, nn

from ...data.nli_pairs import LABELS, find_tokenisation_problem, read_pairs
from ...kernels.linear import widen_to_float32
from ...platform.errors import InputError
from ...text.tokenizer import TextTokenizer, TextTokenizerConfig
from ...training.extra_updates import AuxiliaryTask, data_folder, register_extra_updates
from ...vocabulary.dictionary import count_known_words
from .model import DigitHidingTokenizer


class PairClassifier(nn.Module):
    """A classifier for pairs of vectors u and v of a width: MLP([u; v; |u-v|; u*v]) (Li, Zhu, Zhang and Zong 2018).

    The MLP has two ``hidden`` tanh layers and an output layer, with dropout before each of them.
    """

    def __init__(self, width: int, hidden: int, classes: int, dropout: float):
        super().__init__()
        sizes = (4 * width, hidden, hidden, classes)
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in zip(sizes, sizes[1:]))
        self.dropout = nn.Dropout(dropout)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Compute the logits (N, C) of N pairs. ``first`` and ``second`` are the vectors u and v, each (N, W)."""
        x = torch.cat([first, second, (first - second).abs(), first * second], dim=1)  # (N, 4W)
        for layer in self.layers[:-1]:
            x = torch.tanh(layer(self.dropout(x)))
        logits: Tensor = self.layers[-1](self.dropout(x))
        return logits


logger = logging.getLogger(__name__)

SAMPLED_TEXTS = 10_000
"""Number of texts that are checked for words with attached punctuation."""


class TextPairBatches:
    """Batches of ``size`` labelled text pairs. Each batch depends only on the seed and the batch index.

    ``pairs`` are the ids of the premise (T,) and of the hypothesis (T',), and the label. The last batch of an epoch may
    be smaller. The order differs between epochs.
    """

    def __init__(self, pairs: Sequence[Tuple[Sequence[int], Sequence[int], int]], size: int, seed: int, pad: int):
        ids, ends = array("i"), array("q", [0])
        for premise, hypothesis, _ in pairs:
            for text in (premise, hypothesis):
                ids.extend(text)
                ends.append(len(ids))
        # Store the ids of all texts in one tensor. One tensor per text would need several times as much memory.
        self._ids, self._ends = torch.tensor(ids), np.array(ends)
        self._labels = torch.tensor([label for _, _, label in pairs])
        self._size, self._seed, self._pad = size, seed, pad
        self._order: Tuple[int, Any] = (-1, None)

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self._labels)

    def make_batch(self, number: int) -> Tuple[Tensor, Tensor, Tensor]:
        """Return batch ``number``, counted from 0 over all epochs: premises (N, S), hypotheses (N, S') and labels (N,).

        All are int64, and the ids are padded on the right.
        """
        turn, place = divmod(number, -(-len(self) // self._size))
        if self._order[0] != turn:
            with data_utils.numpy_seed(self._seed, turn):
                self._order = (turn, np.random.permutation(len(self)))
        rows = self._order[1][place * self._size : (place + 1) * self._size]
        premises, hypotheses = (self._collate(2 * rows + side) for side in (0, 1))
        return premises, hypotheses, self._labels[rows]

    def _collate(self, texts: Any) -> Tensor:
        values: List[Tensor] = [self._ids[self._ends[number] : self._ends[number + 1]].long() for number in texts]
        collated: Tensor = data_utils.collate_tokens(values, self._pad)
        return collated


class EntailmentTask(AuxiliaryTask):
    """An auxiliary task that trains the encoder and a classifier on labelled text pairs (Li, Zhu, Zhang and Zong 2018).

    Raises:
        ValueError: an option has an invalid value, or the model has no pair classifier.
        InputError: there are no pairs, or a file of pairs is damaged.
    """

    def __init__(self, task: Any, model: Any):
        if getattr(model, "pair_classifier", None) is None:
            raise ValueError("--auxiliary-task entailment works only with recurrent models with --encoder rnn")
        self.pairs = read_text_pair_batches(data_folder(task.cfg, "pairs of texts"), task)

    @staticmethod
    def parts(cfg: Any) -> Dict[str, nn.Module]:
        """Create the pair classifier. Raises ValueError if the model cannot read text pairs."""
        if str(cfg.encoder) == "conv" or cfg.source_factors != "none":
            raise ValueError(
                "--auxiliary-task needs --encoder rnn without --source-factors, because the auxiliary "
                "texts have no factors"
            )
        width = 2 * cfg.encoder_hidden_size
        return {"pair_classifier": PairClassifier(width, cfg.encoder_hidden_size, len(LABELS), cfg.dropout)}

    def loss(self, model: Any, number: int) -> Tuple[Tensor, int, Dict[str, float]]:
        """Return the mean cross-entropy over batch ``number``, its size, and the number of right ones as "accuracy"."""
        device = next(model.parameters()).device
        premises, hypotheses, labels = (tensor.to(device) for tensor in self.pairs.make_batch(number))
        vectors = (model.encoder.compute_document_vectors(texts) for texts in (premises, hypotheses))
        logits = widen_to_float32(model.pair_classifier(*vectors))  # (N, C)
        right = int((logits.argmax(dim=1) == labels).sum())
        return F.cross_entropy(logits, labels), len(labels), {"accuracy": right}


def read_text_pair_batches(folder: Path, task: Any) -> TextPairBatches:
    """Read the pairs of the training files in a folder, and convert them to ids of the task's source dictionary."""
    files = [path for path in sorted(folder.glob("*train*")) if {".tsv", ".jsonl"}.intersection(path.suffixes)]
    if not files:  # the names may have another ending, if the files are compressed
        raise InputError(
            f"--auxiliary-data {folder}: no such folder, or no file *train*.tsv or *train*.jsonl in it; give the "
            "folder of SNLI or MultiNLI, or create one with etads-nli synthesise"
        )
    cfg, words = task.cfg, task.src_dict
    config = TextTokenizerConfig(text_words=cfg.auxiliary_words, text_keep_case=cfg.auxiliary_keep_case)
    tokenizer = (DigitHidingTokenizer if cfg.auxiliary_hide_digits else TextTokenizer)(config)
    known, total, unknown = count_known_words(words), 0, 0
    pairs: List[Tuple[List[int], List[int], int]] = []
    sample: List[List[str]] = []
    for path in files:
        for pair in read_pairs(path):
            texts = []
            for text in (pair.premise, pair.hypothesis):
                read = tokenizer.encode(text).split()[: task.truncate_source]
                if len(sample) < SAMPLED_TEXTS:
                    sample.append(read)
                ids = [words.index(word) for word in read]
                total += len(ids)
                unknown += sum(number >= known or number == words.unk() for number in ids)
                texts.append([*ids, words.eos()])
            pairs.append((texts[0], texts[1], LABELS.index(pair.label)))
    if not pairs:
        raise InputError(f"--auxiliary-data {folder}: its files contain no pairs")
    warning = find_tokenisation_problem(chain.from_iterable(sample), "--auxiliary-words")
    if warning:
        logger.warning(f"--auxiliary-data {folder}: {warning}")
    share = unknown / max(1, total)
    level = logging.WARNING if share > 0.3 else logging.INFO
    logger.log(
        level,
        f"--auxiliary-data {folder}: {len(pairs):,} pairs; the model does not know {share:.1%} of their words "
        "(--auxiliary-words selects the tokeniser)",
    )
    return TextPairBatches(pairs, cfg.auxiliary_batch_size, cfg.seed, words.pad())


register_extra_updates("entailment", EntailmentTask)
