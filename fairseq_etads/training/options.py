"""Options of ``--task summarization``, including the decoding options."""

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Dict, Optional, Type

from fairseq.data.indexed_dataset import get_available_dataset_impl
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.dataclass.configs import GenerationConfig
from omegaconf import II, DictConfig

from ..platform.compat import replacements_file
from ..platform.option_checks import Bounds
from ..platform.systems import names_of
from ..search.options import DecodingOptions, setting_of
from ..search.settings import SearchSettings
from ..text.words import WORD_KINDS
from .validation import POST_PROCESS

TRUNCATE_SOURCE = 400
TRUNCATE_TARGET = 100
"""Default maximum lengths of documents (400 tokens) and summaries (100 tokens), see ETADS, section 4.1."""

_IN_VALIDATION = ("--eval-rouge", "--validation-samples")


def _with_choices(config: Type[Any]) -> Type[Any]:
    """Convert inherited options with choices to enumeration types, so that fairseq's parser lists their choices."""
    for option in fields(DecodingOptions):
        choices = option.metadata.get("choices")
        if choices:
            kind = ChoiceEnum(choices)
            config.__annotations__[option.name] = kind if option.default is not None else Optional[kind]
            setattr(config, option.name, field(default=option.default, metadata=option.metadata))
    return config


@dataclass
@_with_choices
class SummarizationConfig(DecodingOptions, FairseqDataclass):
    """Options of ``--task summarization``. The decoding options are inherited from :class:`DecodingOptions`."""

    data: Optional[str] = field(
        default=None,
        metadata={
            "help": "data folder from fairseq-preprocess (or several, separated by colons, read in turn by epochs)"
        },
    )
    source_lang: Optional[str] = field(
        default=None,
        metadata={"help": "suffix of the document files (default: found in DATA)", "argparse_alias": "-s"},
    )
    target_lang: Optional[str] = field(
        default=None,
        metadata={"help": "suffix of the summary files (default: found in DATA)", "argparse_alias": "-t"},
    )
    truncate_source: Optional[int] = field(
        default=None,
        metadata={
            "bounds": Bounds(1, what="tokens"),
            "help": f"read the first N tokens of a document (default: {TRUNCATE_SOURCE} in training, the checkpoint's "
            "value in generation)",
        },
    )
    truncate_target: Optional[int] = field(
        default=None,
        metadata={
            "bounds": Bounds(1, what="tokens"),
            "help": f"use the first N tokens of a summary (default: {TRUNCATE_TARGET} in training, the checkpoint's "
            "value in generation)",
        },
    )
    no_end_if_cut: bool = field(
        default=False,
        metadata={
            "help": "do not train the model to end summaries where --truncate-target cuts them (See et al. 2017)"
        },
    )
    init_from: Optional[str] = field(
        default=None,
        metadata={
            "help": "initialise the model's weights from this checkpoint where the names match, for example from a "
            "model without pointer or coverage; ignored when training resumes"
        },
    )
    extractor: Optional[str] = field(
        default=None,
        metadata={
            "help": "initialise the extractor of --sentence-attention extractor from this checkpoint of a sentence "
            "extractor; ignored when training resumes"
        },
    )
    labels: Optional[str] = field(
        default=None,
        metadata={
            "help": "folder with the labels from etads-labels, for content selectors, --extraction-loss and "
            "--selection-loss (default: DATA)"
        },
    )
    auxiliary_task: str = field(
        default="none",
        metadata={
            "help": f"second task of the model: none, {', '.join(names_of('--auxiliary-task'))}, or one that another "
            "package registers"
        },
    )
    auxiliary_data: Optional[str] = field(
        default=None,
        metadata={
            "needs": ("--auxiliary-task",),
            "help": "folder with the data of the auxiliary task, such as pairs of sentences in files *train*.jsonl "
            "(as in SNLI and MultiNLI) or *train*.tsv (as in etads-nli)",
        },
    )
    auxiliary_every: str = field(
        default="100:10",
        metadata={
            "needs": ("--auxiliary-task",),
            "help": "N:M, to run M updates of the auxiliary task after every N updates of summarisation",
        },
    )
    auxiliary_batch_size: int = field(
        default=64,
        metadata={
            "needs": ("--auxiliary-task",),
            "bounds": Bounds(1, what="pairs"),
            "help": "number of pairs per batch of the auxiliary task",
        },
    )
    auxiliary_words: ChoiceEnum(list(WORD_KINDS)) = field(  # type: ignore[valid-type]
        default="ptb",
        metadata={
            "needs": ("--auxiliary-task",),
            "help": "tokenisation of the auxiliary task's texts, as in etads-prepare --words for the documents",
        },
    )
    auxiliary_keep_case: bool = field(
        default=False, metadata={"needs": ("--auxiliary-task",), "help": "do not lower-case the auxiliary task's texts"}
    )
    auxiliary_hide_digits: bool = field(
        default=False,
        metadata={
            "needs": ("--auxiliary-task",),
            "help": "replace each digit of the auxiliary task's texts by #, as in Gigaword's headlines",
        },
    )
    left_pad_source: bool = field(default=False, metadata={"help": "pad documents on the left"})
    left_pad_target: bool = field(default=False, metadata={"help": "pad summaries on the left"})
    upsample_primary: int = field(
        default=-1, metadata={"help": "repeat the first of several combined training sets N times"}
    )
    sort_within: int = field(
        default=0,
        metadata={
            "help": "shuffle in every epoch, and sort N batches of --batch-size at a time by length (0: sort all pairs "
            "once and shuffle the batches, as fairseq does; Nallapati et al.: 10)",
        },
    )
    save_interval_minutes: float = field(
        default=10.0,
        metadata={
            "help": "save checkpoint_last.pt every N minutes without validation, so that an interrupted training "
            "can continue from it (0: save only at --save-interval and --save-interval-updates)"
        },
    )
    eval_rouge: bool = field(
        default=False,
        metadata={
            "help": "generate summaries in validation and log rouge1, rouge2 and rougeL (F1), for example to use "
            "--best-checkpoint-metric rouge2 --maximize-best-checkpoint-metric"
        },
    )
    eval_rouge_samples: int = field(
        default=200,
        metadata={
            "needs": ("--eval-rouge",),
            "bounds": Bounds(1),
            "help": "use only the first N documents of each validation set",
        },
    )
    eval_rouge_args: str = field(
        default="{}",
        metadata={
            "needs": _IN_VALIDATION,
            "help": 'generation options as JSON, such as \'{"beam": 4, "min_len": 35}\' (default: the defaults of '
            "fairseq-generate, except that max_len_b is --truncate-target)",
        },
    )
    eval_rouge_post_process: ChoiceEnum(POST_PROCESS) = field(  # type: ignore[valid-type]
        default="auto",
        metadata={
            "needs": _IN_VALIDATION,
            "help": "method of joining subwords to words (default: detected from the dictionary)",
        },
    )
    eval_rouge_detok: Optional[str] = field(
        default=None,
        metadata={
            "needs": _IN_VALIDATION,
            "help": "tokeniser with which summaries are detokenised before scoring: etads, moses, … (default: none; "
            "ROUGE splits at punctuation in any case)",
        },
    )
    eval_rouge_detok_args: str = field(
        default="{}", metadata={"needs": ("--eval-rouge-detok",), "help": "options of --eval-rouge-detok as JSON"}
    )
    eval_rouge_print_samples: int = field(
        default=0,
        metadata={"needs": ("--eval-rouge",), "bounds": Bounds(0), "help": "old name of --validation-samples"},
    )
    validation_samples: int = field(
        default=0,
        metadata={
            "bounds": Bounds(0),
            "help": "in each validation, log the first N documents of each validation set with their summaries and "
            "references as text; --eval-rouge-args sets the generation options, even without --eval-rouge",
        },
    )
    save_dir: str = II("checkpoint.save_dir")
    restore_file: str = II("checkpoint.restore_file")
    finetune_from_model: Optional[str] = II("checkpoint.finetune_from_model")
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


_PASSED_BY_FAIRSEQ = (
    "beam",
    "lenpen",
    "unkpen",
    "unnormalized",
    "max_len_a",
    "max_len_b",
    "min_len",
    "temperature",
    "match_source_len",
    "lm_weight",
    "no_repeat_ngram_size",
)
"""Decoding options that fairseq's tasks already pass to generators."""
_PASSED_SETTINGS = {*map(setting_of, _PASSED_BY_FAIRSEQ), "normalize_scores"}
_OWN_NAMES = tuple(name for name in SearchSettings.option_names() if name not in _PASSED_SETTINGS)
_SEARCHES = (
    "constraints", "diverse_beam_groups", "diverse_beam_strength", "diversity_rate", "sampling", "sampling_topk",
    "sampling_topp", "score_reference",
)  # fmt: skip


def search_options(cfg: Any, args: Any, source_dictionary: Any) -> Dict[str, Any]:
    """Collect the arguments of SummaryGenerator that fairseq does not pass to generators.

    Args:
        cfg: the options of the summarisation task.
        args: fairseq's generation options. If ``args`` also contains options of :class:`SearchSettings`, they override
            the options of the task.

    Raises:
        ValueError: ``args`` is a configuration object that contains an option unknown to both fairseq and this project.
    """
    _refuse_unknown(args)
    options = {name: getattr(cfg, name) for name in _OWN_NAMES if hasattr(cfg, name)}
    options["keep_attention"] = False  # fairseq's commands need attention weights only for alignments
    options["max_len_per_document"] = True
    options.update({name: getattr(args, name) for name in _OWN_NAMES if hasattr(args, name)})
    for name, value in options.items():  # fairseq represents choices as enumerations instead of strings
        options[name] = str(value) if isinstance(value, Enum) else value
    # fairseq's hub configuration converts True and False to strings.
    given = {True: "", "True": "", False: None, "False": None}.get(
        options.get("replace_unk"), options.get("replace_unk")
    )
    return {
        **options,
        "print_alignment": options.get("print_alignment") or None,
        "replace_unk": getattr(args, "replace_unknown", cfg.replace_unknown) or given is not None,
        # With a replacement dictionary (--replace-unk FILE), fairseq itself replaces words, based on our alignment.
        "source_dictionary": None if replacements_file(given or "") else source_dictionary,
    }


def _refuse_unknown(args: Any) -> None:
    """Raise ValueError if a configuration object contains an unknown generation option.

    Argparse namespaces are not checked, because they also contain other kinds of options.
    """
    if not isinstance(args, DictConfig):
        return
    ours = {*_OWN_NAMES, "replace_unknown", "shortlist", "content_model", "content_weight"}
    unknown = sorted({str(name) for name in args} - ours - {field.name for field in fields(GenerationConfig)})
    if unknown:
        known = ", ".join(sorted({*ours, *_PASSED_BY_FAIRSEQ, *_SEARCHES}))
        raise ValueError(f"there is no decoding option {', '.join(unknown)}; choose from {known}")
