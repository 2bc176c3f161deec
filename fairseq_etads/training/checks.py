"""Options that would be ignored, because another one is not given or the model has no use for them, are refused.

An option counts as given if its value is not the default: the default changes nothing, whoever wrote it down.
"""

import logging
from dataclasses import fields
from typing import Any, Dict, Iterable, Iterator, Optional, Tuple

from fairseq.dataclass.configs import GenerationConfig
from omegaconf import OmegaConf

from ..layers.capabilities import decoder_capabilities, pointer_of
from ..search.generator import SummaryGenerator
from ..search.options import DecodingOptions, facts_of, without_effect
from .nll_options import LABELLED, OURS, SELECTING, SummarizationNLLConfig, check_criterion
from .options import SummarizationConfig

logger = logging.getLogger(__name__)

_ONLY_ITERATIVE = (
    *("iter_decode_eos_penalty", "iter_decode_max_iter", "iter_decode_force_max_iter", "iter_decode_with_beam"),
    *("iter_decode_with_external_reranker", "retain_iter_history", "decoding_format", "print_step"),
)
_ONLY_TWO_PASSES = ("beam_mt", "max_len_a_mt", "max_len_b_mt", "lenpen_mt")
_DEPRECATED = ("no_early_stop", "no_beamable_mm")
_SCORING = ("samples", "print_samples")
_AUXILIARY = ("data", "every", "batch_size", "words", "keep_case")
_GENERATING = ("args", "post_process", "detok", "detok_args")


class CheckedOptions:
    """A mixin for a fairseq task: checks options when all that they depend on is known."""

    cfg: Any
    _summaries: Any
    _trained: Optional[Dict[str, Any]]
    _pointer = "none"
    _candidates = 0
    _adaptive_softmax = False
    _drops_layers = False
    _selected_by: Tuple[str, ...] = ()
    _has_extractor = False
    _selects_sentences = False
    _has_closed_book = False

    def build_model(self, cfg: Any, *args: Any, **kwargs: Any) -> Any:
        """Build the model, and remember what the checks and the data must know of it."""
        parent: Any = super()
        model = parent.build_model(cfg, *args, **kwargs)
        capabilities = decoder_capabilities(model)
        self._selected_by = getattr(model, "criterions", ())
        self._pointer = self._pointer if capabilities.pointer is None else capabilities.pointer.kind
        self._candidates = self._candidates or capabilities.large_vocabulary_trick
        self._adaptive_softmax = self._adaptive_softmax or capabilities.has_adaptive_softmax
        self._drops_layers = self._drops_layers or capabilities.drops_layers
        self._has_extractor = self._has_extractor or capabilities.has_extractor
        self._selects_sentences = self._selects_sentences or capabilities.selects_sentences
        self._has_closed_book = self._has_closed_book or capabilities.has_closed_book
        return model

    def build_criterion(self, cfg: Any, *args: Any, **kwargs: Any) -> Any:
        """Build the criterion.

        Raises:
            ValueError: it does not go with the model (see :func:`check_criterion`), or an option has no effect.
        """
        parent: Any = super()
        name = str(getattr(cfg, "_name", None) or getattr(cfg, "criterion", None))
        check_criterion(name, self._pointer, bool(self._candidates), self._adaptive_softmax)
        learns_labels = name in LABELLED or any(getattr(cfg, loss, 0) for loss in ("extraction_loss", "selection_loss"))
        check_selector(name, self._selected_by, self._trained is None, self.cfg, learns_labels)
        if self._trained is None:  # a model is to be trained
            check_task_options(self.cfg)
            if name in OURS:
                check_loss_options(
                    cfg,
                    self._pointer,
                    drops_layers=self._drops_layers,
                    has_extractor=self._has_extractor,
                    selects_sentences=self._selects_sentences,
                    has_closed_book=self._has_closed_book,
                )
            if self._summaries is not None:  # now, and not in the first validation
                check_decoding(self.cfg, self._summaries.options, self._pointer != "none")
        return parent.build_criterion(cfg, *args, **kwargs)

    def build_generator(self, models: Any, args: Any, seq_gen_cls: Any = None, *rest: Any, **kwargs: Any) -> Any:
        """Build a generator; ValueError if an option has no effect on it."""
        parent: Any = super()
        check_selection(self.cfg.selection, args, models)
        for name in ("shortlist", "extractive_weights", "recombine"):
            value = getattr(self.cfg, name)
            if value and getattr(args, "score_reference", False):
                option = f"--{name.replace('_', '-')} {value}"
                raise ValueError(f"{option} has no effect with --score-reference: choose one")
        if seq_gen_cls is SummaryGenerator:
            check_decoding(self.cfg, args, any(pointer_of(model) is not None for model in models))
        return parent.build_generator(models, args, seq_gen_cls, *rest, **kwargs)

    @staticmethod
    def check_model_overrides(overrides: Dict[str, Any]) -> None:
        """Check ``--model-overrides`` before a checkpoint is loaded into this task.

        Raises:
            ValueError: one is an option of the task, which comes from the command line and not from the checkpoint.
        """
        own = {name for name, _ in _defaults(SummarizationConfig)} - {"data", "source_lang", "target_lang"}
        found = sorted(own & overrides.keys())
        if found:
            option = found[0].replace("_", "-")
            raise ValueError(
                f'--model-overrides "{found[0]}" has no effect: it is an option of the task, so give --{option} itself'
            )


def check_loss_options(
    cfg: Any,
    pointer: str,
    drops_layers: bool,
    has_extractor: bool = False,
    selects_sentences: bool = False,
    has_closed_book: bool = False,
) -> None:
    """Check the options of this project's criterions before a training.

    Args:
        cfg: these options. pointer: the model's --pointer. drops_layers: whether it has --decoder-layerdrop.
        has_extractor: whether it has --sentence-attention extractor. selects_sentences: --sentence-selector.
        has_closed_book: --closed-book-decoder.

    Raises:
        ValueError: an option has no effect, or the model cannot do what it asks for.
    """
    given = _given(cfg, _defaults(SummarizationNLLConfig))
    coverage_loss = given.get("coverage_loss")
    for option in ("coverage_loss_start", "coverage_loss_ramp"):
        _need(given, option, coverage_loss, "--coverage-loss")
    _need(given, "switch_loss", pointer == "switch", "--pointer switch")
    for option in ("extraction_loss", "inconsistency_loss"):
        _need(given, option, has_extractor, "--sentence-attention extractor")
    _need(given, "closed_book_weight", has_closed_book, "--closed-book-decoder, an option of recurrent models")
    _need(given, "inconsistency_top", given.get("inconsistency_loss"), "--inconsistency-loss")
    if given.get("selection_loss") and given.get("extraction_loss"):
        raise ValueError(
            "--selection-loss and --extraction-loss exclude one another: they learn from two kinds of labels, which "
            "have one file name (etads-labels --kind distribution, and extract)"
        )
    _need(given, "selection_loss", selects_sentences, "a model with --sentence-selector")
    if "length_normalised" in given and cfg.sentence_avg:
        raise ValueError("--sentence-avg has no effect with --length-normalised, which also divides by summaries")
    if coverage_loss and pointer == "none" and drops_layers:
        raise ValueError(
            "--coverage-loss needs the attention of the decoder's last layer, which --decoder-layerdrop leaves out of "
            "some updates: choose one, or a model with --pointer"
        )


def check_selector(
    criterion: str, selected_by: Tuple[str, ...], trains: bool, task_cfg: Any, learns_labels: bool
) -> None:
    """Raise ValueError if a criterion does not go with a content selector, or an option has no effect on it.

    Args:
        criterion: its name. selected_by: the criterions that train the model, if it selects words or sentences; else
            none. trains: whether it is to be trained. learns_labels: whether the criterion reads labels.
    """
    selects = bool(selected_by)
    if criterion not in selected_by if selects else criterion in SELECTING:
        model = "an architecture that selects words or sentences" if selects else "one that writes summaries"
        advice = ""
        if {criterion, *selected_by} == {"extractor_nll", "extractor_rl"}:
            given = "with" if "extractor_rl" in selected_by else "without"
            model, advice = f"an extractor {given} --learn-to-stop", ", or train the other one"
        needed = selected_by[0] if selects else "summarization_nll"
        raise ValueError(f"--criterion {criterion} does not go with {model}: choose --criterion {needed}{advice}")
    if trains and task_cfg.labels and not learns_labels:
        raise ValueError(
            f"--labels {task_cfg.labels} has no effect without --criterion selection_nll or extractor_nll, "
            "--extraction-loss or --selection-loss"
        )
    if trains and selects and (task_cfg.eval_rouge or task_cfg.validation_samples):
        option = "eval_rouge" if task_cfg.eval_rouge else "validation_samples"
        raise ValueError(
            f"{_shown(option, getattr(task_cfg, option))} has no effect on an architecture that writes no summaries"
        )


def check_selection(selection: Optional[str], args: Any, models: Iterable[Any]) -> None:
    """Raise ValueError if a model cannot write summaries, or not with the words that ``selection`` names.

    Args:
        selection: --selection, or None. args: fairseq's options of generation.
    """
    for model in models:
        if getattr(model, "label_unit", None) is not None:
            command = "etads-rewrite" if getattr(model, "labels_in_order", False) else "etads-select"
            raise ValueError(f"a model that selects words or sentences writes no summaries: use it with {command}")
        pointer = pointer_of(model)
        if selection and (pointer is None or pointer.kind != "soft"):
            raise ValueError(f"--selection {selection} needs models with --pointer soft, which copy what is selected")
    if selection and getattr(args, "score_reference", False):
        raise ValueError(f"--selection {selection} has no effect with --score-reference: choose one")


def check_task_options(task_cfg: Any) -> None:
    """Check the options of the task before a training: ValueError if one about validation has no effect.

    Options of decoding are for later commands, so a warning is enough.
    """
    given = _given(task_cfg, _defaults(SummarizationConfig))
    generates = task_cfg.eval_rouge or task_cfg.validation_samples
    for option in _SCORING:
        _need(given, f"eval_rouge_{option}", task_cfg.eval_rouge, "--eval-rouge")
    for option in _GENERATING:
        _need(given, f"eval_rouge_{option}", generates, "--eval-rouge or --validation-samples")
    for option in _AUXILIARY:
        _need(given, f"auxiliary_{option}", str(task_cfg.auxiliary_task) != "none", "--auxiliary-task")
    _need(given, "eval_rouge_detok_args", task_cfg.eval_rouge_detok, "--eval-rouge-detok")
    ignored = [_shown(option.name, given[option.name]) for option in fields(DecodingOptions) if option.name in given]
    if ignored and not generates:
        logger.warning(
            f"{', '.join(ignored)}: an option of decoding has no effect in training without --eval-rouge or "
            "--validation-samples; give it to fairseq-generate"
        )


def check_decoding(task_cfg: Any, args: Any, has_pointer: bool) -> None:
    """Check the options of a search.

    Args:
        task_cfg: the task's options. args: fairseq's options of generation; options of the task that a single call was
            given are among them and replace the task's. has_pointer: whether a model can copy.

    Raises:
        ValueError: an option has no effect.
    """
    own = list(_defaults(SummarizationConfig))
    given = {**_given(task_cfg, own), **_given(args, _defaults(GenerationConfig))}
    present = {name: getattr(args, name, getattr(task_cfg, name, default)) for name, default in own}
    present.update({name: value for name, value in given.items() if name not in present})
    idle = without_effect(given, present, facts_of(has_pointer, bool(present["allow_unk"])))
    if idle:
        raise ValueError(idle)
    for options, reason in (
        (_ONLY_ITERATIVE, "is for models that do not write from left to right"),
        (_ONLY_TWO_PASSES, "is for models that translate speech in two passes"),
    ):
        for option in options:
            if option in given:
                raise ValueError(f"{_shown(option, given[option])} has no effect: it {reason}")
    for option in _DEPRECATED:
        if option in given:
            logger.warning(f"{_shown(option, True)} has no effect: fairseq keeps it for old scripts only")


def _defaults(config: type) -> Iterable[Tuple[str, Any]]:
    """Name and default of each option that is declared here and not taken from another part of fairseq's options."""
    for option in fields(config):
        if not option.name.startswith("_") and not str(option.default).startswith("${"):
            yield option.name, option.default


def _given(cfg: Any, defaults: Iterable[Tuple[str, Any]]) -> Dict[str, Any]:
    """The options whose value is not the default, with their values."""
    return dict(_changes(cfg, defaults))


def _changes(cfg: Any, defaults: Iterable[Tuple[str, Any]]) -> Iterator[Tuple[str, Any]]:
    for name, default in defaults:
        value = getattr(cfg, name, default)
        if value is None and default is None:
            continue
        if OmegaConf.is_config(value) or isinstance(value, (list, tuple, dict)):
            yield name, value
        elif isinstance(default, (bool, int, float)) or default is None:
            if value != default:
                yield name, value
        elif str(value) != str(default):  # enumerations are compared by their values
            yield name, value


def _need(given: Dict[str, Any], option: str, active: Any, needed: str) -> None:
    """Raise ValueError if an option is given without what it needs."""
    if option in given and not active:
        raise ValueError(f"{_shown(option, given[option])} has no effect without {needed}")


def _shown(option: str, value: Any) -> str:
    """An option as on a command line."""
    flag = f"--{option.replace('_', '-')}"
    return flag if value is True else f"{flag} {value}"
