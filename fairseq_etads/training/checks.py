"""Checks that reject incompatible options and options that have no effect."""

import logging
from typing import Any, Dict, Iterable, Optional

from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY
from fairseq.dataclass.configs import GenerationConfig

from ..layers.decoder_output import Capabilities, TrainingCriterion, get_pointer, get_pointer_kind
from ..platform.option_checks import (
    check_option_requirements,
    check_option_values,
    format_option,
    get_given_options,
    iterate_defaults,
)
from ..search.options import DECLARED, check_options
from .losses import check_criterion_supports_model
from .options import SummarizationConfig

logger = logging.getLogger(__name__)

_FOR_MODELS = {
    "that do not write from left to right": (
        *("iter_decode_eos_penalty", "iter_decode_max_iter", "iter_decode_force_max_iter", "iter_decode_with_beam"),
        *("iter_decode_with_external_reranker", "retain_iter_history", "decoding_format", "print_step"),
    ),
    "that translate speech in two passes": ("beam_mt", "max_len_a_mt", "max_len_b_mt", "lenpen_mt"),
}
_OF_FAIRSEQ: Dict[str, Dict[str, Any]] = {
    "diverse_beam_strength": {"needs": ("--diverse-beam-groups",)},
    "retain_dropout_modules": {"needs": ("--retain-dropout",)},
    **{
        name: {"needs": (kind,), "without": f"on this project's models: it is for models {kind}"}
        for kind, names in _FOR_MODELS.items()
        for name in names
    },
}
"""Rules for decoding options that only fairseq's searches read; see :mod:`fairseq_etads.platform.option_checks`."""
_DEPRECATED = ("no_early_stop", "no_beamable_mm")
_DECODING = tuple(name for name, option in DECLARED.items() if option.metadata["of"] == "task")


def check_training(
    cfg: Any, task_cfg: Any, capabilities: Capabilities, trained_by: Optional[TrainingCriterion]
) -> None:
    """Check the options of the task and the criterion before training starts.

    Args:
        cfg: the options of the criterion.
        task_cfg: the options of the summarisation task.
        capabilities: the mechanisms that the model supports.
        trained_by: the criterion for training the model if the model selects words or sentences, and None otherwise.

    Raises:
        ValueError: an option has no effect, or the model does not support it.
    """
    name = get_criterion_name(cfg)
    check_criterion_and_model(cfg, task_cfg, capabilities, trained_by, trains=True)
    check_task_options(task_cfg)
    options: Any = CRITERION_DATACLASS_REGISTRY.get(name)
    if options is not None:
        check_option_values(cfg, options)
        check_option_requirements(cfg, options, capabilities)
    check_own_options = getattr(get_criterion_class(cfg), "check_options", None)
    if check_own_options is not None:
        check_own_options(cfg, capabilities)
    if "--closed-book-decoder" in capabilities and not getattr(cfg, "closed_book_weight", 0):
        raise ValueError(
            "--closed-book-decoder has no effect without --closed-book-weight, an option of "
            "--criterion summarization_nll"
        )


def check_criterion_and_model(
    cfg: Any, task_cfg: Any, capabilities: Capabilities, trained_by: Optional[TrainingCriterion], trains: bool
) -> None:
    """Raise ValueError if the criterion is incompatible with the model.

    See :func:`check_training` for the arguments. ``trains`` is False if the model is only evaluated.
    """
    name = get_criterion_name(cfg)
    has_trick, has_clusters = (o in capabilities for o in ("--large-vocabulary-trick", "--adaptive-softmax-cutoff"))
    check_criterion_supports_model(name, get_pointer_kind(capabilities), has_trick, has_clusters)
    check_selector_criterion(cfg, trained_by, trains, task_cfg)


def get_criterion_name(cfg: Any) -> str:
    """Return the name of the criterion that fairseq will build from these options."""
    return str(getattr(cfg, "_name", None) or getattr(cfg, "criterion", None))


def get_criterion_class(cfg: Any) -> Any:
    """Return the class of the criterion that fairseq will build from these options, or None if it does not exist."""
    return CRITERION_REGISTRY.get(get_criterion_name(cfg))


def check_selector_criterion(cfg: Any, trained_by: Optional[TrainingCriterion], trains: bool, task_cfg: Any) -> None:
    """Raise ValueError if a content selector and the criterion do not match, or if an option has no effect.

    Args:
        cfg: the options of the criterion.
        trained_by: the criterion for training the model if the model selects words or sentences, and None otherwise.
        trains: whether the model will be trained rather than only evaluated.
        task_cfg: the options of the summarisation task.
    """
    criterion, kind = get_criterion_name(cfg), get_criterion_class(cfg)
    needed, model = trained_by or ("summarization_nll", "one that writes summaries")
    if criterion != needed and (trained_by is not None or getattr(kind, "trains_selectors", False)):
        raise ValueError(f"--criterion {criterion} does not go with {model}: choose --criterion {needed}")
    learns_labels = getattr(kind, "reads_labels", False) or any(
        getattr(cfg, loss, 0) for loss in ("extraction_loss", "selection_loss")
    )
    if trains and task_cfg.labels and not learns_labels:
        raise ValueError(
            f"--labels {task_cfg.labels} has no effect without --criterion selection_nll or extractor_nll, "
            "--extraction-loss or --selection-loss"
        )
    if trains and trained_by is not None and (task_cfg.eval_rouge or task_cfg.validation_samples):
        option = "eval_rouge" if task_cfg.eval_rouge else "validation_samples"
        raise ValueError(
            f"{format_option(option, getattr(task_cfg, option))} has no effect on an architecture "
            "that does not write summaries"
        )


def check_models_can_summarise(selection: Optional[str], models: Iterable[Any]) -> None:
    """Raise ValueError if a model cannot generate summaries or does not support --selection.

    Args:
        selection: the value of the option --selection, or None if it is not set.
        models: the models that will generate the summaries.
    """
    for model in models:
        if getattr(model, "training_label_type", None) is not None:
            command = "etads-rewrite" if getattr(model, "labels_in_order", False) else "etads-select"
            raise ValueError(f"a model that selects words or sentences cannot write summaries: use it with {command}")
        pointer = get_pointer(model)
        if selection and (pointer is None or pointer.kind != "soft"):
            raise ValueError(f"--selection {selection} needs models with --pointer soft, which copy the selected words")


def check_task_options(task_cfg: Any) -> None:
    """Check before training that the task options have an effect. Raises ValueError if one of them has none.

    For decoding options, the function logs a warning instead, because a later command may use these options.
    """
    check_option_requirements(task_cfg, SummarizationConfig, skip=_DECODING)
    given = get_given_options(task_cfg, SummarizationConfig)
    ignored = [format_option(option, given[option]) for option in _DECODING if option in given]
    if ignored and not (task_cfg.eval_rouge or task_cfg.validation_samples):
        logger.warning(
            f"{', '.join(ignored)}: a decoding option has no effect in training without --eval-rouge or "
            "--validation-samples; give it to fairseq-generate"
        )


def check_decoding(task_cfg: Any, args: Any, has_pointer: bool) -> None:
    """Check the values and combinations of decoding options in fairseq's commands.

    Args:
        task_cfg: the options of the summarisation task.
        args: fairseq's generation options. If ``args`` also contains task options, they override those in ``task_cfg``.
        has_pointer: whether at least one of the models has a pointer.

    Raises:
        ValueError: a decoding option has an invalid value, excludes another option or has no effect.
    """
    own = list(iterate_defaults(SummarizationConfig))
    given = {**get_given_options(task_cfg, SummarizationConfig), **get_given_options(args, GenerationConfig)}
    present = {name: getattr(args, name, getattr(task_cfg, name, default)) for name, default in own}
    present = {**given, **present}
    check_options(present, given, has_pointer, rules=_OF_FAIRSEQ)
    for option in _DEPRECATED:
        if option in given:
            logger.warning(f"{format_option(option, True)} has no effect: fairseq keeps it for old scripts only")
