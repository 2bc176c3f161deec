"""All decoding options: each is one field of :class:`DecodingOptions`, named like its flag.

The metadata of a field can contain:

- ``help``, and ``bounds``, ``choices``, ``needs``, ``without`` and ``excludes``, the conditions that are described in
  :mod:`fairseq_etads.platform.command_options`. ``needs`` can also name a kind of model (:data:`POINTER`,
  :data:`NO_POINTER`);
- ``of``: who adds the option to fairseq's commands: "task" for ``--task summarization``, "fairseq" for fairseq itself,
  or "" if these commands do not have it;
- ``call``: False if only fairseq's commands or Python have the option. All others are keyword arguments of
  :meth:`Summarizer.summarize`, options of ``etads-summarize`` and ``etads-export``, and defaults of model folders;
- ``call_type``, ``call_help``, ``call_bounds``, ``call_excludes``: the same in calls and model folders, if it differs;
- ``fairseq``: the name of the option in fairseq's commands, if it differs;
- ``folder``: the value that is written to every model folder;
- ``of_hypotheses``: True if the option limits only the hypotheses, from which ``--choose content`` takes sentences;
- ``tuned``: the values that ``etads-tune`` tries, or ``tunable``: False if it cannot tune the option.

:func:`check_decoding_options` checks values and combinations, whether they come from a command line, a call or a model
folder. This module imports neither torch nor fairseq, so that ``--help`` is fast.
"""

import argparse
import difflib
import math
from collections import abc
from dataclasses import Field, dataclass, field, fields
from typing import Any, Collection, Dict, List, Mapping, Optional

from ..platform.command_options import (
    SIZE,
    Bounds,
    add_option,
    describe_expected_value,
    find_option_conflict,
    format_option,
    format_option_name,
    format_value_error,
    is_option_enabled,
    list_enabled_options,
)
from ..platform.errors import InputError
from ..platform.optional_parts import find_required_system
from ..text.words import SENTENCE_MARK

LENGTH_KINDS = ("avg", "wu")
COVERAGE_KINDS = ("summary", "wu")
INFER_DTYPES = ("fp32", "bf16", "fp16", "int8", "auto")
LENGTH_PENALTY_BETA = 5.0
"""Default value of beta, the constant in equation 14 of Wu et al. 2016."""
LARGEST = 1_000_000
"""Upper bound for the numbers in a call, such as the maximum number of tokens."""
POINTER, NO_POINTER = "a model with --pointer", "a model without --pointer"
"""The kinds of models that an option can need."""

_OFF = Bounds(0, what="(0: off)")
_NO_EFFECT: Mapping[str, str] = {"--score-reference": ""}


def _option(default: Any, help: str, **metadata: Any) -> Any:
    return field(default=default, metadata={"help": help, "of": "task", "call": True, **metadata})


def _python_option(default: Any, help: str, **metadata: Any) -> Any:
    """Declare an option that neither commands nor calls have."""
    return _option(default, help, of="", call=False, **metadata)


@dataclass
class DecodingOptions:
    """The options of a search, and the options that choose among its results."""

    beam: int = _option(5, "beam size", of="fairseq", bounds=SIZE, folder=5, tuned=(1, 2, 3, 4, 5, 6, 8, 10))
    min_len: int = _option(
        1,
        "minimum number of tokens in a summary, which need not be longer than its document",
        of="fairseq",
        bounds=Bounds(0),
        excludes={"--exact-length": ""},
        folder=1,
        of_hypotheses=True,
    )
    max_len: int = _option(
        200,
        "maximum number of tokens in a summary",
        of="fairseq",
        fairseq="max_len_b",
        call_bounds=Bounds(1),
        call_excludes={"--exact-length": ""},  # fairseq's scripts add a maximum length to every search
        folder=100,
        of_hypotheses=True,
    )
    max_len_a: float = _option(
        0,
        "increase the maximum length of a summary by X tokens for each token in the document",
        of="fairseq",
        bounds=Bounds(0, below=math.inf),
        call_excludes={"--exact-length": ""},
        of_hypotheses=True,
    )
    exact_length: int = _option(
        0,
        "generate exactly N tokens before the end symbol, and ignore --min-len (0: off)",
        bounds=_OFF,
        excludes={"--min-sentences": "choose one", "--match-source-len": "choose one"},
        of_hypotheses=True,
    )
    min_sentences: int = _option(
        0,
        f'minimum number of sentences in a summary; sentences are separated by "{SENTENCE_MARK}" (0: off)',
        bounds=_OFF,
        of_hypotheses=True,
    )
    lenpen: float = _option(
        1.0,
        "length penalty; values below 1 favour shorter summaries, and values above 1 favour longer summaries",
        of="fairseq",
        bounds=Bounds(-100, most=100),
        excludes={"--unnormalized": ""},
        folder=1.0,
        tuned=tuple(round(0.1 * tenth, 1) for tenth in range(21)),
    )
    length_penalty_type: str = _option(
        "avg",
        "type of length penalty, by which the log-probability of a summary Y is divided. With --lenpen A, the "
        "penalty is |Y|^A for avg and ((beta+|Y|)/(beta+1))^A for wu (ETADS: wu)",
        choices=LENGTH_KINDS,
        excludes={"--unnormalized": ""},
    )
    length_penalty_beta: float = _option(
        LENGTH_PENALTY_BETA,
        "constant beta in the length penalty of --length-penalty-type wu",
        bounds=Bounds(above=-1),
        needs=("--length-penalty-type wu",),
        tuned=tuple(float(number) for number in range(11)),
    )
    unnormalized: bool = _option(
        False,
        "compare hypotheses by log-probability without dividing by the length penalty",
        of="fairseq",
        tunable=False,
    )
    coverage_penalty: float = _option(
        0.0,
        "weight of the coverage penalty in beam search (ETADS: 1; 0: off)",
        bounds=_OFF,
        tuned=(0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
    )
    coverage_penalty_type: str = _option(
        "summary",
        "type of coverage penalty. summary: penalise document words that receive a total attention above 1; wu: "
        "penalise document words that receive a total attention below 1",
        choices=COVERAGE_KINDS,
        needs=("--coverage-penalty",),
    )
    stepwise_coverage_penalty: bool = _option(
        False,
        "apply the coverage penalty at every step of the beam search, not only to the final score",
        needs=("--coverage-penalty",),
    )
    no_repeat_ngram_size: int = _option(
        0,
        "do not repeat any sequence of N tokens in a summary (0: off)",
        of="fairseq",
        bounds=_OFF,
        tuned=(0, 2, 3, 4),
    )
    ngram_ignore_tokens: str = _option(
        "",
        "tokens exempt from --no-repeat-ngram-size, separated by spaces; n-grams that contain one of these tokens "
        "may repeat",
        needs=("--no-repeat-ngram-size",),
        tunable=False,
    )
    extractive_weights: str = _option(
        "",
        "five weights, separated by commas, for the log-probability of a word and the four features of ABS+: the "
        "word is in the document, ends a bigram of the document, ends a trigram of the document, or occurs in the "
        "document before the preceding summary word. release: the features and weights of the authors' code. "
        "release:A1,A2,A3,A4,A5: the features of the authors' code with other weights",
        tunable=False,
        excludes=_NO_EFFECT,
    )
    recombine: int = _option(
        0,
        "keep only the best of all hypotheses with the same last N tokens (ABS: 5; 0: off)",
        bounds=_OFF,
        excludes=_NO_EFFECT,
    )
    early_stopping: Optional[str] = _option(
        None,
        "when to stop the search for a document. fairseq: when --beam hypotheses have finished; admissible: when no "
        "unfinished hypothesis can still become better than the best finished ones; heuristic: when no unfinished "
        "hypothesis would be better than these if it ended now, which halves the work (default: admissible with a "
        "coverage or wu length penalty, otherwise fairseq)",
        choices=("admissible", "heuristic", "fairseq"),
    )
    temperature: float = _option(
        1.0,
        "softmax temperature, by which the logits are divided",
        of="fairseq",
        bounds=Bounds(above=0),
        tuned=tuple(round(0.1 * tenth, 1) for tenth in range(5, 16)),
    )
    allow_unk: bool = _option(
        False, "allow models with a pointer to generate <unk> (default: they copy a word instead)", needs=(POINTER,)
    )
    replace_unknown: bool = _option(
        False,
        "replace each unknown word in a summary with the most attended word of the document, like fairseq's "
        "--replace-unk, which fairseq-generate does not accept for binarised data",
    )
    unkpen: float = _option(
        0.0,
        "penalty that is subtracted from the log-probability of the unknown word (inf: never generate it)",
        of="fairseq",
        bounds=Bounds(-LARGEST, most=math.inf),
        needs=("--allow-unk", NO_POINTER),
        without="on models with --pointer, which never write the unknown word: leave it out, or give --allow-unk",
    )
    infer_dtype: Optional[str] = _option(
        None,
        "data type for generation. auto: the fastest data type on this processor in a short trial (default: the data "
        "type of the model)",
        choices=INFER_DTYPES,
        tunable=False,
    )
    shortlist: Optional[str] = _option(
        None,
        "shortlist file created by etads-shortlist; restricts the softmax to words that are frequent or associated "
        "with words of the document, which is faster with a large vocabulary (default: all words)",
        call_type=bool,  # the shortlist is a file in the folder, and a call only chooses whether to use it
        call_help="restrict generation to words in the model folder's shortlist, which is faster with a large "
        "vocabulary",
        tunable=False,
        excludes=_NO_EFFECT,
    )
    choose: str = _option(
        "none",
        "how to choose the summary. content: choose sentences from all hypotheses of a diverse beam search and from "
        "the whole document; extract: choose sentences of the document, without a search; hypothesis: choose the "
        "hypothesis with the largest sum of score, weighted expected ROUGE and weighted consensus; none: choose the "
        "hypothesis with the best score. All choices except none use the folder's content model",
        of="",
        choices=("content", "extract", "hypothesis", "none"),
        tunable=False,
    )
    choose_words: int = _option(
        0,
        "maximum total number of words in the sentences that --choose content or extract selects (0: 1.15 or, with "
        "extract, 1.7 times the mean length of the training summaries)",
        of="",
        bounds=Bounds(0, what="(0: by the training summaries)"),
        needs=("--choose content", "--choose extract"),
    )
    readability: float = _option(
        0.0,
        "weight of the predicted coherence and relevance, minus flaws such as an opening pronoun or a caption, when "
        "sentences of the document are chosen by expected ROUGE; the rules are those of English news (0: off)",
        of="",
        bounds=_OFF,
        needs=("--choose extract",),
        tunable=False,
    )
    sentences: int = _option(
        0,
        "maximum number of sentences in a summary (0: off); this and the next three options choose among whole "
        "sentences of the hypotheses and, with --choose content, of the document",
        of="",
        bounds=_OFF,
        tunable=False,
    )
    words: int = _option(0, "maximum number of words in a summary (0: off)", of="", bounds=_OFF, tunable=False)
    percent: float = _option(
        0.0,
        "maximum number of words in a summary, as a percentage of those in its document (0: off)",
        of="",
        bounds=Bounds(0, most=100),
        tunable=False,
    )
    must_include: Optional[List[str]] = _option(
        None,
        "text that a summary must contain, in a sentence of a hypothesis or else of the document; can be repeated",
        of="",
        tunable=False,
    )
    content_weight: float = _option(
        12.0,
        "weight of expected ROUGE and consensus when a content model chooses a hypothesis",
        bounds=Bounds(above=0),
        needs=("--content-model", "--choose hypothesis"),
        without="without --content-model (of a model folder: without --choose hypothesis)",
        tuned=(1.0, 3.0, 6.0, 12.0, 20.0),
    )
    content_model: Optional[str] = _option(
        None,
        "content model created by etads-content. Before the best hypothesis is chosen, --content-weight times the "
        "sum of expected ROUGE and consensus (mean ROUGE against the other hypotheses) is added to the score of each "
        "hypothesis",
        call=False,
        excludes={**_NO_EFFECT, "--sampling": ""},
    )
    selection: Optional[str] = _option(
        None,
        "folder containing the word probabilities from etads-select, which restrict copying with --pointer soft to "
        "probable words (Gehrmann et al. 2018; fairseq-generate only)",
        call=False,
        excludes=_NO_EFFECT,
    )
    selection_threshold: float = _option(
        0.15,
        "copy only words with a probability above X according to --selection",
        call=False,
        bounds=Bounds(below=1),
        needs=("--selection",),
    )
    selection_factor: float = _option(
        2.0,
        "factor by which --selection multiplies the probability of copying the selected words before renormalising",
        call=False,
        bounds=Bounds(above=0),
        needs=("--selection",),
    )
    nbest: int = _option(1, "number of summaries to return per document", of="fairseq", call=False, bounds=SIZE)
    match_source_len: bool = _option(
        False, "limit each summary to the number of tokens in its document", of="fairseq", call=False
    )
    print_alignment: Optional[str] = _option(
        None,
        "type of token alignment between document and summary to return with each summary",
        of="fairseq",
        call=False,
        choices=("hard", "soft"),
        excludes={"--replace-unknown": "choose one (fairseq's --replace-unk is the same option)"},
    )
    lm_weight: float = _option(
        0.0,
        "weight of the language model's log-probabilities in the score of a summary",
        of="fairseq",
        call=False,
        needs=("--lm-path",),
    )
    positions: int = _python_option(
        0,
        "maximum number of tokens in a summary, including the end symbol (0: the models' number of positions)",
        bounds=Bounds(0, what="(0: the models' number of positions)"),
    )
    tokens_to_suppress: Any = _python_option((), "words that are never produced unless a prefix contains them")
    keep_attention: bool = _python_option(
        True,
        "return the attention weights of each hypothesis, as fairseq does, which needs memory for beam x S x T weights "
        "per document",
    )
    copied_positions: bool = _python_option(
        False,
        'also return "copied_from", the position in src_tokens from which each token was copied, or -1 if it was '
        "generated, which needs a model with a pointer and an additional pass over the summaries",
    )
    max_len_per_document: bool = _python_option(
        False,
        "compute the maximum length with --max-len-a from the length of each document. Otherwise, as in fairseq, it is "
        "computed from the longest document in the batch, including padding",
    )


DECLARED: Mapping[str, "Field[Any]"] = {option.name: option for option in fields(DecodingOptions)}
"""A dictionary from option names to dataclass fields."""
CALL = tuple(name for name, option in DECLARED.items() if option.metadata["call"])
"""The names of the options that calls, model folders and our commands have."""
FOLDER_DEFAULTS: Mapping[str, Any] = {
    name: option.metadata["folder"] for name, option in DECLARED.items() if "folder" in option.metadata
}
"""Default values that are written to every model folder."""
BEAMS = {"content": 12, "hypothesis": 12, "none": FOLDER_DEFAULTS["beam"], "extract": FOLDER_DEFAULTS["beam"]}
"""A dictionary from the values of ``choose`` to the default values of ``beam``."""
SYSTEMS: Dict[str, str] = {
    name: system for name in DECLARED if (system := find_required_system(format_option_name(name))) is not None
}
"""A dictionary from option names to the systems that implement these options."""
_BY_FLAG = {**DECLARED, **{option.metadata.get("fairseq", name): option for name, option in DECLARED.items()}}


def get_type(name: str, in_call: bool = True) -> Any:
    """Return the type of an option: int, float, bool, str or List[str]."""
    option = _BY_FLAG[name]
    declared = option.metadata.get("call_type", option.type) if in_call else option.type
    if declared == Optional[List[str]]:
        return List[str]
    return declared if declared in (int, float, bool) else str


def get_bounds(name: str, in_call: bool = True) -> Optional[Bounds]:
    """Return the bounds of a number, or None if there are none."""
    limits = _BY_FLAG[name].metadata
    bounds: Optional[Bounds] = limits.get("bounds")
    return limits.get("call_bounds", bounds) if in_call else bounds


def get_value(name: str, decoding: Mapping[str, Any]) -> Any:
    """Return the value of an option in a call or model folder that sets ``decoding``, which may be its default."""
    default = FOLDER_DEFAULTS.get(name, False if get_type(name) is bool else DECLARED[name].default)
    return decoding.get(name, default)


def check_values(options: Mapping[str, Any], in_call: bool = False) -> None:
    """Raise InputError if an option has an invalid value or, ``in_call`` or model folder, does not exist.

    In fairseq's commands, other options are ignored.
    """
    for name, value in options.items():
        if in_call and name not in CALL:
            raise InputError(format_unknown_option(name, CALL))
        wanted = _describe_expected_value(name, value, in_call) if name in _BY_FLAG else ""
        if wanted:
            raise InputError(format_value_error(name, value, wanted))


def _describe_expected_value(name: str, value: Any, in_call: bool) -> str:
    """Return a description of the valid values of an option, or an empty string if ``value`` is valid."""
    option, kind, bounds = _BY_FLAG[name], get_type(name, in_call), get_bounds(name, in_call)
    if value is None and option.default is None and kind in (str, List[str]):
        return ""
    if kind == List[str]:
        texts = [value] if isinstance(value, str) else value if isinstance(value, (list, tuple)) else [None]
        return "" if all(isinstance(text, str) and text.strip() for text in texts) else "texts with words in them"
    is_split = not in_call and kind is str and isinstance(value, abc.Sequence)  # words or weights, by Python code
    wanted = describe_expected_value(value, {**option.metadata, "bounds": bounds}, None if is_split else kind)
    is_bounded = kind in (bool, str) or (bounds is not None and bounds.most is not None)
    return (
        wanted if wanted or is_bounded or not in_call or abs(value) <= LARGEST else f"a number of at most {LARGEST:,}"
    )


def check_decoding_options(
    present: Mapping[str, Any],
    given: Collection[str] = (),
    has_pointer: Optional[bool] = None,
    in_call: bool = False,
    rules: Mapping[str, Mapping[str, Any]] = {},
) -> None:
    """Check the values of decoding options and their combinations.

    Args:
        present: the values by option name, which can include other options of fairseq. Missing options have their
            defaults.
        given: the names of the options that must have an effect.
        has_pointer: whether one of the models can copy words, or None if this is not known yet.
        in_call: whether the options belong to a call or model folder rather than to fairseq's commands.
        rules: ``needs``, ``without`` and ``excludes`` of further options.

    Raises InputError, which names the option, its value and the choices, if a value is invalid, two options exclude
    each other, or a given option has no effect.
    """
    check_values(present, in_call)
    values = {**{name: option.default for name, option in DECLARED.items()}, **present}
    if values["nbest"] > values["beam"]:
        raise InputError(f"--nbest {values['nbest']}: choose at most --beam, which is {values['beam']}")
    depends = values["max_len_a"] or values["exact_length"]
    if in_call and not depends and values["min_len"] > values["max_len"]:
        raise InputError(f"--min-len {values['min_len']}: choose at most --max-len, which is {values['max_len']}")
    kinds = {None: {POINTER, NO_POINTER}, True: {POINTER}, False: {NO_POINTER}}[has_pointer]
    there = list_enabled_options(present) | kinds
    enabled = {name: value for name, value in present.items() if name in DECLARED and is_option_enabled(value)}
    declared: Dict[str, Mapping[str, Any]] = {name: option.metadata for name, option in DECLARED.items()}
    if in_call:
        declared = {
            name: {**metadata, "excludes": {**metadata.get("excludes", {}), **metadata.get("call_excludes", {})}}
            for name, metadata in declared.items()
        }
    contradicting = {
        name: {"excludes": {other: reason for other, reason in metadata.get("excludes", {}).items() if reason}}
        for name, metadata in declared.items()
    }
    problem = find_option_conflict(enabled, contradicting, there) or find_option_conflict(
        {name: present[name] for name in given}, {**declared, **rules}, there
    )
    if problem:
        raise InputError(problem)


def format_unknown_option(name: Any, known: Collection[str]) -> str:
    """Return the error message for an option that does not exist."""
    close = difflib.get_close_matches(str(name), known, n=1)
    meant = f"; did you mean {close[0]}?" if close else "."
    return f"there is no decoding option {name if isinstance(name, str) else repr(name)}{meant} Choose from " + (
        ", ".join(known)
    )


def combine_options(
    folder: Mapping[str, Any], given: Mapping[str, Any], has_pointer: Optional[bool] = None
) -> DecodingOptions:
    """Return the options of a call, after checking them.

    If the call sets ``choose`` to a value that differs from the folder's, the options that go with it are not the
    folder's: the default beam size is taken from :data:`BEAMS`. A beam of 1 leaves nothing to choose from, so in a call
    it also turns off the folder's choice among hypotheses. A maximum length in the call also lowers the minimum length
    in the folder.

    The options of the folder may have no effect, but those that the call sets (``given``) must have one, or InputError
    is raised; see :func:`check_decoding_options`.
    """
    check_values(given, in_call=True)
    together = {**FOLDER_DEFAULTS, **folder, **given}
    if "min_len" not in given:
        limits = [given.get("max_len"), given.get("words", 0) // 2]
        together["min_len"] = min([together["min_len"], *filter(None, limits)])
    if given.get("beam") == 1 and "choose" not in given and together.get("choose") == "hypothesis":
        together["choose"] = "none"
    if get_value("choose", together) != get_value("choose", folder):
        together.update({"choose_words": 0, "readability": 0.0, "beam": BEAMS[together["choose"]], **given})
    new = [name for name, value in given.items() if value not in (get_value(name, {}), get_value(name, folder))]
    present = {**{name: get_value(name, together) for name in CALL}, **together}
    check_decoding_options(present, new, has_pointer, in_call=True)
    texts = together.get("must_include") or ()
    together["must_include"] = (texts,) if isinstance(texts, str) else tuple(texts)
    return DecodingOptions(**{**together, "shortlist": "of the folder" if together.get("shortlist") else None})


def check_call(folder: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Check the options of a call as :func:`combine_options` does, and that its lengths limit the summary.

    Raises InputError also if a length limits only the hypotheses from which the sentences of the summary are chosen.
    """
    if (choose := combine_options(folder, given).choose) in ("content", "extract"):
        for name in (name for name in given if DECLARED[name].metadata.get("of_hypotheses")):
            raise InputError(
                f"{format_option(name, given[name])} has no effect on the sentences that --choose {choose} chooses: "
                "give --sentences, --words or --percent instead, or also --choose none"
            )


def decoding_options(title: str, without: Collection[str] = ()) -> Any:
    """Declare a group of decoding options as one option of a command, a dictionary with the options that are given."""
    names = [name for name in CALL if name not in without]

    def add(parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group(title)
        for name in names:
            metadata, kind = DECLARED[name].metadata, get_type(name)
            about = {"help": metadata.get("call_help", metadata["help"]), "choices": metadata.get("choices")}
            add_option(group.add_argument, name, kind, argparse.SUPPRESS, about)

    def read(args: argparse.Namespace) -> Dict[str, Any]:
        given = {name: getattr(args, name) for name in names if hasattr(args, name)}
        check_values(given, in_call=True)
        return given

    return field(default_factory=dict, metadata={"add": add, "read": read})
