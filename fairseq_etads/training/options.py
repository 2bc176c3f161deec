"""Options of ``--task summarization``, including the decoding options, and checks of their combinations."""

import logging
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, Collection, Dict, Iterable, Optional, Type

from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY
from fairseq.data.indexed_dataset import get_available_dataset_impl
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.dataclass.configs import GenerationConfig
from omegaconf import II, DictConfig

from ..fairseq_fixes.generation import parse_replacements_file
from ..layers.decoder_output import Capabilities, TrainingCriterion, get_pointer, get_pointer_kind
from ..platform.command_options import (
    NOT_NEGATIVE,
    SIZE,
    Bounds,
    check_options,
    format_option,
    get_given_options,
    iterate_defaults,
    list_enabled_options,
    option,
)
from ..platform.optional_parts import list_option_values
from ..search.generator import OWN_OPTIONS
from ..search.options import DECLARED, check_decoding_options, format_unknown_option
from ..text.words import WORD_KINDS
from .losses import SummarizationNLLConfig
from .validation import POST_PROCESS

TRUNCATE_SOURCE = 400
TRUNCATE_TARGET = 100
"""Default maximum lengths of documents (400 tokens) and summaries (100 tokens); see ETADS, section 4.1."""

LABELS_ARE_READ, WRITES_SUMMARIES = "--criterion selection_nll", "an architecture that writes summaries"
"""Properties of a training run that options can need. Other criterions can also read labels."""
TASK_DECODING = tuple(name for name, each in DECLARED.items() if each.metadata["of"] == "task")
"""The decoding options that neither fairseq declares nor only model folders have."""
_IN_VALIDATION = ("--eval-rouge", "--validation-samples")
_FOR_SUMMARISERS = {"needs": (WRITES_SUMMARIES,), "without": "on an architecture that does not write summaries"}


def _add_decoding_options(config: Type[Any]) -> Type[Any]:
    """Add :data:`TASK_DECODING` as fields. Options with choices become enumerations, which fairseq's parser lists."""
    for name in TASK_DECODING:
        each = DECLARED[name]
        choices = each.metadata.get("choices")
        kind = ChoiceEnum(choices) if choices else each.type
        config.__annotations__[name] = Optional[kind] if choices and each.default is None else kind
        setattr(config, name, option(each.default, **each.metadata))
    return config


@dataclass
@_add_decoding_options
class SummarizationConfig(FairseqDataclass):
    """Options of ``--task summarization``, including fields of :class:`DecodingOptions`."""

    data: Optional[str] = option(
        None,
        "data folder created by fairseq-preprocess, or several folders separated by colons, which are "
        "read in turn, one per epoch",
    )
    source_lang: Optional[str] = option(
        None, "suffix of the document files (default: detected from the files in DATA)", argparse_alias="-s"
    )
    target_lang: Optional[str] = option(
        None, "suffix of the summary files (default: detected from the files in DATA)", argparse_alias="-t"
    )
    truncate_source: Optional[int] = option(
        None,
        f"use only the first N tokens of each document (default: {TRUNCATE_SOURCE} for training, the "
        "checkpoint's value for generation)",
        bounds=Bounds(1, what="tokens"),
    )
    truncate_target: Optional[int] = option(
        None,
        f"use only the first N tokens of each summary (default: {TRUNCATE_TARGET} for training, the "
        "checkpoint's value for generation)",
        bounds=Bounds(1, what="tokens"),
    )
    no_end_if_cut: bool = option(
        False,
        "do not train the model to generate the end symbol after summaries that --truncate-target cuts "
        "(See et al. 2017)",
    )
    init_from: Optional[str] = option(
        None,
        "initialise weights with matching names from this checkpoint, even if its model has no pointer or "
        "coverage; ignored when training is resumed",
    )
    extractor: Optional[str] = option(
        None,
        "checkpoint of a sentence extractor from which to initialise the extractor of "
        "--sentence-attention extractor; ignored when training is resumed",
    )
    labels: Optional[str] = option(
        None,
        "folder containing the labels from etads-labels for content selectors, --extraction-loss and "
        "--selection-loss (default: DATA)",
        needs=(LABELS_ARE_READ, "--criterion extractor_nll", "--extraction-loss", "--selection-loss"),
    )
    auxiliary_task: str = option(
        "none",
        "auxiliary task to train in addition to summarisation: none, "
        f"{', '.join(list_option_values('--auxiliary-task'))}, or a task that another package registers",
    )
    auxiliary_data: Optional[str] = option(
        None,
        "folder containing the data of the auxiliary task, such as pairs of sentences in files "
        "*train*.jsonl (as in SNLI and MultiNLI) or *train*.tsv (as written by etads-nli)",
        needs=("--auxiliary-task",),
    )
    auxiliary_every: str = option(
        "100:10",
        "schedule of the auxiliary task in the form N:M: M auxiliary updates after every N summarisation updates",
        needs=("--auxiliary-task",),
    )
    auxiliary_batch_size: int = option(
        64,
        "number of pairs per batch in the auxiliary task",
        needs=("--auxiliary-task",),
        bounds=Bounds(1, what="pairs"),
    )
    auxiliary_words: ChoiceEnum(list(WORD_KINDS)) = option(  # type: ignore[valid-type]
        "ptb",
        "tokenisation of the auxiliary task's texts; should match the value of etads-prepare --words for the documents",
        needs=("--auxiliary-task",),
    )
    auxiliary_keep_case: bool = option(
        False, "do not lower-case the texts of the auxiliary task", needs=("--auxiliary-task",)
    )
    auxiliary_hide_digits: bool = option(
        False,
        "replace each digit in the texts of the auxiliary task with #, as in Gigaword's headlines",
        needs=("--auxiliary-task",),
    )
    left_pad_source: bool = option(False, "pad documents on the left")
    left_pad_target: bool = option(False, "pad summaries on the left")
    upsample_primary: int = option(
        1,
        "number of times per epoch to use the first part of the training set (train) if there are further "
        "parts (train1, …)",
        bounds=SIZE,
    )
    sort_within: int = option(
        0,
        "in each epoch, shuffle all pairs, then sort them by length within blocks of N * --batch-size "
        "pairs (Nallapati et al.: 10). With 0, sort all pairs once and shuffle the batches, as fairseq does",
        bounds=NOT_NEGATIVE,
        needs=("--batch-size",),
    )
    save_interval_minutes: float = option(
        10.0,
        "save checkpoint_last.pt every N minutes without validation, so that an interrupted run can be "
        "resumed (0: save only at --save-interval and --save-interval-updates)",
    )
    eval_rouge: bool = option(
        False,
        "generate summaries during validation and log rouge1, rouge2 and rougeL (F1), for use with "
        "options such as --best-checkpoint-metric rouge2 --maximize-best-checkpoint-metric",
        **_FOR_SUMMARISERS,
    )
    eval_rouge_samples: int = option(
        200,
        "number of documents, from the start of each validation set, for which --eval-rouge generates summaries",
        needs=("--eval-rouge",),
        bounds=SIZE,
    )
    eval_rouge_args: str = option(
        "{}",
        'JSON object containing generation options for validation, such as \'{"beam": 4, "min_len": 35}\' '
        "(default: the defaults of fairseq-generate, except that max_len_b is --truncate-target)",
        needs=_IN_VALIDATION,
    )
    eval_rouge_post_process: ChoiceEnum(POST_PROCESS) = option(  # type: ignore[valid-type]
        "auto",
        "method for joining subwords into words during validation (default: detected from the dictionary)",
        needs=_IN_VALIDATION,
    )
    eval_rouge_detok: Optional[str] = option(
        None,
        "tokeniser for detokenising summaries before ROUGE scoring, such as etads or moses (default: "
        "none; ROUGE splits at punctuation in any case)",
        needs=_IN_VALIDATION,
    )
    eval_rouge_detok_args: str = option(
        "{}", "JSON object containing options of the --eval-rouge-detok tokeniser", needs=("--eval-rouge-detok",)
    )
    eval_rouge_print_samples: int = option(
        0, "deprecated alias of --validation-samples", needs=("--eval-rouge",), bounds=NOT_NEGATIVE
    )
    validation_samples: int = option(
        0,
        "number of documents, from the start of each validation set, to log in each validation together "
        "with their generated and reference summaries; --eval-rouge-args sets the generation options, even without "
        "--eval-rouge",
        bounds=NOT_NEGATIVE,
        **_FOR_SUMMARISERS,
    )
    save_dir: str = II("checkpoint.save_dir")
    restore_file: str = II("checkpoint.restore_file")
    checkpoint_suffix: str = II("checkpoint.checkpoint_suffix")
    finetune_from_model: Optional[str] = II("checkpoint.finetune_from_model")
    continue_once: Optional[str] = II("checkpoint.continue_once")
    best_checkpoint_metric: str = II("checkpoint.best_checkpoint_metric")
    maximize_best_checkpoint_metric: bool = II("checkpoint.maximize_best_checkpoint_metric")
    seed: int = II("common.seed")
    clip_norm: float = II("optimization.clip_norm")
    train_subset: str = II("dataset.train_subset")
    batch_size: Optional[int] = II("dataset.batch_size")
    dataset_impl: Optional[ChoiceEnum(get_available_dataset_impl())] = II(  # type: ignore[valid-type]
        "dataset.dataset_impl"
    )
    required_seq_len_multiple: int = II("dataset.required_seq_len_multiple")


_FROM_CALLS = ("max_len", "tokens_to_suppress", "replace_unk", *OWN_OPTIONS)
"""Arguments of SummaryGenerator that fairseq's tasks do not pass to generators."""


def collect_search_options(cfg: Any, args: Any, source_dictionary: Any) -> Dict[str, Any]:
    """Collect the arguments of SummaryGenerator that fairseq does not pass to generators.

    Args:
        cfg: the options of the summarisation task.
        args: fairseq's generation options. If ``args`` also contains arguments of SummaryGenerator, they override the
            options of the task.

    Raises:
        ValueError: ``args`` is a configuration object that contains an option unknown to both fairseq and this project.
    """
    known = {*_FROM_CALLS, *TASK_DECODING, *(option.name for option in fields(GenerationConfig))}
    # Argparse namespaces also contain other kinds of options.
    for name in args if isinstance(args, DictConfig) else ():
        if name not in known:
            raise ValueError(format_unknown_option(name, sorted(known - {"_name"})))
    own = {name: getattr(cfg, name) for name in OWN_OPTIONS if hasattr(cfg, name)}
    # fairseq's commands need attention weights only for alignments
    own.update(keep_attention=False, max_len_per_document=True)
    own.update({name: getattr(args, name) for name in _FROM_CALLS if hasattr(args, name)})
    for name, value in own.items():  # fairseq represents choices as enumerations instead of strings
        own[name] = str(value) if isinstance(value, Enum) else value
    # fairseq's hub configuration converts True and False to strings.
    given = own.get("replace_unk")
    given = {True: "", "True": "", False: None, "False": None}.get(given, given)
    return {
        **own,
        "print_alignment": own.get("print_alignment") or None,
        "replace_unk": getattr(args, "replace_unknown", cfg.replace_unknown) or given is not None,
        # With a replacement dictionary (--replace-unk FILE), fairseq replaces unknown words, using our alignment.
        "source_dictionary": None if parse_replacements_file(given or "") else source_dictionary,
    }


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
"""Rules for decoding options that only fairseq's searches read; see :mod:`fairseq_etads.platform.command_options`."""
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
    for name in _DEPRECATED:
        if name in given:
            logger.warning(f"{format_option(name, True)} has no effect: fairseq keeps it for old scripts only")
