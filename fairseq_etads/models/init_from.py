"""``--init-from`` and ``--extractor``: initialise a model from a checkpoint by matching the names of weights."""

import logging
import os
import re
from collections import Counter
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from torch import Tensor, nn

from ..fairseq_fixes.trainer import has_last_checkpoint
from ..vocabulary.dictionary import (
    check_training_dictionaries,
    count_known_words,
    is_padding_word,
    load_checked_dictionary,
)
from .selector import SentenceExtractor

logger = logging.getLogger(__name__)

_DEFAULT_RESTORE_FILE = "checkpoint_last.pt"
_WORD_TABLE = re.compile(r"embed_tokens|output_projection|fc_out|fc3")


EXTRACTOR = "encoder.extractor."
"""Prefix of the extractor's weight names in a summariser's checkpoint."""
MASK = "<mask>"
"""The mask symbol, which fairseq's pretraining task adds after the words in the dictionary file."""


def get_extractor_to_initialise(model: Any, path: str) -> nn.Module:
    """Return the extractor that --extractor initialises. Raises ValueError if the summariser has no extractor."""
    extractor: Optional[nn.Module] = getattr(model, "extractor", None)
    if extractor is None:
        raise ValueError(f"--extractor {path} has no effect without --sentence-attention extractor")
    return extractor


def is_training_from_start(cfg: Any, option: str = "--init-from") -> bool:
    """Return whether training starts from the beginning rather than resuming from a checkpoint in --save-dir.

    Raises:
        ValueError: another option of the task than ``option`` also specifies initial weights.
    """
    for other, is_given in (
        ("--restore-file", cfg.restore_file != _DEFAULT_RESTORE_FILE),
        ("--finetune-from-model", bool(cfg.finetune_from_model)),
        ("--continue-once", bool(cfg.continue_once)),
    ):
        if is_given:
            path = getattr(cfg, option[2:].replace("-", "_"))
            raise ValueError(f"{option} {path} and {other} cannot be combined: choose one")
    return not has_last_checkpoint(cfg.save_dir, cfg.checkpoint_suffix)


def load_initial_weights(
    model: nn.Module, path: str, task: Any, option: str = "--init-from", whole: bool = False
) -> None:
    """Load into a model the weights that it has in common with a checkpoint, and log which weights were loaded.

    If the checkpoint does not record its dictionary, but its folder contains the dictionary file, word embeddings are
    matched by word (see :class:`CheckpointVocabulary`). A sentence extractor can also be initialised with the extractor
    in a summariser's checkpoint.

    Args:
        path: the path of a checkpoint that fairseq-train wrote.
        option: the option that specifies ``path``, for messages.
        whole: whether the checkpoint must contain exactly the weights that the model has.

    Raises:
        FileNotFoundError: the file does not exist.
        UnsafeCheckpointError: loading the file could run code.
        ValueError: the file is not a checkpoint, was trained with another dictionary, or contains no weight of this
            model; or two weights that the model shares differ in it; or, with ``whole``, the weights do not correspond.
    """
    weights, remembers_words = _read_weights(path, task, option)
    if isinstance(model, SentenceExtractor) and any(name.startswith(EXTRACTOR) for name in weights):
        weights = {name[len(EXTRACTOR) :]: weight for name, weight in weights.items() if name.startswith(EXTRACTOR)}
    _upgrade_names(model, weights)
    words = None if remembers_words else CheckpointVocabulary(path, task)
    if words is not None and not words.files:
        logger.warning(f"{option} {path}: does not record its dictionary, which must be the same as in DATA")
    report = _WeightLoadingReport(path, option)
    loaded: Dict[int, Tuple[str, Tensor]] = {}
    parameters = list(model.named_parameters(remove_duplicate=False))
    for name, parameter in parameters:
        if name not in weights:
            continue
        given = _fit_weight_rows(name, weights[name], parameter, task, report, words)
        if given.shape != parameter.shape:
            report.other_shape.append(f"{name} {tuple(given.shape)}, here {tuple(parameter.shape)}")
            continue
        first, weight = loaded.setdefault(id(parameter), (name, given))
        if first != name and not torch.equal(weight, given):
            raise ValueError(
                f"{option} {path}: has different weights in {first} and {name}, which this model shares: use the "
                "--share-... options of its training"
            )
        with torch.no_grad():
            parameter.copy_(given)
    report.new = [name for name, parameter in parameters if id(parameter) not in loaded]
    report.unused = sorted(weights.keys() - {name for name, _ in parameters})
    if whole and (report.new or report.unused):
        raise ValueError(report.format_wrong_model_message())
    numbers = {id(parameter): parameter.numel() for _, parameter in parameters}
    report.log(sum(numbers[key] for key in loaded), sum(numbers.values()))


def _read_weights(path: str, task: Any, option: str) -> Tuple[Dict[str, Tensor], bool]:
    """Read a checkpoint's weights without buffers, and whether the checkpoint records its dictionary."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f'{option} "{path}": no such file')
    try:
        checkpoint = checkpoint_utils.load_checkpoint_to_cpu(path)
        weights = {name: value for name, value in checkpoint["model"].items() if isinstance(value, Tensor)}
    except (AttributeError, KeyError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"{option} {path}: not a checkpoint of fairseq-train ({reason})") from None
    state = checkpoint.get("task_state") or {}
    try:
        check_training_dictionaries(state, task.source_dictionary, task.target_dictionary)
    except ValueError as error:
        raise ValueError(f"{option} {path}: {error}") from None
    described = {name: value for name, value in weights.items() if not name.endswith((".version", "._float_tensor"))}
    return described, "source_dictionary" in state


def _upgrade_names(model: Any, weights: Dict[str, Tensor]) -> None:
    """Rename the weights that had different names in older versions of fairseq."""
    # Without a version buffer, fairseq's Transformer assumes that the weights are from its first version and converts
    # them. To prevent this, add the current version.
    versions = {name: value for name, value in model.state_dict().items() if name.endswith(".version")}
    weights.update(versions)
    model.upgrade_state_dict(weights)
    for name in versions:
        weights.pop(name, None)


def _fit_weight_rows(
    name: str,
    given: Tensor,
    parameter: Tensor,
    task: Any,
    report: "_WeightLoadingReport",
    words: Optional["CheckpointVocabulary"],
) -> Tensor:
    """Fit the rows of a weight (R, …) to the model, which may lack the copy tail's rows or read longer texts."""
    rows, wanted = (len(x) if x.dim() else 0 for x in (given, parameter))
    is_word_table = _WORD_TABLE.search(name) and given.shape[1:] == parameter.shape[1:]
    if is_word_table and words is not None and words.files and wanted in _count_known_words(task):
        if rows != wanted:
            report.partly.append(f"{name}: the rows of the {wanted} known words of {rows}")
        return words.reorder_rows(name, given, parameter)
    if rows == wanted:
        return given
    if name.endswith("embed_positions.weight") and given.shape[1:] == parameter.shape[1:]:
        padding = task.source_dictionary.pad() + 1  # number of leading rows that do not represent positions
        report.partly.append(f"{name}: {min(rows, wanted) - padding} of {wanted - padding} positions")
        return torch.cat([given[:wanted], parameter[rows:].detach().to(given)])
    side = "source" if name.startswith("encoder.") else "target"
    dictionary = task.source_dictionary if side == "source" else task.target_dictionary
    if count_known_words(dictionary) != wanted or not _WORD_TABLE.search(name):
        return given
    if rows == len(dictionary):
        report.partly.append(f"{name}: the rows of the {wanted} known words of {rows}")
        return given[:wanted]
    raise ValueError(
        f"{report.option} {report.path}: {name} has {rows} words, but the {side} dictionary in DATA has {wanted}: "
        "prepare the data with the checkpoint's dictionary (etads-prepare --like), or put its dict.txt into the "
        "checkpoint's folder"
    )


def _count_known_words(task: Any) -> Tuple[int, int]:
    """Return the numbers of known words in the source and target dictionaries."""
    return count_known_words(task.source_dictionary), count_known_words(task.target_dictionary)


class CheckpointVocabulary:
    """The words of the rows of a checkpoint's word embedding tables, if the checkpoint does not record its dictionary.

    fairseq publishes BART as ``model.pt`` with ``dict.txt`` (or ``dict.source.txt`` and ``dict.target.txt``) in the
    same folder. With these files, word embeddings can be matched by word, even if the data's dictionary lists the words
    in a different order.

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
        """Reorder the rows of the checkpoint's table ``given`` (R, …) to match the data's dictionary.

        fairseq pads its dictionaries with artificial words. If the checkpoint lacks such a word, its row in the model's
        ``parameter`` (V, …) is kept.

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


class _WeightLoadingReport:
    """A report on the weights that were fully loaded, partly loaded or not loaded."""

    def __init__(self, path: str, option: str):
        self.path, self.option = path, option
        self.partly: List[str] = []
        self.other_shape: List[str] = []
        self.new: List[str] = []
        self.unused: List[str] = []

    def format_wrong_model_message(self) -> str:
        """Return the error message for a checkpoint of another model."""
        if self.other_shape:
            return (
                f"{self.option} {self.path}: {self.other_shape[0]}; set --extractor-embed-dim and "
                "--extractor-hidden-size to the values of its training (--encoder-embed-dim, --encoder-hidden-size)"
            )
        return (
            f"{self.option} {self.path}: not a checkpoint of --arch sentence_extractor or of a model that contains one"
        )

    def log(self, loaded: int, total: int) -> None:
        """Log the report, as a warning if a weight has a different shape or if most parameters were not loaded.

        Args:
            loaded, total: the number of loaded parameter values, and the total number of parameter values.

        Raises:
            ValueError: no weight was loaded.
        """
        parts = [
            f"{title}: {', '.join(names)}"
            for title, names in (
                ("loaded in part", self.partly),
                ("not loaded, because they have another shape", self.other_shape),
                ("new, because the checkpoint does not have them", list(_group_weight_names(self._list_missing()))),
                ("in the checkpoint, but not in this model", list(_group_weight_names(self.unused))),
            )
            if names
        ]
        if not loaded:
            raise ValueError(f"{self.option} {self.path}: has no weight that fits this model; {'; '.join(parts)}")
        level = logging.WARNING if self.other_shape or loaded < total / 2 else logging.INFO
        summary = f"{self.option} {self.path}: loaded {loaded:,} of {total:,} parameters ({loaded / total:.1%})"
        logger.log(level, "; ".join([summary, *parts]))

    def _list_missing(self) -> List[str]:
        return [name for name in self.new if not any(other.startswith(f"{name} ") for other in self.other_shape)]


def _group_weight_names(names: Iterable[str]) -> Iterable[str]:
    """Replace layer indices in weight names with *, and append a count to names that then occur more than once."""
    counts: Counter[str] = Counter(re.sub(r"\.\d+\.", ".*.", name) for name in names)
    pairs: List[Tuple[str, int]] = list(counts.items())
    return (name if count == 1 else f"{name} ({count})" for name, count in pairs)
