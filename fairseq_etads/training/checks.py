"""Checks that reject incompatible options and options that have no effect."""

import logging
from typing import Any, Collection, Dict, Iterable, Optional

from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY
from fairseq.dataclass.configs import GenerationConfig

from ..layers.decoder_output import Capabilities, TrainingCriterion, get_pointer, get_pointer_kind
from ..platform.option_checks import (
    check_options,
    format_option,
    get_given_options,
    iterate_defaults,
    list_enabled_options,
)
from ..search.options import check_decoding_options
from .losses import SummarizationNLLConfig
from .options import LABELS_ARE_READ, TASK_DECODING, WRITES_SUMMARIES, SummarizationConfig

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


def check_training(
    cfg: Any, task_cfg: Any, capabilities: Capabilities, trained_by: Optional[TrainingCriterion]
) -> None:
    """Check the options of the criterion (``cfg``) and the task before training starts.

    ``trained_by`` is the criterion for training the model if it selects words or sentences, and None otherwise.

    Raises:
        ValueError: an option has no effect, or the model does not support it.
    """
    check_criterion_and_model(cfg, capabilities, trained_by)
    kind = CRITERION_REGISTRY.get(get_criterion_name(cfg))
    has = list_enabled_options({loss: getattr(cfg, loss, 0) for loss in ("extraction_loss", "selection_loss")})
    has |= {LABELS_ARE_READ} if getattr(kind, "reads_labels", False) else set()
    check_task_options(task_cfg, has | ({WRITES_SUMMARIES} if trained_by is None else set()))
    options: Any = CRITERION_DATACLASS_REGISTRY.get(get_criterion_name(cfg))
    if options is not None:
        check_options(cfg, options, capabilities)
    if hasattr(kind, "check_options"):
        kind.check_options(cfg, capabilities)
    if "--closed-book-decoder" in capabilities and not getattr(cfg, "closed_book_weight", 0):
        raise ValueError(
            "--closed-book-decoder has no effect without --closed-book-weight, an option of "
            "--criterion summarization_nll"
        )


def check_criterion_and_model(cfg: Any, capabilities: Capabilities, trained_by: Optional[TrainingCriterion]) -> None:
    """Raise ValueError if the criterion cannot train or evaluate the model.

    See :func:`check_training` for the arguments.
    """
    name = get_criterion_name(cfg)
    needed, model = trained_by or ("summarization_nll", "one that writes summaries")
    is_for_selectors = getattr(CRITERION_REGISTRY.get(name), "trains_selectors", False)
    # Criterions with the options of SummarizationNLLConfig can compute the likelihood of copied and candidate words.
    ours = issubclass(CRITERION_DATACLASS_REGISTRY.get(name, object), SummarizationNLLConfig)
    pointer, clusters = get_pointer_kind(capabilities), "--adaptive-softmax-cutoff"
    for is_unsuitable, reason, choice in (
        (name != needed and (trained_by or is_for_selectors), f"does not go with {model}", needed),
        (pointer == "switch" and not ours, "does not train the switch of --pointer switch", needed),
        (
            pointer != "none" and name.startswith("label_smoothed"),
            f"would require --pointer {pointer} to copy words of other documents",
            f"{needed}, which also has --label-smoothing",
        ),
        (
            "--large-vocabulary-trick" in capabilities and not ours,
            "would need words that --large-vocabulary-trick leaves out",
            needed,
        ),
        (name == "adaptive_loss" and clusters not in capabilities, f"needs a model with {clusters}", needed),
        (
            name != "adaptive_loss" and clusters in capabilities,
            f"would treat the states of a model with {clusters} as logits",
            "adaptive_loss, or leave out the cutoffs",
        ),
    ):
        if is_unsuitable:
            raise ValueError(f"--criterion {name} {reason}: choose --criterion {choice}")


def get_criterion_name(cfg: Any) -> str:
    """Return the name of the criterion that fairseq will build from these options."""
    return str(getattr(cfg, "_name", None) or getattr(cfg, "criterion", None))


def check_models_can_summarise(selection: Optional[str], models: Iterable[Any]) -> None:
    """Raise ValueError if a model cannot generate summaries or does not support a value of --selection."""
    for model in models:
        if getattr(model, "training_label_type", None) is not None:
            command = "etads-rewrite" if getattr(model, "labels_in_order", False) else "etads-select"
            raise ValueError(f"a model that selects words or sentences cannot write summaries: use it with {command}")
        pointer = get_pointer(model)
        if selection and (pointer is None or pointer.kind != "soft"):
            raise ValueError(f"--selection {selection} needs models with --pointer soft, which copy the selected words")


def check_task_options(task_cfg: Any, has: Collection[str] = ()) -> None:
    """Check before training that the task options have an effect. Raises ValueError if one of them has none.

    For decoding options, the function logs a warning instead, because a later command may use these options. ``has``
    contains mechanisms of the model and options of the criterion.
    """
    check_options(task_cfg, SummarizationConfig, has, skip=TASK_DECODING)
    given = get_given_options(task_cfg, SummarizationConfig)
    ignored = [format_option(option, given[option]) for option in TASK_DECODING if option in given]
    if ignored and not (task_cfg.eval_rouge or task_cfg.validation_samples):
        logger.warning(
            f"{', '.join(ignored)}: a decoding option has no effect in training without --eval-rouge or "
            "--validation-samples; give it to fairseq-generate"
        )


def check_decoding(task_cfg: Any, args: Any, has_pointer: bool) -> None:
    """Check the values and combinations of decoding options in fairseq's commands.

    Options of the task in ``args``, fairseq's generation options, override those in ``task_cfg``. ``has_pointer`` tells
    whether at least one of the models has a pointer.

    Raises:
        ValueError: a decoding option has an invalid value, excludes another option or has no effect.
    """
    own = list(iterate_defaults(SummarizationConfig))
    given = {**get_given_options(task_cfg, SummarizationConfig), **get_given_options(args, GenerationConfig)}
    present = {name: getattr(args, name, getattr(task_cfg, name, default)) for name, default in own}
    present = {**given, **present}
    check_decoding_options(present, given, has_pointer, rules=_OF_FAIRSEQ)
    for option in _DEPRECATED:
        if option in given:
            logger.warning(f"{format_option(option, True)} has no effect: fairseq keeps it for old scripts only")
