"""Load a model folder: dictionaries, tokeniser, subwords and the model, all checked before use."""

import contextlib
import io
import os
from argparse import Namespace
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

import torch
from fairseq.data import encoders
from torch import nn

from ... import plugin  # noqa: F401  # registers the architectures
from ...data.shortlist_file import read_shortlist
from ...data.weights_file import WeightsFile
from ...platform.errors import InputError
from ...search.content.model import FILE as CONTENT
from ...search.content.model import ContentModel
from ...text.checksums import NAME as CHECKSUMS
from ...text.checksums import Checksums
from ...text.picking import FILE as PICKING
from ...text.picking import Picking
from ...text.tokenizer import TextConfig, TextTokenizer
from ...training.options import SummarizationConfig
from ...training.task import SummarizationTask
from ...vocabulary.shortlist import Shortlist
from . import model_options
from .config import ADVICE, CONFIG, DICTIONARIES, EXTRACTOR, SHORTLIST, WEIGHTS, FolderConfig, read_config


class LoadedFolder(NamedTuple):
    """Contents of a model folder, ready for use.

    Attributes:
        config: the folder's configuration.
        model: the model in evaluation mode, on the CPU, in float32.
        task: the task with the dictionaries and the truncation lengths.
        tokenizer: converts raw text to words and back.
        subwords: fairseq's --bpe object, words to subwords and back; None without subwords.
        shortlist: the folder's shortlist; None if it has none.
        extractor: the folder's extractor; None if it has none.
        content: content model that re-ranks hypotheses; None if it has none. An extractor has another one.
    """

    config: FolderConfig
    model: Any
    task: SummarizationTask
    tokenizer: TextTokenizer
    subwords: Any
    shortlist: Optional[Shortlist]
    extractor: Optional["LoadedExtractor"] = None
    content: Optional[ContentModel] = None


class LoadedExtractor(NamedTuple):
    """The extractor of a model folder.

    Attributes:
        loaded: its own folder.
        picking: settings of its selection.
        content: the content model; None if there is none.
    """

    loaded: LoadedFolder
    picking: Picking
    content: Optional[ContentModel] = None


def load_folder(folder: Path, is_extractor: bool = False) -> LoadedFolder:
    """Load a folder made by etads-export. No code of the folder is run.

    Args:
        is_extractor: whether it is the folder of an extractor, inside a summariser's.

    Raises:
        InputError: the folder is not a model folder, is damaged or incomplete, or was made by a later version.
    """
    config = read_config(folder)
    _verify(folder, config)
    weights = WeightsFile(folder / WEIGHTS, config.weights["shared"], ADVICE)
    _check_options(folder, config, weights, is_extractor)
    task = make_task(folder, config)
    with torch.random.fork_rng(devices=[]):  # building a model draws random initial weights
        with torch.device("meta"):  # config.json may ask for any number of layers, so no memory is allocated yet
            weights.check(_build(folder, config, task).state_dict())
        model = _build(folder, config, task)
    model.load_state_dict(weights.read(model.state_dict()), strict=True)
    tokenizer = TextTokenizer(
        TextConfig(**{f"text_{name}": v for name, v in config.text.items() if name != "subwords"})
    )
    shortlist = None
    if (folder / SHORTLIST).is_file():
        shortlist = read_shortlist(folder / SHORTLIST, task.source_dictionary, task.target_dictionary, "shortlist")
    extractor, content = None, None
    if not is_extractor and (folder / CONTENT).is_file():
        content = ContentModel.load(folder / CONTENT, ADVICE)
        if content.of_extractor:
            raise InputError(f"{folder / CONTENT} needs an extractor's probabilities. {ADVICE}")
    if not is_extractor and (folder / EXTRACTOR).is_dir():
        picking = Picking.read(folder / EXTRACTOR / PICKING, ADVICE)
        loaded = load_folder(folder / EXTRACTOR, is_extractor=True)
        path = folder / EXTRACTOR / CONTENT
        extractor = LoadedExtractor(loaded, picking, ContentModel.load(path, ADVICE) if path.is_file() else None)
    subwords = _build_subwords(folder, config)
    return LoadedFolder(config, model.eval(), task, tokenizer, subwords, shortlist, extractor, content)


def needed_files(config: FolderConfig) -> List[str]:
    """Names of the files that a folder must have, except README.md and the list of checksums."""
    factors = [f"dict.factor-{name}.txt" for name in config.task["factor_dictionaries"]]
    return [
        CONFIG,
        WEIGHTS,
        *DICTIONARIES,
        *config.subword_files.values(),
        *([SHORTLIST] if config.decoding.get("shortlist") else []),
        *(["factors.json", *factors] if factors else []),
    ]


def _verify(folder: Path, config: FolderConfig) -> None:
    """Raise InputError if a file is missing, or does not match SHA256SUMS."""
    checksums = Checksums(folder, ADVICE)
    needed = needed_files(config)
    # These files are optional; a call decides whether to use them.
    for name in (SHORTLIST, CONTENT):
        if name not in needed and (name in checksums.listed or (folder / name).is_file()):
            needed.append(name)
    # It is listed if the folder has an extractor, so that the model is not used without it.
    of_extractor = f"{EXTRACTOR}/{CHECKSUMS}"
    if of_extractor in checksums.listed or (checksums.listed and (folder / EXTRACTOR).is_dir()):
        needed.append(of_extractor)
    for name in needed:
        if not (folder / name).is_file():
            raise InputError(f"{folder} is incomplete: it has no {name}. {ADVICE}")
        if checksums.listed and name not in checksums.listed:
            raise InputError(f"{folder / CHECKSUMS} does not list {name}. {ADVICE}")
    checksums.verify(needed)


def _check_options(folder: Path, config: FolderConfig, weights: WeightsFile, is_extractor: bool) -> None:
    """Raise InputError if the options are impossible for the architecture and the weights."""
    largest = max((size for shape in weights.shapes.values() for size in shape), default=0)
    try:
        model_options.check(config.architecture, config.model, largest, is_extractor)
    except InputError as error:
        raise InputError(f"{folder / CONFIG}: {error}. {ADVICE}") from None


def make_task(folder: Path, config: FolderConfig) -> SummarizationTask:
    """Make the task ``summarization`` with a folder's dictionaries, as if one of its checkpoints were being loaded.

    Raises:
        InputError: a dictionary is damaged or does not belong to the model.
    """
    if os.pathsep in str(folder):
        raise InputError(f"{folder}: fairseq would read this as two paths, because it contains {os.pathsep}; rename it")
    options = {name: config.task[name] for name in ("truncate_source", "truncate_target", "left_pad_source")}
    cfg = SummarizationConfig(data=str(folder), source_lang="source", target_lang="target", **options)
    # fairseq would take these values from other parts of its configuration.
    cfg.train_subset, cfg.best_checkpoint_metric, cfg.required_seq_len_multiple = "train", "loss", 1
    cfg.batch_size = cfg.dataset_impl = cfg.finetune_from_model = None
    try:
        task = SummarizationTask.setup_task(cfg)
        task.load_state_dict(config.task)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: {' '.join(str(error).split())}. {ADVICE}") from None
    return task


def _build(folder: Path, config: FolderConfig, task: SummarizationTask) -> nn.Module:
    """Build the model with new weights; raises InputError if the options are invalid."""
    try:
        model: nn.Module = task.build_model(model_options.to_config(config.architecture, config.model))
    # The error comes from fairseq, torch or OmegaConf, whichever reads the invalid option first.
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise InputError(f"{folder / CONFIG}: no model can be built from its options ({reason}). {ADVICE}") from None
    return model


def _build_subwords(folder: Path, config: FolderConfig) -> Any:
    """Build fairseq's subword encoder, or None; raises InputError if its model is damaged."""
    kind, files = config.text["subwords"], config.subword_files
    if kind is None:
        return None
    options: Dict[str, str] = {option: str(folder / name) for option, name in files.items()}
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return encoders.build_bpe(Namespace(bpe=kind, **options))
    except (OSError, RuntimeError, ValueError, LookupError, TypeError, SystemExit) as error:
        reason = " ".join(said.getvalue().split()) or error  # subword-nmt prints the reason and exits
        raise InputError(f"{folder / next(iter(files.values()))} is damaged ({reason}). {ADVICE}") from None
