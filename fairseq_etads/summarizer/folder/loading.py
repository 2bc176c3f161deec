"""Load the dictionaries, tokeniser, subwords and model of a model folder, and check everything before it is used."""

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
        config: configuration of the folder.
        model: model in evaluation mode, on the CPU, in float32.
        task: task with the dictionaries and the truncation lengths.
        tokenizer: tokeniser that converts raw text to words and back.
        subwords: --bpe object of fairseq, which converts words to subwords and back; None without subwords.
        shortlist: shortlist of the folder, or None.
        extractor: extractor of the folder, or None.
        content: content model that re-ranks hypotheses, or None. The content model of an extractor is separate.
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
        loaded: loaded folder of the extractor.
        picking: settings of the selection.
        content: content model that chooses sentences, or None.
    """

    loaded: LoadedFolder
    picking: Picking
    content: Optional[ContentModel] = None


def load_folder(folder: Path, is_extractor: bool = False) -> LoadedFolder:
    """Load a folder from etads-export without running any code from it.

    Args:
        is_extractor: whether the folder belongs to an extractor, inside the folder of a summariser.

    Raises:
        InputError: the folder is not a model folder, is damaged or incomplete, or was made by a later version.
    """
    config = read_config(folder)
    _verify(folder, config)
    weights = WeightsFile(folder / WEIGHTS, config.weights["shared"], ADVICE)
    _check_options(folder, config, weights, is_extractor)
    task = make_task(folder, config)
    with torch.random.fork_rng(devices=[]):  # building a model draws random initial weights
        with torch.device("meta"):  # config.json may request any number of layers, so no memory is allocated yet
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
    """List the files that a folder must contain, except README.md and the list of checksums."""
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
    """Raise InputError if a file is missing or does not match SHA256SUMS."""
    checksums = Checksums(folder, ADVICE)
    needed = needed_files(config)
    # These files are optional, and each call decides whether to use them.
    for name in (SHORTLIST, CONTENT):
        if name not in needed and (name in checksums.listed or (folder / name).is_file()):
            needed.append(name)
    # An extractor is listed if there is one, so that the model is not used without its extractor.
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
    """Create the task ``summarization`` with the dictionaries of a folder, as when a checkpoint is loaded.

    Raises:
        InputError: a dictionary is damaged or does not belong to the model.
    """
    if os.pathsep in str(folder):
        raise InputError(f"{folder}: fairseq would read this as two paths, because it contains {os.pathsep}; rename it")
    options = {name: config.task[name] for name in ("truncate_source", "truncate_target", "left_pad_source")}
    cfg = SummarizationConfig(data=str(folder), source_lang="source", target_lang="target", **options)
    # fairseq would read these values from other parts of its configuration.
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
    """Build the model with initial weights; raises InputError if the options are invalid."""
    try:
        model: nn.Module = task.build_model(model_options.to_config(config.architecture, config.model))
    # The error comes from fairseq, torch or OmegaConf, whichever reads the invalid option first.
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise InputError(f"{folder / CONFIG}: no model can be built from its options ({reason}). {ADVICE}") from None
    return model


def _build_subwords(folder: Path, config: FolderConfig) -> Any:
    """Build the subword encoder of fairseq, or return None; raises InputError if its model is damaged."""
    kind, files = config.text["subwords"], config.subword_files
    if kind is None:
        return None
    options: Dict[str, str] = {option: str(folder / name) for option, name in files.items()}
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return encoders.build_bpe(Namespace(bpe=kind, **options))
    except InputError:  # a library is missing
        raise
    except (OSError, RuntimeError, ValueError, LookupError, TypeError, SystemExit) as error:
        reason = " ".join(said.getvalue().split()) or error  # subword-nmt prints the reason and exits
        raise InputError(f"{folder / next(iter(files.values()))} is damaged ({reason}). {ADVICE}") from None
