"""Options of ``--task summarization``, including the decoding options."""

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Dict, Optional, Type

from fairseq.data.indexed_dataset import get_available_dataset_impl
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.dataclass.configs import GenerationConfig
from omegaconf import II, DictConfig

from ..fairseq_fixes.generation import parse_replacements_file
from ..platform.option_checks import Bounds
from ..platform.optional_parts import list_option_values
from ..search.generator import OWN_OPTIONS
from ..search.options import DECLARED, format_unknown_option
from ..text.words import WORD_KINDS
from .validation import POST_PROCESS

TRUNCATE_SOURCE = 400
TRUNCATE_TARGET = 100
"""Default maximum lengths of documents (400 tokens) and summaries (100 tokens); see ETADS, section 4.1."""

_IN_VALIDATION = ("--eval-rouge", "--validation-samples")


def _add_decoding_options(config: Type[Any]) -> Type[Any]:
    """Add the fields of :class:`DecodingOptions` that neither fairseq declares nor only model folders have.

    Options with choices become enumerations, so that fairseq's parser lists their choices.
    """
    for name, option in DECLARED.items():
        if option.metadata["of"] == "task":
            choices = option.metadata.get("choices")
            kind = ChoiceEnum(choices) if choices else option.type
            config.__annotations__[name] = Optional[kind] if choices and option.default is None else kind
            setattr(config, name, field(default=option.default, metadata=option.metadata))
    return config


@dataclass
@_add_decoding_options
class SummarizationConfig(FairseqDataclass):
    """Options of ``--task summarization``, including fields of :class:`DecodingOptions`."""

    data: Optional[str] = field(
        default=None,
        metadata={
            "help": "data folder created by fairseq-preprocess, or several folders separated by colons, which are "
            "read in turn, one per epoch"
        },
    )
    source_lang: Optional[str] = field(
        default=None,
        metadata={
            "help": "suffix of the document files (default: detected from the files in DATA)",
            "argparse_alias": "-s",
        },
    )
    target_lang: Optional[str] = field(
        default=None,
        metadata={
            "help": "suffix of the summary files (default: detected from the files in DATA)",
            "argparse_alias": "-t",
        },
    )
    truncate_source: Optional[int] = field(
        default=None,
        metadata={
            "bounds": Bounds(1, what="tokens"),
            "help": f"use only the first N tokens of each document (default: {TRUNCATE_SOURCE} for training, the "
            "checkpoint's value for generation)",
        },
    )
    truncate_target: Optional[int] = field(
        default=None,
        metadata={
            "bounds": Bounds(1, what="tokens"),
            "help": f"use only the first N tokens of each summary (default: {TRUNCATE_TARGET} for training, the "
            "checkpoint's value for generation)",
        },
    )
    no_end_if_cut: bool = field(
        default=False,
        metadata={
            "help": "do not train the model to generate the end symbol after summaries that --truncate-target cuts "
            "(See et al. 2017)"
        },
    )
    init_from: Optional[str] = field(
        default=None,
        metadata={
            "help": "initialise weights with matching names from this checkpoint, even if its model has no pointer or "
            "coverage; ignored when training is resumed"
        },
    )
    extractor: Optional[str] = field(
        default=None,
        metadata={
            "help": "checkpoint of a sentence extractor from which to initialise the extractor of "
            "--sentence-attention extractor; ignored when training is resumed"
        },
    )
    labels: Optional[str] = field(
        default=None,
        metadata={
            "help": "folder containing the labels from etads-labels for content selectors, --extraction-loss and "
            "--selection-loss (default: DATA)"
        },
    )
    auxiliary_task: str = field(
        default="none",
        metadata={
            "help": "auxiliary task to train in addition to summarisation: none, "
            f"{', '.join(list_option_values('--auxiliary-task'))}, or a task that another package registers"
        },
    )
    auxiliary_data: Optional[str] = field(
        default=None,
        metadata={
            "needs": ("--auxiliary-task",),
            "help": "folder containing the data of the auxiliary task, such as pairs of sentences in files "
            "*train*.jsonl (as in SNLI and MultiNLI) or *train*.tsv (as written by etads-nli)",
        },
    )
    auxiliary_every: str = field(
        default="100:10",
        metadata={
            "needs": ("--auxiliary-task",),
            "help": "schedule of the auxiliary task in the form N:M: M auxiliary updates after every N summarisation "
            "updates",
        },
    )
    auxiliary_batch_size: int = field(
        default=64,
        metadata={
            "needs": ("--auxiliary-task",),
            "bounds": Bounds(1, what="pairs"),
            "help": "number of pairs per batch in the auxiliary task",
        },
    )
    auxiliary_words: ChoiceEnum(list(WORD_KINDS)) = field(  # type: ignore[valid-type]
        default="ptb",
        metadata={
            "needs": ("--auxiliary-task",),
            "help": "tokenisation of the auxiliary task's texts; should match the value of etads-prepare --words for "
            "the documents",
        },
    )
    auxiliary_keep_case: bool = field(
        default=False,
        metadata={"needs": ("--auxiliary-task",), "help": "do not lower-case the texts of the auxiliary task"},
    )
    auxiliary_hide_digits: bool = field(
        default=False,
        metadata={
            "needs": ("--auxiliary-task",),
            "help": "replace each digit in the texts of the auxiliary task with #, as in Gigaword's headlines",
        },
    )
    left_pad_source: bool = field(default=False, metadata={"help": "pad documents on the left"})
    left_pad_target: bool = field(default=False, metadata={"help": "pad summaries on the left"})
    upsample_primary: int = field(
        default=1,
        metadata={
            "bounds": Bounds(1),
            "help": "number of times per epoch to use the first part of the training set (train) if there are further "
            "parts (train1, …)",
        },
    )
    sort_within: int = field(
        default=0,
        metadata={
            "help": "in each epoch, shuffle all pairs, then sort them by length within blocks of N * --batch-size "
            "pairs (Nallapati et al.: 10). With 0, sort all pairs once and shuffle the batches, as fairseq does",
        },
    )
    save_interval_minutes: float = field(
        default=10.0,
        metadata={
            "help": "save checkpoint_last.pt every N minutes without validation, so that an interrupted run can be "
            "resumed (0: save only at --save-interval and --save-interval-updates)"
        },
    )
    eval_rouge: bool = field(
        default=False,
        metadata={
            "help": "generate summaries during validation and log rouge1, rouge2 and rougeL (F1), for use with "
            "options such as --best-checkpoint-metric rouge2 --maximize-best-checkpoint-metric"
        },
    )
    eval_rouge_samples: int = field(
        default=200,
        metadata={
            "needs": ("--eval-rouge",),
            "bounds": Bounds(1),
            "help": "number of documents, from the start of each validation set, for which --eval-rouge generates "
            "summaries",
        },
    )
    eval_rouge_args: str = field(
        default="{}",
        metadata={
            "needs": _IN_VALIDATION,
            "help": 'JSON object containing generation options for validation, such as \'{"beam": 4, "min_len": 35}\' '
            "(default: the defaults of fairseq-generate, except that max_len_b is --truncate-target)",
        },
    )
    eval_rouge_post_process: ChoiceEnum(POST_PROCESS) = field(  # type: ignore[valid-type]
        default="auto",
        metadata={
            "needs": _IN_VALIDATION,
            "help": "method for joining subwords into words during validation (default: detected from the dictionary)",
        },
    )
    eval_rouge_detok: Optional[str] = field(
        default=None,
        metadata={
            "needs": _IN_VALIDATION,
            "help": "tokeniser for detokenising summaries before ROUGE scoring, such as etads or moses (default: "
            "none; ROUGE splits at punctuation in any case)",
        },
    )
    eval_rouge_detok_args: str = field(
        default="{}",
        metadata={
            "needs": ("--eval-rouge-detok",),
            "help": "JSON object containing options of the --eval-rouge-detok tokeniser",
        },
    )
    eval_rouge_print_samples: int = field(
        default=0,
        metadata={"needs": ("--eval-rouge",), "bounds": Bounds(0), "help": "deprecated alias of --validation-samples"},
    )
    validation_samples: int = field(
        default=0,
        metadata={
            "bounds": Bounds(0),
            "help": "number of documents, from the start of each validation set, to log in each validation together "
            "with their generated and reference summaries; --eval-rouge-args sets the generation options, even without "
            "--eval-rouge",
        },
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
_TASK_OPTIONS = tuple(name for name, option in DECLARED.items() if option.metadata["of"] == "task")


def collect_search_options(cfg: Any, args: Any, source_dictionary: Any) -> Dict[str, Any]:
    """Collect the arguments of SummaryGenerator that fairseq does not pass to generators.

    Args:
        cfg: the options of the summarisation task.
        args: fairseq's generation options. If ``args`` also contains arguments of SummaryGenerator, they override the
            options of the task.

    Raises:
        ValueError: ``args`` is a configuration object that contains an option unknown to both fairseq and this project.
    """
    known = {*_FROM_CALLS, *_TASK_OPTIONS, *(option.name for option in fields(GenerationConfig))}
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
