"""Load the model of a training run as it would be loaded from the model folder that ``etads-export`` creates of it."""

from pathlib import Path
from typing import Any, Dict, NamedTuple, Optional, Tuple

from fairseq import checkpoint_utils

from ... import plugin  # noqa: F401  # registers the architectures, and makes loading checkpoints safe
from ...models.selector import SentenceExtractor
from ...platform.errors import InputError
from ...search.content.model import FILE as CONTENT
from ...search.content.model import ContentModel
from ...search.lengths import choose_length_bounds
from ...search.options import BEAMS, FOLDER_DEFAULTS, LARGEST
from ...text.picking import FILE as PICKING
from ...text.picking import SentencePickingSettings
from ...text.subwords import SUBWORDS
from ...text.tokenizer import TextTokenizerConfig
from ...training.task import SummarizationTask
from ...vocabulary.dictionary import get_known_word_counts
from ...vocabulary.shortlist import read_shortlist
from ..surprisal import WordFrequencies, compute_surprisal_percentiles
from .config import SHORTLIST, FolderConfig
from .loading import LoadedExtractor, LoadedFolder, build_subword_encoder, build_text_tokenizer
from .run_files import RunFiles

_OF_EXTRACTOR = "name a run that etads-shorten has used to shorten the documents"


class TrainedModel(NamedTuple):
    """A model in a checkpoint.

    Attributes:
        model: the model.
        cfg: training configuration in the checkpoint.
        task: the summarisation task, which contains the dictionaries.
        config: contents of a model folder's config.json, without options of the model and of decoding.
    """

    model: Any
    cfg: Any
    task: SummarizationTask
    config: FolderConfig


def load_checkpoint(
    path: Path, data: Optional[Path], option: str = "--checkpoint", truncate_source: Optional[int] = None
) -> Tuple[Any, Any, SummarizationTask]:
    """Load the model in a checkpoint, its training configuration and its task.

    Args:
        data: folder of binarised data, or None for the data with which the model was trained.
        option: name of the option that specifies the checkpoint, for error messages.
        truncate_source: number of tokens to read from each document, or None for the number used in training.

    Raises:
        InputError: the checkpoint is damaged, does not belong to the data, or contains a model of another kind.
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
    text = _make_text_settings(source.text_options)
    config = FolderConfig(get_architecture(cfg), {}, _get_task_state(cfg, task), text, {}, {}, {})
    return TrainedModel(model, cfg, task, config)


def load_run(source: RunFiles, is_extractor: bool = False) -> LoadedFolder:
    """Load the model of a run, with its tokeniser, extractor, content model and decoding defaults.

    Raises:
        InputError: a file is damaged, or does not belong to the others (see :func:`load_trained_model`).
    """
    model, _, task, config = load_trained_model(source, is_extractor)
    if not is_extractor:
        config.decoding.update(choose_decoding_defaults(source, task, {}))
        config.task.update(measure_surprisals(source, task))
    options = {name.replace("-", "_"): value for name, value in source.text_options.items()}
    kind = config.text["subwords"]
    subwords = build_subword_encoder(kind, {name: Path(options[name]) for name in config.subword_files})
    path = source.extra_files.get(SHORTLIST)
    shortlist = None if path is None else read_shortlist(path, task.source_dictionary, task.target_dictionary)
    extractor = None
    if source.extractor is not None:
        picking = source.extractor.extra_files[PICKING]
        extractor = LoadedExtractor(
            load_run(source.extractor, is_extractor=True),
            SentencePickingSettings.read(picking, _OF_EXTRACTOR) if picking.is_file() else None,
            _load_content_model(source.extractor),
        )
    content = None if is_extractor else _load_content_model(source)
    tokenizer = build_text_tokenizer(config)
    return LoadedFolder(config, model.eval(), task, tokenizer, subwords, shortlist, extractor, content)


def _load_content_model(source: RunFiles) -> Optional[ContentModel]:
    path = source.extra_files.get(CONTENT)
    return None if path is None else ContentModel.load(path, f"create it with etads-content {path.parent}")


def choose_decoding_defaults(source: RunFiles, task: SummarizationTask, given: Dict[str, Any]) -> Dict[str, Any]:
    """Add the missing decoding defaults to the options ``given``.

    The lengths of summaries are those in recipe.json or, without a recipe, depend on the lengths of the training
    summaries. If there is a content model, ``choose`` and ``beam`` use it: the content model of an extractor chooses
    sentences, and the content model of a summariser chooses a hypothesis.

    Raises:
        InputError: the content model is damaged, or ``choose`` is set without a content model.
    """
    paths = {
        "content": None if source.extractor is None else source.extractor.extra_files.get(CONTENT),
        "hypothesis": source.extra_files.get(CONTENT),
    }
    found = [choose for choose, path in paths.items() if path is not None]
    for of in (source, source.extractor):
        if of is not None:
            _load_content_model(of)
    choose = given.get("choose", found[0] if found else "none")
    if choose not in (*found, "none"):
        of_run = "an extractor's run" if choose == "content" else "this run"
        raise InputError(f"--choose {choose}: needs a content model of {of_run}; create one with etads-content")
    decoding = {"beam": BEAMS[choose], "choose": choose, **given} if found else dict(given)
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


def measure_surprisals(source: RunFiles, task: SummarizationTask) -> Dict[str, Any]:
    """Return the config.json entry for the surprisals of the training documents, or {} if there are no documents."""
    if source.documents is None:
        return {}
    frequencies = WordFrequencies(get_known_word_counts(task.source_dictionary))
    found = compute_surprisal_percentiles(source.documents, frequencies, task.truncate_source)
    return {} if found is None else {"document_surprisal": found}


def get_architecture(cfg: Any) -> str:
    """Return the name of the architecture in a checkpoint's configuration."""
    return str(getattr(cfg.model, "_name", None) or getattr(cfg.model, "arch", None))


def _get_task_state(cfg: Any, task: SummarizationTask) -> Dict[str, Any]:
    state = task.state_dict()
    names = ("truncate_source", "truncate_target", "source_dictionary", "target_dictionary", "factor_dictionaries")
    lengths = {"summary_lengths": state["summary_lengths"]} if "summary_lengths" in state else {}
    return {**{name: state[name] for name in names}, "left_pad_source": bool(cfg.task.left_pad_source), **lengths}


def _make_text_settings(options: Dict[str, Any]) -> Dict[str, Any]:
    """Return the contents of the section "text" in config.json."""
    given = {name.replace("-", "_"): value for name, value in options.items()}
    settings = {
        name[len("text_") :]: given.get(name, default)
        for name, default in vars(TextTokenizerConfig()).items()
        if name != "_name"
    }
    settings = {name: value if isinstance(value, bool) else str(value) for name, value in settings.items()}
    kind = given.get("bpe")
    if kind is not None and kind not in SUBWORDS:
        raise InputError(f"subwords of the kind {kind} cannot be exported; supported kinds: {', '.join(SUBWORDS)}")
    return {**settings, "subwords": kind}
