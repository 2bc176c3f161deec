"""Load the model of a model folder, whose files are checked before use, or of a training run.

A run is loaded as it would be loaded from the model folder that ``etads-export`` creates of it.

Model options are stored as JSON: only plain values of the declared types are allowed.
"""

import os
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

import torch
from fairseq import checkpoint_utils
from fairseq.models import ARCH_MODEL_REGISTRY
from omegaconf import OmegaConf

from ...data.labels import PICKING, SentencePickingSettings
from ...data.weights_file import WeightsFile
from ...files.checksums import NAME as CHECKSUMS
from ...files.checksums import Checksums
from ...models.common import SummarizationModel, convert_options_to_namespace
from ...models.external_models import parse_convolutions
from ...models.selector import ContentSelectionModel, SentenceExtractor
from ...platform.errors import InputError
from ...platform.optional_parts import explain_missing_system, find_required_system, is_system_installed
from ...search.content_model import FILE as CONTENT
from ...search.content_model import ContentModel
from ...search.lengths import choose_length_bounds
from ...search.options import BEAMS, FOLDER_DEFAULTS, LARGEST
from ...text.subwords import SUBWORDS
from ...text.tokenizer import TextTokenizer, TextTokenizerConfig, build_subword_encoder
from ...training.options import SummarizationConfig
from ...training.task import SummarizationTask
from ...vocabulary.dictionary import get_known_word_counts
from ...vocabulary.shortlist import Shortlist, read_shortlist
from ..surprisal import WordFrequencies, compute_surprisal_percentiles
from .config import ADVICE, CONFIG, DICTIONARIES, EXTRACTOR, SHORTLIST, WEIGHTS, FolderConfig, read_config
from .run_files import RunFiles

_WORD = re.compile(r"(?!.*\d{7})[A-Za-z0-9_.,:+-]{0,200}")
"""Pattern that all string values of options must match.

fairseq evaluates some options as Python code, but a string that matches this pattern cannot call a function. The
pattern also excludes ``${…}``, which OmegaConf would interpolate.
"""
_WIDTH = re.compile(r"(?<!block)_(dim|size)$")
_COUNT = re.compile(r"(layers|heads|neighbours)$")
_FLAGS = re.compile(r"True|\[(True|False)(, ?(True|False)){0,999}\]")
_MOST_LAYERS, _MOST = 1_000, 1_000_000_000
_OUTSIDE = re.compile(r"_path$")
"""Pattern for names of options that refer to files outside the folder. These files are needed only for training."""


def list_architectures(extract: bool = False) -> List[str]:
    """Return the names of this project's summarisers, or of its extractors, that can be saved in a model folder."""
    ours = {name: model for name, model in ARCH_MODEL_REGISTRY.items() if issubclass(model, SummarizationModel)}
    if extract:
        return [name for name, model in ours.items() if issubclass(model, SentenceExtractor)]
    return [name for name, model in ours.items() if not issubclass(model, ContentSelectionModel)]


def _list_declared_options(architecture: str, extracts: bool) -> Dict[str, Any]:
    """Return the names and default values of an architecture's options, or raise InputError if it is not ours."""
    system = find_required_system(f"--arch {architecture}")
    if system is not None and not is_system_installed(system):
        raise InputError(explain_missing_system(f"--arch {architecture}", system))
    if architecture not in list_architectures(extracts):
        kind = "extractor architecture" if extracts else "architecture"
        raise InputError(
            f'"{architecture[:60]}" is not an {kind} of this version; choose from '
            f"{', '.join(list_architectures(extracts))}, or load the package that registers it (--user-dir)"
        )
    preset: Any = getattr(ARCH_MODEL_REGISTRY[architecture], "__dataclass")()
    return {option.name: getattr(preset, option.name) for option in fields(preset) if option.name != "_name"}


def to_plain_options(architecture: str, cfg: Any, extracts: bool = False) -> Dict[str, Any]:
    """Convert the model options in a checkpoint to plain values, without paths of files for training alone.

    ``extracts`` says whether the model is a sentence extractor. Raises InputError if the architecture is not part of
    this project, or an option does not have a plain value.
    """
    given = vars(convert_options_to_namespace(cfg))
    options = {name: None if _OUTSIDE.search(name) else value for name, value in given.items() if name != "_name"}
    check_model_options(architecture, options, _MOST, extracts)
    return options


def check_model_options(architecture: str, options: Dict[str, Any], largest: int, extracts: bool = False) -> None:
    """Check model options that come from an untrusted source.

    ``largest`` is the largest dimension of any weight in the model, which no layer size can exceed. Raises InputError
    if an option does not exist or has an invalid value.
    """
    declared = _list_declared_options(architecture, extracts)
    for name, value in options.items():
        if name not in declared:
            raise InputError(f"{architecture} has no option {name[:60]!r} in this version of fairseq-etads")
        if not _is_valid_value(name, value, declared[name], largest):
            raise InputError(f"the option {name} of {architecture} cannot be {str(value)[:60]!r}")


def _is_valid_value(name: str, value: Any, default: Any, largest: int) -> bool:
    if _OUTSIDE.search(name) or value is None:
        return value is None
    if name.startswith("extractor_") and value == default:
        return True  # the weights have these sizes only if the model has an extractor
    if isinstance(default, str) and name in ("encoder_layers", "decoder_layers"):
        return isinstance(value, str) and _are_valid_convolutions(value, largest)
    if name == "decoder_attention":
        return isinstance(value, str) and _FLAGS.fullmatch(value) is not None
    if isinstance(value, bool) or isinstance(default, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if isinstance(value, (int, float)):
        is_width, is_count = bool(_WIDTH.search(name)), bool(_COUNT.search(name))
        most = largest if is_width else _MOST_LAYERS if is_count else _MOST
        return abs(value) <= most and (isinstance(value, int) or not (is_width or is_count))
    if isinstance(value, list):
        return len(value) <= 100 and all(type(number) is int and 0 <= number <= _MOST for number in value)
    return isinstance(value, str) and _WORD.fullmatch(value) is not None


def _are_valid_convolutions(text: str, largest: int) -> bool:
    """Return whether a string, such as "[(512, 3)] * 20", describes convolutions with valid sizes."""
    try:
        return all(max(layer) <= largest for layer in parse_convolutions(text, ""))
    except ValueError:
        return False


_OF_EXTRACTOR = "name a run that etads-shorten has used to shorten the documents"


class LoadedFolder(NamedTuple):
    """Loaded contents of a model folder or run."""

    config: FolderConfig
    model: Any  # in evaluation mode, on the CPU, in float32
    task: SummarizationTask  # contains the dictionaries and the truncation lengths
    tokenizer: TextTokenizer  # converts raw text to words and back
    subwords: Any  # fairseq's --bpe object, which converts words to subwords and back, or None
    shortlist: Optional[Shortlist]
    extractor: Optional["LoadedExtractor"] = None
    content: Optional[ContentModel] = None  # re-ranks hypotheses; the content model of an extractor belongs to it


class LoadedExtractor(NamedTuple):
    """Loaded extractor of a model folder or run."""

    loaded: LoadedFolder
    picking: Optional[SentencePickingSettings]  # None if it was never used to shorten documents
    content: Optional[ContentModel] = None  # chooses the sentences of summaries


def load_folder(folder: Path, is_extractor: bool = False) -> LoadedFolder:
    """Load a model folder that was created with etads-export. No code from the folder is run.

    ``is_extractor`` marks the folder of an extractor, which lies inside the folder of a summariser. Raises InputError
    if the folder is not a model folder, is damaged or incomplete, or was created by a later version.
    """
    config = read_config(folder)
    _verify_file_checksums(folder, config)
    weights = WeightsFile(folder / WEIGHTS, config.weights["shared"], ADVICE)
    largest = max((size for shape in weights.shapes.values() for size in shape), default=0)
    try:
        extracts = is_extractor or config.architecture in list_architectures(extract=True)
        check_model_options(config.architecture, config.model, largest, extracts)
    except InputError as error:
        raise InputError(f"{folder / CONFIG}: {error}. {ADVICE}") from None
    task = make_task(folder, config)
    try:
        # config.json may specify any number of layers, so the size of the model is limited while it is built.
        with torch.random.fork_rng(devices=[]), weights.limit_model():
            model: Any = task.build_model(OmegaConf.create({**config.model, "_name": config.architecture}))
    # The type of the error depends on which library first reads the invalid option: fairseq, torch or OmegaConf.
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise InputError(f"{folder / CONFIG}: no model can be built from its options ({reason}). {ADVICE}") from None
    model.load_state_dict(weights.read_weights(model.state_dict()), strict=True)
    extra: Dict[str, Path] = {}
    extractor = None
    if not is_extractor:
        extracts = isinstance(model, SentenceExtractor)
        inside = folder if extracts else folder / EXTRACTOR
        if inside.is_dir():
            picking = SentencePickingSettings.read(inside / PICKING, ADVICE)
            content = ContentModel.load(inside / CONTENT, ADVICE) if (inside / CONTENT).is_file() else None
            extractor = LoadedExtractor(load_folder(inside, is_extractor=True), picking, content)
        extra = {name: folder / name for name in (SHORTLIST, CONTENT) if (folder / name).is_file() and not extracts}
    subwords = {option: folder / name for option, name in config.subword_files.items()}
    loaded = _complete(config, model, task, subwords, extra, extractor)
    if loaded.content is not None and loaded.content.of_extractor:
        raise InputError(f"{folder / CONTENT} needs an extractor's probabilities. {ADVICE}")
    return loaded


def load_tokenisation(folder: Path) -> LoadedFolder:
    """Load what turns documents into tokens from a model folder, without its weights, extractor and other files."""
    config = read_config(folder)
    files = {option: folder / name for option, name in config.subword_files.items()}
    return _complete(config, torch.nn.Identity(), make_task(folder, config), files, {})


def _complete(
    config: FolderConfig,
    model: Any,
    task: SummarizationTask,
    subwords: Mapping[str, Path],
    extra: Mapping[str, Path],
    extractor: Optional[LoadedExtractor] = None,
) -> LoadedFolder:
    """Load what belongs to a model: its tokeniser, subwords, shortlist and content model."""
    shortlist = content = None
    if SHORTLIST in extra:
        shortlist = read_shortlist(extra[SHORTLIST], task.source_dictionary, task.target_dictionary, "shortlist")
    if CONTENT in extra:
        content = ContentModel.load(extra[CONTENT], ADVICE)
    encoder = build_subword_encoder(config.text["subwords"], subwords, ADVICE)
    options = {f"text_{name}": value for name, value in config.text.items() if name != "subwords"}
    tokenizer = TextTokenizer(TextTokenizerConfig(**options))
    return LoadedFolder(config, model.eval(), task, tokenizer, encoder, shortlist, extractor, content)


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


def make_task(folder: Path, config: FolderConfig) -> SummarizationTask:
    """Create the task ``summarization`` with the dictionaries in a model folder, as fairseq does for a checkpoint.

    Raises InputError if a dictionary is damaged or does not belong to the model.
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


class TrainedModel(NamedTuple):
    """A model in a checkpoint."""

    model: Any
    cfg: Any  # training configuration
    task: SummarizationTask  # contains the dictionaries
    config: FolderConfig  # contents of a model folder's config.json, without options of the model and of decoding


def load_checkpoint(
    path: Path, data: Optional[Path], option: str = "--checkpoint", truncate_source: Optional[int] = None
) -> Tuple[Any, Any, SummarizationTask]:
    """Load the model in a checkpoint, its training configuration and its task.

    Data folder and number of tokens to read from each document are those of the training if they are None. Raises
    InputError, which names ``option``, if the checkpoint is damaged, does not belong to the data, or contains a model
    of another kind.
    """
    overrides = {"data": data and str(data), "truncate_source": truncate_source}
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        models, cfg, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], {"init_from": None, **given})
    except InputError:
        raise
    except (OSError, ValueError, RuntimeError, LookupError, TypeError, AttributeError, AssertionError) as error:
        raise InputError(f"{option} {path}: {' '.join(str(error).split())[:500]}") from None
    if not isinstance(task, SummarizationTask):
        raise InputError(f"{option} {path}: was not trained with --task summarization")
    return models[0], cfg, task


def load_trained_model(source: RunFiles, is_extractor: bool = False) -> TrainedModel:
    """Load the model of a run, with the settings of its model folder. Raises InputError as :func:`load_checkpoint`."""
    option = "--extractor" if is_extractor else "--checkpoint"
    model, cfg, task = load_checkpoint(source.checkpoint, source.data, option)
    if is_extractor and not isinstance(model, SentenceExtractor):
        raise InputError(
            f"--extractor {source.checkpoint}: not a sentence extractor (--arch pooled_extractor, sentence_extractor)"
        )
    given = {name.replace("-", "_"): value for name, value in source.text_options.items()}
    kind = given.get("bpe")
    if kind is not None and kind not in SUBWORDS:
        raise InputError(f"subwords of the kind {kind} cannot be exported; supported kinds: {', '.join(SUBWORDS)}")
    settings = {name: given.get(name, value) for name, value in vars(TextTokenizerConfig()).items() if name != "_name"}
    text = {name[len("text_") :]: v if isinstance(v, bool) else str(v) for name, v in settings.items()}
    state = task.state_dict()
    names = ("truncate_source", "truncate_target", "source_dictionary", "target_dictionary", "factor_dictionaries")
    of_task = {name: state[name] for name in (*names, *(["summary_lengths"] if "summary_lengths" in state else []))}
    of_task["left_pad_source"] = bool(cfg.task.left_pad_source)
    if source.documents is not None:
        frequencies = WordFrequencies(get_known_word_counts(task.source_dictionary))
        found = compute_surprisal_percentiles(source.documents, frequencies, task.truncate_source)
        of_task.update({} if found is None else {"document_surprisal": found})
    architecture = str(getattr(cfg.model, "_name", None) or getattr(cfg.model, "arch", None))
    return TrainedModel(
        model, cfg, task, FolderConfig(architecture, {}, of_task, {**text, "subwords": kind}, {}, {}, {})
    )


def load_run(source: RunFiles, is_extractor: bool = False) -> LoadedFolder:
    """Load the model of a run, with its tokeniser, extractor, content model and decoding defaults.

    Raises InputError if a file is damaged, or does not belong to the others.
    """
    model, _, task, config = load_trained_model(source, is_extractor)
    extra: Mapping[str, Path] = {}
    extractor = None
    if not is_extractor:
        extra = source.extra_files
        config.decoding.update(choose_decoding_defaults(source, task, {}))
    if source.extractor is not None:
        picking, content = source.extractor.extra_files[PICKING], source.extractor.extra_files.get(CONTENT)
        extractor = LoadedExtractor(
            load_run(source.extractor, is_extractor=True),
            SentencePickingSettings.read(picking, _OF_EXTRACTOR) if picking.is_file() else None,
            None if content is None else ContentModel.load(content, f"create it with etads-content {content.parent}"),
        )
    subwords = {option: source.get_subword_file(option) for option in config.subword_files}
    return _complete(config, model, task, subwords, extra, extractor)


def choose_decoding_defaults(source: RunFiles, task: SummarizationTask, given: Dict[str, Any]) -> Dict[str, Any]:
    """Add the missing decoding defaults to the options ``given``.

    The lengths of summaries are those in recipe.json or, without a recipe, depend on the lengths of the training
    summaries. If there is a content model, ``choose`` and ``beam`` use it: the content model of an extractor chooses
    sentences, and the content model of a summariser chooses a hypothesis. Raises InputError if ``choose`` is set
    without a content model.
    """
    of_extractor = None if source.extractor is None else source.extractor.extra_files.get(CONTENT)
    paths = {"content": of_extractor, "extract": of_extractor, "hypothesis": source.extra_files.get(CONTENT)}
    if source.extracts:
        if of_extractor is None:
            raise InputError(f"{source.run}: its extractor has no content model; create it with etads-content")
        paths = {"extract": of_extractor}
    found = [choose for choose, path in paths.items() if path is not None]
    choose = given.get("choose", found[0] if found else "none")
    if choose not in (*found, *([] if source.extracts else ["none"])):
        of_run = "this run" if choose == "hypothesis" else "an extractor's run"
        raise InputError(f"--choose {choose}: needs a content model of {of_run}; create one with etads-content")
    decoding = {"beam": BEAMS[choose], "choose": choose, **given} if found else dict(given)
    if source.extracts:
        return {**FOLDER_DEFAULTS, **decoding}
    limits = {name: source.decoding[name] for name in ("min_len", "max_len") if name in source.decoding}
    decoding = {**{name: value for name, value in source.decoding.items() if name not in limits}, **decoding}
    if not limits and task.summary_lengths is not None:
        limits = choose_length_bounds(task.summary_lengths, task.truncate_target)
    longest = source.longest_summary
    learnt = task.truncate_target if longest is None else min(task.truncate_target, longest)
    defaults = {**FOLDER_DEFAULTS, "max_len": min(max(learnt, decoding.get("min_len", 0)), LARGEST)}
    by_summaries = {**defaults, **limits, **decoding}
    fits = by_summaries["min_len"] <= by_summaries["max_len"]
    if limits and fits and not decoding.get("exact_length") and not decoding.get("max_len_a"):
        return by_summaries
    return {**defaults, **decoding}
