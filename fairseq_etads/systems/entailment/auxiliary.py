"""``--auxiliary-task entailment``: between updates of summarisation the encoder learns to recognise entailment."""

import logging
import math
from array import array
from itertools import chain
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
import torch.nn.functional as F
from fairseq.data import data_utils
from fairseq.distributed.utils import get_data_parallel_world_size
from fairseq.logging import metrics
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import FP16Optimizer, MemoryEfficientFP16Optimizer
from torch import Tensor

from ...data.nli_pairs import LABELS, punctuation_warning, read_pairs
from ...kernels.precision import at_least_float32
from ...layers.capabilities import unwrapped
from ...platform.errors import InputError
from ...text.tokenizer import TextConfig, TextTokenizer
from ...training.nll import NonFiniteLossError
from ...vocabulary.dictionary import known_words
from .model import DigitHidingTokenizer

logger = logging.getLogger(__name__)

_NARROW = (FP16Optimizer, MemoryEfficientFP16Optimizer, AMPOptimizer)
"""fairseq's optimisers for --fp16, --bf16 and --amp. The first one's step would move weights that have no gradient."""


SAMPLED_TEXTS = 10_000
"""Texts that are searched for words which end in punctuation."""


class Rhythm(NamedTuple):
    """After each ``every`` updates of summarisation come ``times`` of the auxiliary task."""

    every: int
    times: int

    @classmethod
    def parse(cls, text: str) -> "Rhythm":
        """From --auxiliary-every, such as "100:10"; raises ValueError."""
        parts = text.split(":")
        if len(parts) != 2 or not all(part.isdigit() and int(part) for part in parts):
            raise ValueError(
                f"--auxiliary-every {text}: choose N:M, two numbers above 0: M updates after each N of summarisation"
            )
        return cls(*map(int, parts))

    def turns(self, updates: int) -> range:
        """The numbers, from 0, of the auxiliary updates that come when so many of summarisation are done."""
        if updates % self.every:
            return range(0)
        done = (updates // self.every - 1) * self.times
        return range(done, done + self.times)


class PairBatches:
    """Labelled pairs of texts as ids, in batches that only depend on the seed and on a batch's number.

    Args:
        pairs: premise and hypothesis, each ids (T,), and the label. size: pairs in a batch; the last one of a pass over
            all pairs may have fewer. seed: of the order, which is another one in each pass. pad: id of padding.
    """

    def __init__(self, pairs: Sequence[Tuple[Sequence[int], Sequence[int], int]], size: int, seed: int, pad: int):
        ids, ends = array("i"), array("q", [0])
        for premise, hypothesis, _ in pairs:
            for text in (premise, hypothesis):
                ids.extend(text)
                ends.append(len(ids))
        # two flat tables: a tensor for each text would take several times the memory
        self._ids, self._ends = torch.tensor(ids), np.array(ends)
        self._labels = torch.tensor([label for _, _, label in pairs])
        self._size, self._seed, self._pad = size, seed, pad
        self._order: Tuple[int, Any] = (-1, None)

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self._labels)

    def batch(self, number: int) -> Tuple[Tensor, Tensor, Tensor]:
        """Batch ``number``, from 0: premises (N, S) and hypotheses (N, S'), padded on the right; labels (N,); int64."""
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


def training_files(folder: Path) -> List[Path]:
    """The files of training pairs in a folder: names with "train" that end in .tsv or .jsonl, compressed or not.

    Raises:
        InputError: there is none.
    """
    found = [path for path in sorted(folder.glob("*train*")) if {".tsv", ".jsonl"}.intersection(path.suffixes)]
    if not found:
        raise InputError(
            f"--auxiliary-data {folder}: no such folder, or no file *train*.tsv or *train*.jsonl in it; give that of "
            "SNLI or MultiNLI, or make one with etads-nli synthesise"
        )
    return found


class AuxiliaryTraining:
    """A mixin for a fairseq task: trains the encoder and a classifier on labelled pairs between other updates.

    After each N-th update of summarisation M updates follow with the same optimiser and rate, but other batches. They
    are no updates to fairseq: --max-update, learning rates and validation count those of summarisation. What follows
    depends on the number of that update alone, so training that is resumed goes on as if uninterrupted.
    """

    cfg: Any
    src_dict: Any
    truncate_source: int
    _pairs: Optional[PairBatches] = None
    _rhythm = Rhythm(1, 1)

    @property
    def auxiliary_classes(self) -> int:
        """How many classes the model's classifier of pairs has; 0: there is none."""
        return 0 if str(self.cfg.auxiliary_task) == "none" else len(LABELS)

    def build_model(self, cfg: Any, *args: Any, **kwargs: Any) -> Any:
        """Build the model, and read the pairs if it is to be trained with them.

        Raises:
            ValueError: an option has an impossible value, or the model has no classifier of pairs.
            InputError: there are no pairs, or a file of them is damaged.
        """
        parent: Any = super()
        model = parent.build_model(cfg, *args, **kwargs)
        if not self.auxiliary_classes or getattr(self, "is_loading", False):
            return model
        if getattr(model, "pair_classifier", None) is None:
            raise ValueError(
                f"--auxiliary-task {self.cfg.auxiliary_task} is for the encoders of recurrent models with --encoder rnn"
            )
        self._rhythm = Rhythm.parse(self.cfg.auxiliary_every)
        if self.cfg.auxiliary_batch_size < 1:
            raise ValueError(f"--auxiliary-batch-size {self.cfg.auxiliary_batch_size}: choose 1 or more pairs")
        if not self.cfg.auxiliary_data:
            raise ValueError(f"--auxiliary-task {self.cfg.auxiliary_task} needs pairs of texts: --auxiliary-data DIR")
        self._pairs = self._read_pairs(Path(self.cfg.auxiliary_data))
        return model

    def _read_pairs(self, folder: Path) -> PairBatches:
        """The training pairs of a folder, as the model reads documents."""
        config = TextConfig(text_words=self.cfg.auxiliary_words, text_keep_case=self.cfg.auxiliary_keep_case)
        tokenizer = (DigitHidingTokenizer if self.cfg.auxiliary_hide_digits else TextTokenizer)(config)
        known, total, unknown = known_words(self.src_dict), 0, 0
        pairs: List[Tuple[List[int], List[int], int]] = []
        sample: List[List[str]] = []
        for path in training_files(folder):
            for pair in read_pairs(path):
                texts = []
                for text in (pair.premise, pair.hypothesis):
                    words = tokenizer.encode(text).split()[: self.truncate_source]
                    if len(sample) < SAMPLED_TEXTS:
                        sample.append(words)
                    ids = [self.src_dict.index(word) for word in words]
                    total += len(ids)
                    unknown += sum(number >= known or number == self.src_dict.unk() for number in ids)
                    texts.append([*ids, self.src_dict.eos()])
                pairs.append((texts[0], texts[1], LABELS.index(pair.label)))
        if not pairs:
            raise InputError(f"--auxiliary-data {folder}: there is no pair in its files")
        warning = punctuation_warning(chain.from_iterable(sample), "--auxiliary-words")
        if warning:
            logger.warning(f"--auxiliary-data {folder}: {warning}")
        share = unknown / max(1, total)
        level = logging.WARNING if share > 0.3 else logging.INFO
        logger.log(
            level,
            f"--auxiliary-data {folder}: {len(pairs):,} pairs; the model does not know {share:.1%} of their words "
            "(--auxiliary-words says how texts are cut into words)",
        )
        return PairBatches(pairs, self.cfg.auxiliary_batch_size, self.cfg.seed, self.src_dict.pad())

    def optimizer_step(self, optimizer: Any, model: Any, update_num: int) -> None:
        """The optimiser's step in an update of summarisation and, where it is their turn, the auxiliary updates."""
        parent: Any = super()
        if self._pairs is not None:
            self._check_trainer(optimizer)
        parent.optimizer_step(optimizer, model, update_num)
        if self._pairs is None:
            return
        figures: Dict[str, float] = {"loss": 0.0, "right": 0, "pairs": 0}
        for number in self._rhythm.turns(update_num + 1):
            for name, value in self._auxiliary_update(optimizer, unwrapped(model), self._pairs.batch(number)).items():
                figures[name] += value
        count = figures["pairs"]
        if count:
            metrics.log_scalar("auxiliary_loss", figures["loss"] / count / math.log(2), count, round=3)
            metrics.log_scalar("auxiliary_accuracy", figures["right"] / count, count, round=4)

    def _check_trainer(self, optimizer: Any) -> None:
        """Raise ValueError for what these updates cannot do."""
        flag = f"--auxiliary-task {self.cfg.auxiliary_task}"
        if get_data_parallel_world_size() > 1:
            raise ValueError(f"{flag} trains in one process: leave out --distributed-world-size and torchrun")
        if isinstance(optimizer, _NARROW):
            raise ValueError(f"{flag} trains in float32: leave out --fp16, --bf16 and --amp")

    def _auxiliary_update(self, optimizer: Any, model: Any, batch: Tuple[Tensor, ...]) -> Dict[str, float]:
        """One update; what it was about: the sum of the losses, how many pairs were right, and how many there were."""
        device = next(model.parameters()).device
        premises, hypotheses, labels = (tensor.to(device) for tensor in batch)
        optimizer.zero_grad()
        logits = at_least_float32(model.classify_pairs(premises, hypotheses))  # (N, C)
        loss = F.cross_entropy(logits, labels)
        if not bool(loss.isfinite()):
            raise NonFiniteLossError(
                f"the loss of --auxiliary-task {self.cfg.auxiliary_task} is not finite: lower --lr"
            )
        optimizer.backward(loss)
        optimizer.clip_grad_norm(self.cfg.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        right = int((logits.argmax(dim=1) == labels).sum())
        return {"loss": float(loss) * len(labels), "right": right, "pairs": len(labels)}
