"""Load the dictionaries, tokeniser, subword model and weights of a model folder. All files are checked before use."""

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
from ...data.weights_file import WeightsFile
from ...files.checksums import NAME as CHECKSUMS
from ...files.checksums import Checksums
from ...platform.errors import InputError
from ...search.content.model import FILE as CONTENT
from ...search.content.model import ContentModel
from ...text.picking import FILE as PICKING
from ...text.picking import SentencePickingSettings
from ...text.tokenizer import TextTokenizer, TextTokenizerConfig
from ...training.options import SummarizationConfig
from ...training.task import SummarizationTask
from ...vocabulary.shortlist import Shortlist, read_shortlist
from . import model_options
from .config import ADVICE, CONFIG, DICTIONARIES, EXTRACTOR, SHORTLIST, WEIGHTS, FolderConfig, read_config


class LoadedFolder(NamedTuple):
    """Loaded contents of a model folder.

    Attributes:
        config: configuration of the model folder.
        model: model in evaluation mode, on the CPU, in float32.
        task: the summarisation task, which contains the dictionaries and the truncation lengths.
        tokenizer: tokeniser that converts raw text to words and back.
        subwords: fairseq's --bpe object, which converts words to subwords and back, or None if the model does not use
            subwords.
        shortlist: the shortlist in the folder, or None.
        extractor: the extractor in the folder, or None.
        content: content model that re-ranks hypotheses, or None. The content model of an extractor is part of the
            extractor.
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
    """Loaded extractor of a model folder.

    Attributes:
        loaded: loaded contents of the extractor's folder.
        picking: settings for the selection of sentences, or None if it was never used to shorten documents.
        content: content model that chooses the sentences of summaries, or None.
    """

    loaded: LoadedFolder
    picking: Optional[SentencePickingSettings]
    content: Optional[ContentModel] = None


def load_folder(folder: Path, is_extractor: bool = False) -> LoadedFolder:
    """Load a model folder that was created with etads-export. No code from the folder is run.

    Args:
        folder: path of the model folder.
        is_extractor: whether the folder belongs to an extractor inside the folder of a summariser.

    Raises:
        InputError: the folder is not a model folder, is damaged or incomplete, or was created by a later version.
    """
    config = read_config(folder)
    _verify_file_checksums(folder, config)
    weights = WeightsFile(folder / WEIGHTS, config.weights["shared"], ADVICE)
    _check_options(folder, config, weights, is_extractor)
    task = make_task(folder, config)
    # config.json may specify any number of layers, so the size of the model is limited while it is built.
    with torch.random.fork_rng(devices=[]), weights.limit_model():
        model = _build_model(folder, config, task)
    model.load_state_dict(weights.read_weights(model.state_dict()), strict=True)
    shortlist = None
    if (folder / SHORTLIST).is_file():
        shortlist = read_shortlist(folder / SHORTLIST, task.source_dictionary, task.target_dictionary, "shortlist")
    extractor, content = None, None
    if not is_extractor and (folder / CONTENT).is_file():
        content = ContentModel.load(folder / CONTENT, ADVICE)
        if content.of_extractor:
            raise InputError(f"{folder / CONTENT} needs an extractor's probabilities. {ADVICE}")
    if not is_extractor and (folder / EXTRACTOR).is_dir():
        picking = SentencePickingSettings.read(folder / EXTRACTOR / PICKING, ADVICE)
        loaded = load_folder(folder / EXTRACTOR, is_extractor=True)
        path = folder / EXTRACTOR / CONTENT
        extractor = LoadedExtractor(loaded, picking, ContentModel.load(path, ADVICE) if path.is_file() else None)
    subwords = build_subword_encoder(
        config.text["subwords"], {option: folder / name for option, name in config.subword_files.items()}
    )
    tokenizer = build_text_tokenizer(config)
    return LoadedFolder(config, model.eval(), task, tokenizer, subwords, shortlist, extractor, content)


def build_text_tokenizer(config: FolderConfig) -> TextTokenizer:
    """Build the tokeniser that converts raw text to words and back."""
    options = {f"text_{name}": value for name, value in config.text.items() if name != "subwords"}
    return TextTokenizer(TextTokenizerConfig(**options))


def list_needed_files(config: FolderConfig) -> List[str]:
    """Return the names of the files that a model folder must contain, except README.md and SHA256SUMS."""
    factors = [f"dict.factor-{name}.txt" for name in config.task["factor_dictionaries"]]
    return [
        CONFIG,
        WEIGHTS,
        *DICTIONARIES,
        *config.subword_files.values(),
        *([SHORTLIST] if config.decoding.get("shortlist") else []),
        *(["factors.json", *factors] if factors else []),
    ]


def _verify_file_checksums(folder: Path, config: FolderConfig) -> None:
    """Raise InputError if a file is missing or does not match SHA256SUMS."""
    checksums = Checksums(folder, ADVICE)
    needed = list_needed_files(config)
    # These files are optional, because they are used only with some decoding options, or only by an extractor.
    for name in (SHORTLIST, CONTENT, PICKING):
        if name not in needed and (name in checksums.listed or (folder / name).is_file()):
            needed.append(name)
    # If the model has an extractor, SHA256SUMS must list it, so that the model is never used without its extractor.
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
    """Raise InputError if the model options are invalid for the architecture or do not match the weights."""
    largest = max((size for shape in weights.shapes.values() for size in shape), default=0)
    try:
        model_options.check_model_options(config.architecture, config.model, largest, is_extractor)
    except InputError as error:
        raise InputError(f"{folder / CONFIG}: {error}. {ADVICE}") from None


def make_task(folder: Path, config: FolderConfig) -> SummarizationTask:
    """Create the task ``summarization`` with the dictionaries in a model folder, as fairseq does for a checkpoint.

    Raises:
        InputError: a dictionary is damaged or does not belong to the model.
    """
    if os.pathsep in str(folder):
        raise InputError(f"{folder}: fairseq would read this as two paths, because it contains {os.pathsep}; rename it")
    options = {name: config.task[name] for name in ("truncate_source", "truncate_target", "left_pad_source")}
    cfg = SummarizationConfig(data=str(folder), source_lang="source", target_lang="target", **options)
    # fairseq reads these values from other sections of the configuration.
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


def _build_model(folder: Path, config: FolderConfig, task: SummarizationTask) -> nn.Module:
    """Build the model without its weights. Raises InputError if the options are invalid."""
    try:
        model: nn.Module = task.build_model(model_options.make_model_config(config.architecture, config.model))
    # The type of the error depends on which library first reads the invalid option: fairseq, torch or OmegaConf.
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise InputError(f"{folder / CONFIG}: no model can be built from its options ({reason}). {ADVICE}") from None
    return model


def build_subword_encoder(kind: Optional[str], files: Dict[str, Path]) -> Any:
    """Build fairseq's subword encoder, or return None if the model does not use subwords.

    Args:
        kind: kind of subwords, or None.
        files: mapping from fairseq's options to the files of the subword model.

    Raises:
        InputError: the subword model is damaged.
    """
    if kind is None:
        return None
    options: Dict[str, str] = {option: str(path) for option, path in files.items()}
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return encoders.build_bpe(Namespace(bpe=kind, **options))
    except InputError:  # a required library is not installed
        raise
    except (OSError, RuntimeError, ValueError, LookupError, TypeError, SystemExit) as error:
        reason = " ".join(said.getvalue().split()) or error  # subword-nmt prints the reason to stderr and exits
        raise InputError(f"{next(iter(files.values()))} is damaged ({reason}). {ADVICE}") from None
