"""Declarations of all decoding options.

This module imports neither torch nor fairseq, so that ``--help`` is fast.

Each field has the name of the option in fairseq's commands. The metadata of a field can contain:

- ``help``: the help text of the option;
- ``bounds``, ``choices``, ``needs``, ``without``, ``excludes``: the conditions that are described in
  :mod:`fairseq_etads.platform.option_checks`. In addition, ``needs`` can require a kind of model (:data:`POINTER`,
  :data:`NO_POINTER`);
- ``least_in_call``: a lower bound that is checked in calls but not in fairseq's commands;
- ``setting``: the name of the option in :class:`~fairseq_etads.search.settings.SearchSettings` and in the arguments of
  ``SummaryGenerator``, if it differs from the field name;
- ``tuned``: the values that ``etads-tune`` tries;
- ``tunable``: False if ``etads-tune`` cannot tune the option.

``--task summarization`` inherits :class:`DecodingOptions`. The search settings, the options of a call
(``call_options.py``), the search space of ``etads-tune`` and the checks below are all based on these fields.
"""

from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any, Dict, Mapping, Optional

from ..platform.option_checks import SIZE, Bounds, find_option_conflict, join_choices, list_enabled_options
from ..platform.option_checks import format_option_name as format_option_name
from ..platform.optional_systems import find_required_system
from ..text.words import SENTENCE_MARK

LENGTH_KINDS = ("avg", "wu")
COVERAGE_KINDS = ("summary", "wu")
EARLY_STOPPING = ("admissible", "heuristic", "fairseq")
ALIGNMENTS = ("hard", "soft")
INFER_DTYPES = ("fp32", "bf16", "fp16", "int8", "auto")

LENGTH_PENALTY_BETA = 5.0
"""Default value of beta, the constant in equation 14 of Wu et al. 2016."""
LARGEST = 1_000_000
"""Upper bound for all numbers that are set in a call, such as the maximum number of tokens."""


POINTER, NO_POINTER = "a model with --pointer", "a model without --pointer"
"""The kinds of models that an option can require."""


def _make_option(default: Any, help: str, **metadata: Any) -> Any:
    return field(default=default, metadata={"help": help, **metadata})


@dataclass
class DecodingOptions:
    """Decoding options that this project adds to fairseq."""

    allow_unk: bool = _make_option(
        False, "allow models with a pointer to generate <unk> (default: they copy a word instead)", needs=(POINTER,)
    )
    replace_unknown: bool = _make_option(
        False,
        "replace each unknown word in a summary with the most attended word of the document, like fairseq's "
        "--replace-unk, which fairseq-generate does not accept for binarised data",
        setting="replace_unk",
    )
    coverage_penalty: float = _make_option(
        0.0,
        "weight of the coverage penalty in beam search (ETADS: 1; 0: off)",
        bounds=Bounds(0, what="(0: off)"),
        tuned=(0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
    )
    coverage_penalty_type: str = _make_option(
        "summary",
        "type of coverage penalty. summary: penalise document words that receive a total attention above 1; wu: "
        "penalise document words that receive a total attention below 1",
        choices=COVERAGE_KINDS,
        needs=("--coverage-penalty",),
    )
    stepwise_coverage_penalty: bool = _make_option(
        False, "apply the coverage penalty at every step of the beam search, not only to the final score"
    )
    length_penalty_type: str = _make_option(
        "avg",
        "type of length penalty, by which the log-probability of a summary Y is divided. With --lenpen A, the "
        "penalty is |Y|^A for avg and ((beta+|Y|)/(beta+1))^A for wu (ETADS: wu)",
        choices=LENGTH_KINDS,
        excludes={"--unnormalized": ""},
    )
    length_penalty_beta: float = _make_option(
        LENGTH_PENALTY_BETA,
        "constant beta in the length penalty of --length-penalty-type wu",
        bounds=Bounds(above=-1),
        needs=("--length-penalty-type wu",),
        tuned=tuple(float(number) for number in range(11)),
    )
    ngram_ignore_tokens: str = _make_option(
        "",
        "tokens exempt from --no-repeat-ngram-size, separated by spaces; n-grams that contain one of these tokens "
        "may repeat",
        needs=("--no-repeat-ngram-size",),
        tunable=False,
    )
    exact_length: int = _make_option(
        0,
        "generate exactly N tokens before the end symbol, and ignore --min-len (0: off)",
        bounds=Bounds(0, what="(0: off)"),
    )
    min_sentences: int = _make_option(
        0,
        f'minimum number of sentences in a summary; sentences are separated by "{SENTENCE_MARK}" (0: off)',
        bounds=Bounds(0, what="(0: off)"),
    )
    extractive_weights: str = _make_option(
        "",
        "five weights, separated by commas, for the log-probability of a word and the four features of ABS+: the "
        "word is in the document, ends a bigram of the document, ends a trigram of the document, or occurs in the "
        "document before the preceding summary word. release: the features and weights of the authors' code. "
        "release:A1,A2,A3,A4,A5: the features of the authors' code with other weights",
        tunable=False,
        excludes={"--score-reference": ""},
    )
    recombine: int = _make_option(
        0,
        "keep only the best of all hypotheses with the same last N tokens (ABS: 5; 0: off)",
        bounds=Bounds(0, what="(0: off)"),
        excludes={"--score-reference": ""},
    )
    selection: Optional[str] = _make_option(
        None,
        "folder containing the word probabilities from etads-select, which restrict copying with --pointer soft to "
        "probable words (Gehrmann et al. 2018; fairseq-generate only)",
    )
    selection_threshold: float = _make_option(
        0.15,
        "copy only words with a probability above X according to --selection",
        bounds=Bounds(below=1),
        needs=("--selection",),
    )
    selection_factor: float = _make_option(
        2.0,
        "factor by which --selection multiplies the probability of copying the selected words before renormalising",
        bounds=Bounds(above=0),
        needs=("--selection",),
    )
    shortlist: Optional[str] = _make_option(
        None,
        "shortlist file created by etads-shortlist; restricts the softmax to words that are frequent or associated "
        "with words of the document, which is faster with a large vocabulary (default: all words)",
        tunable=False,
        excludes={"--score-reference": ""},
    )
    content_model: Optional[str] = _make_option(
        None,
        "content model created by etads-content. Before the best hypothesis is chosen, --content-weight times the "
        "sum of expected ROUGE and consensus (mean ROUGE against the other hypotheses) is added to the score of each "
        "hypothesis",
        tunable=False,
        excludes={"--score-reference": "", "--sampling": ""},
    )
    content_weight: float = _make_option(
        12.0,
        "weight of expected ROUGE and consensus when a content model chooses a hypothesis",
        bounds=Bounds(above=0),
        needs=("--content-model", "--choose hypothesis"),
        without="without --content-model (of a model folder: without --choose hypothesis)",
        tuned=(1.0, 3.0, 6.0, 12.0, 20.0),
    )
    early_stopping: Optional[str] = _make_option(
        None,
        "when to stop the search for a document. fairseq: when --beam hypotheses have finished; admissible: when no "
        "unfinished hypothesis can still become better than the best finished ones; heuristic: when no unfinished "
        "hypothesis would be better than these if it ended now, which halves the work (default: admissible with a "
        "coverage or wu length penalty, otherwise fairseq)",
        choices=EARLY_STOPPING,
    )
    infer_dtype: Optional[str] = _make_option(
        None,
        "data type for generation. auto: the fastest data type on this processor in a short trial (default: the data "
        "type of the model)",
        choices=INFER_DTYPES,
        tunable=False,
    )


@dataclass
class FairseqOptions:
    """Decoding options of fairseq for which this project declares additional metadata."""

    beam: int = _make_option(5, "beam size", bounds=SIZE, setting="beam_size", tuned=(1, 2, 3, 4, 5, 6, 8, 10))
    min_len: int = _make_option(
        1, "minimum number of tokens in a summary", excludes={"--exact-length": ""}, least_in_call=0
    )
    max_len_a: float = _make_option(
        0, "increase the maximum length of a summary by X tokens for each token in the document", least_in_call=0
    )
    max_len_b: int = _make_option(200, "maximum number of tokens in a summary", least_in_call=1)
    lenpen: float = _make_option(
        1.0,
        "length penalty; values below 1 favour shorter summaries, and values above 1 favour longer summaries",
        bounds=Bounds(-100, most=100),
        excludes={"--unnormalized": ""},
        setting="len_penalty",
        tuned=tuple(round(0.1 * tenth, 1) for tenth in range(21)),
    )
    unnormalized: bool = _make_option(
        False, "compare hypotheses by log-probability without dividing by the length penalty", tunable=False
    )
    no_repeat_ngram_size: int = _make_option(
        0,
        "do not repeat any sequence of N tokens in a summary (0: off)",
        bounds=Bounds(0, what="(0: off)"),
        tuned=(0, 2, 3, 4),
    )
    temperature: float = _make_option(
        1.0,
        "softmax temperature, by which the logits are divided",
        bounds=Bounds(above=0),
        tuned=tuple(round(0.1 * tenth, 1) for tenth in range(5, 16)),
    )
    unkpen: float = _make_option(
        0.0,
        "penalty that is subtracted from the log-probability of the unknown word",
        needs=("--allow-unk", NO_POINTER),
        without="on models with --pointer, which never write the unknown word: leave it out, or give --allow-unk",
        setting="unk_penalty",
    )
    match_source_len: bool = _make_option(False, "limit each summary to the number of tokens in its document")
    nbest: int = _make_option(1, "number of summaries to return per document", bounds=SIZE)
    print_alignment: Optional[str] = _make_option(
        None, "type of token alignment between document and summary to return with each summary", choices=ALIGNMENTS
    )
    lm_weight: float = _make_option(
        0.0, "weight of the language model's log-probabilities in the score of a summary", needs=("--lm-path",)
    )
    diverse_beam_strength: float = _make_option(
        0.5, "strength of the diversity penalty between groups of beams", needs=("--diverse-beam-groups",)
    )
    retain_dropout_modules: Any = _make_option(
        None, "modules in which dropout remains enabled during inference", needs=("--retain-dropout",)
    )


CHOICES = ("content", "hypothesis", "none")


@dataclass
class FolderOptions:
    """Decoding options that are available for model folders but not in fairseq's commands."""

    choose: str = _make_option(
        "none",
        "how to choose the summary. content: choose sentences from all hypotheses of a diverse beam search and from "
        "the whole document; hypothesis: choose the hypothesis with the largest sum of score, weighted expected ROUGE "
        "and weighted consensus; none: choose the hypothesis with the best score. The choices content and hypothesis "
        "use the folder's content model",
        choices=CHOICES,
        tunable=False,
    )
    choose_words: int = _make_option(
        0,
        "maximum total number of words in the sentences that --choose content selects (0: 1.15 times the mean length "
        "of the training summaries)",
        bounds=Bounds(0, what="(0: by the training summaries)"),
        needs=("--choose content",),
    )


DECLARED: Mapping[str, Any] = {
    option.name: option for kind in (DecodingOptions, FairseqOptions, FolderOptions) for option in fields(kind)
}
"""A dictionary from option names to dataclass fields."""


def get_setting_name(name: str) -> str:
    """Return the name that an option has in the search settings."""
    setting: str = DECLARED[name].metadata.get("setting", name)
    return setting


BY_SETTING: Mapping[str, str] = {get_setting_name(name): name for name in DECLARED}
"""A dictionary from names in the search settings to option names."""


def get_option_type(name: str) -> type:
    """Return the type of an option: int, float, bool or str."""
    declared = DECLARED[name].type
    return declared if isinstance(declared, type) else str


def describe_expected_value(name: str, value: Any) -> str:
    """Return a description of the valid values of an option, or an empty string if ``value`` is valid."""
    option, kind = DECLARED[name], get_option_type(name)
    limits = option.metadata
    if value is None and option.default is None:
        return ""
    choices = limits.get("choices")
    if choices:
        return "" if value in choices else join_choices(choices)
    is_number = isinstance(value, Real) and not isinstance(value, bool) and value == value  # false for NaN
    fits = is_number if kind in (int, float) else isinstance(value, kind)
    if not fits or (kind is int and not isinstance(value, Integral)):
        return {int: "a whole number", float: "a number", bool: "True or False", str: "a text"}[kind]
    bounds = limits.get("bounds")
    return "" if bounds is None or bounds.contains(value) else str(bounds)


def format_value_error(name: str, value: Any) -> str:
    """Return the error message for an invalid value of an option, or an empty string if the value is valid."""
    wanted = describe_expected_value(name, value)
    written = f'"{value}"' if isinstance(value, str) else repr(value)
    written = written if len(written) <= 60 else f"{written[:57]}..."
    return f"{format_option_name(name)} {written}: choose {wanted}" if wanted else ""


def check_options(settings: Any) -> None:
    """Raise ValueError if a field of a settings dataclass has an invalid value."""
    for option in fields(settings):
        value = getattr(settings, option.name)
        if option.name in BY_SETTING:
            # a tuple has already been parsed from text and needs no further check
            problem = "" if isinstance(value, tuple) else format_value_error(BY_SETTING[option.name], value)
        else:
            is_right = option.type not in (bool, int) or (
                isinstance(value, Integral) and isinstance(value, bool) == (option.type is bool)
            )
            kind = "True or False" if option.type is bool else "a whole number"
            problem = "" if is_right else f"--{option.name.replace('_', '-')} {value!r}: choose {kind}"
        if problem:
            raise ValueError(problem)


def find_option_without_effect(
    given: Mapping[str, Any], present: Mapping[str, Any], has_pointer: Optional[bool]
) -> str:
    """Return the error message for an option that has no effect, or an empty string if there is no such option.

    Args:
        given: the options that differ from their default values.
        present: the values of all options, including fairseq's options. Missing options are considered off.
        has_pointer: whether one of the models can copy words, or None if this is not known yet and cannot be checked.
    """
    kinds = {None: {POINTER, NO_POINTER}, True: {POINTER}, False: {NO_POINTER}}[has_pointer]
    declared = {name: option.metadata for name, option in DECLARED.items()}
    return find_option_conflict(given, declared, list_enabled_options(present) | kinds)


SYSTEMS: Dict[str, str] = {
    name: system for name in DECLARED if (system := find_required_system(format_option_name(name))) is not None
}
"""A dictionary from option names to the systems that implement these options."""
