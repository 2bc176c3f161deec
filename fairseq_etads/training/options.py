"""Options of ``--task summarization``, including the decoding options."""

from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, Dict, Optional, Type

from fairseq.data.indexed_dataset import get_available_dataset_impl
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.dataclass.configs import GenerationConfig
from omegaconf import II, DictConfig

from ..fairseq_fixes.generation import parse_replacements_file
from ..platform.option_checks import NOT_NEGATIVE, SIZE, Bounds, option
from ..platform.optional_parts import list_option_values
from ..search.generator import OWN_OPTIONS
from ..search.options import DECLARED, format_unknown_option
from ..text.words import WORD_KINDS
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
