"""The options of decoding: each is declared here once. Without torch and fairseq, so that ``--help`` is quick.

A field's name is the option's name on fairseq's command line; its metadata hold:

- ``help``: for every ``--help``;
- ``least``, ``most``, ``above``, ``below``: bounds of a number, ``least_in_call`` one that fairseq does not have;
  ``choices``: the values of a choice;
- ``needs``: an option, ``option=value`` or a fact of the models (:data:`FACTS`) without which it has no effect;
- ``excluded_by``: an option with which it has no effect;
- ``setting``: its name in :class:`~fairseq_etads.search.settings.SearchSettings` and as an argument of
  ``SummaryGenerator``, if that is another one;
- ``tuned``: the values that ``etads-tune`` searches; ``tunable``: False if it cannot search the option;
- ``system``: the folder of ``fairseq_etads/systems/`` that implements it.

``--task summarization`` inherits :class:`DecodingOptions`. The settings of the search, the options of a call
(``call_options.py``), the space of ``etads-tune`` and the checks below read the same fields.
"""

from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any, Dict, Mapping, Optional, Sequence

from ..text.words import SENTENCE_MARK

LENGTH_KINDS = ("avg", "wu")
COVERAGE_KINDS = ("summary", "wu")
EARLY_STOPPING = ("admissible", "heuristic", "fairseq")
ALIGNMENTS = ("hard", "soft")
INFER_DTYPES = ("fp32", "bf16", "fp16", "int8", "auto")

LENGTH_PENALTY_BETA = 5.0
"""The constant of Wu et al. 2016, equation 14."""
LARGEST = 1_000_000
"""No number of a call, such as a number of tokens, is larger."""


def _option(default: Any, help: str, **metadata: Any) -> Any:
    return field(default=default, metadata={"help": help, **metadata})


@dataclass
class DecodingOptions:
    """The options of decoding that fairseq does not have."""

    allow_unk: bool = _option(
        False, "let pointer models write <unk>; by default they copy some word instead", needs="pointer"
    )
    replace_unknown: bool = _option(
        False,
        "write the document's most attended word in the place of an unknown one; fairseq's --replace-unk does the "
        "same, but fairseq-generate refuses it for binarised data",
        setting="replace_unk",
    )
    coverage_penalty: float = _option(
        0.0,
        "weight of the coverage penalty in beam search (ETADS: 1; 0: off)",
        least=0,
        tuned=(0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
    )
    coverage_penalty_type: str = _option(
        "summary",
        "summary: a price for reading a word twice; wu: for leaving words unread",
        choices=COVERAGE_KINDS,
        needs="coverage_penalty",
    )
    stepwise_coverage_penalty: bool = _option(False, "let the coverage penalty steer the beam at every step")
    length_penalty_type: str = _option(
        "avg",
        "what --lenpen A means: avg divides by |Y|^A, wu by ((beta+|Y|)/(beta+1))^A (ETADS: wu)",
        choices=LENGTH_KINDS,
        excluded_by="unnormalized",
    )
    length_penalty_beta: float = _option(
        LENGTH_PENALTY_BETA,
        "beta of --length-penalty-type wu",
        above=-1,
        needs="length_penalty_type=wu",
        tuned=tuple(float(number) for number in range(11)),
    )
    ngram_ignore_tokens: str = _option(
        "",
        "tokens exempt from --no-repeat-ngram-size, separated by spaces",
        needs="no_repeat_ngram_size",
        tunable=False,
    )
    exact_length: int = _option(
        0, "produce exactly N tokens before the end symbol (0: off; --min-len has no effect then)", least=0
    )
    min_sentences: int = _option(
        0, f'do not end a summary before it has N sentences, which "{SENTENCE_MARK}" separates (0: off)', least=0
    )
    extractive_weights: str = _option(
        "",
        "five weights separated by commas: of a word's log p, and of its being a word of the document, ending a bigram "
        "of it, ending a trigram of it, and standing there before the last word (paper's features); or release: the "
        "features and weights of the authors' code; or release: and five weights of its features",
        tunable=False,
        system="abs",
    )
    recombine: int = _option(
        0, "keep only the best of the hypotheses that share their last N tokens (ABS: 5; 0: off)", least=0
    )
    selection: Optional[str] = _option(
        None,
        "folder with the probabilities that etads-select wrote: --pointer soft copies only words that a selector finds "
        "likely (Gehrmann et al. 2018; fairseq-generate only)",
    )
    selection_threshold: float = _option(
        0.15, "with --selection, words whose probability is above X may be copied", below=1, needs="selection"
    )
    selection_factor: float = _option(
        2.0,
        "with --selection, the copying of each of these words is made X times as likely, before all is divided by the "
        "sum",
        above=0,
        needs="selection",
    )
    shortlist: Optional[str] = _option(
        None,
        "file that etads-shortlist made: the softmax runs over the words that are frequent or go with the words of the "
        "document, which is faster with a large vocabulary (default: over all words)",
        tunable=False,
    )
    early_stopping: Optional[str] = _option(
        None,
        "when a document is finished. fairseq: when --beam hypotheses have ended; admissible: when no unfinished one "
        "can still be better; heuristic: when none would be by ending at once, for half the work (default: admissible "
        "with a coverage or wu length penalty, else fairseq)",
        choices=EARLY_STOPPING,
    )
    infer_dtype: Optional[str] = _option(
        None,
        "number format in generation (default: the model's; auto tries which is the fastest here)",
        choices=INFER_DTYPES,
        tunable=False,
    )


@dataclass
class FairseqOptions:
    """fairseq's own options of decoding, as far as this project says more about them than fairseq does."""

    beam: int = _option(5, "beam size", least=1, setting="beam_size", tuned=(1, 2, 3, 4, 5, 6, 8, 10))
    min_len: int = _option(1, "fewest tokens of a summary", excluded_by="exact_length", least_in_call=0)
    max_len_a: float = _option(
        0, "adds X tokens to the greatest length for each token of the document", least_in_call=0
    )
    max_len_b: int = _option(200, "most tokens of a summary", least_in_call=1)
    lenpen: float = _option(
        1.0,
        "length penalty: below 1 for shorter summaries, above 1 for longer ones",
        least=-100,
        most=100,
        excluded_by="unnormalized",
        setting="len_penalty",
        tuned=tuple(round(0.1 * tenth, 1) for tenth in range(21)),
    )
    unnormalized: bool = _option(False, "compare log-probabilities that are not divided by the length penalty")
    no_repeat_ngram_size: int = _option(
        0, "no N tokens of a summary occur in it twice (0: off)", least=0, tuned=(0, 2, 3, 4)
    )
    temperature: float = _option(
        1.0, "divides the logits", above=0, tuned=tuple(round(0.1 * tenth, 1) for tenth in range(5, 16))
    )
    unkpen: float = _option(
        0.0, "subtracted from the unknown word's log-probability", needs="unknown_word", setting="unk_penalty"
    )
    match_source_len: bool = _option(False, "a summary has at most as many tokens as its source")
    nbest: int = _option(1, "how many summaries of a document are returned", least=1)
    print_alignment: Optional[str] = _option(None, "also return alignments to the source", choices=ALIGNMENTS)
    lm_weight: float = _option(0.0, "weight of the language model's log-probabilities", needs="lm_path")
    diverse_beam_strength: float = _option(0.5, "strength of the groups' penalty", needs="diverse_beam_groups")
    retain_dropout_modules: Any = _option(None, "modules in which dropout stays", needs="retain_dropout")


FACTS = {
    "pointer": "without a model with --pointer",
    "unknown_word": "on models with --pointer, which never write the unknown word: leave it out, or give --allow-unk",
}
"""Needs that depend on the models -> what completes "--option has no effect …"."""

DECLARED: Mapping[str, Any] = {
    option.name: option for kind in (DecodingOptions, FairseqOptions) for option in fields(kind)
}
"""Name -> field of every option."""


def setting_of(name: str) -> str:
    """The name of an option in the settings of the search."""
    setting: str = DECLARED[name].metadata.get("setting", name)
    return setting


BY_SETTING: Mapping[str, str] = {setting_of(name): name for name in DECLARED}
"""Name in the settings of the search -> name of the option."""


def flag(name: str) -> str:
    """An option as on a command line."""
    return f"--{name.replace('_', '-')}"


def shown(name: str, value: Any) -> str:
    """An option with its value as on a command line."""
    return flag(name) if value is True else f"{flag(name)} {value}"


def listed(choices: Sequence[str]) -> str:
    """Choices in words."""
    return f"{', '.join(choices[:-1])} or {choices[-1]}"


def kind_of(name: str) -> type:
    """int, float, bool or str."""
    declared = DECLARED[name].type
    return declared if isinstance(declared, type) else str


def problem(name: str, value: Any) -> str:
    """What the value of an option should be, if it is something else; otherwise empty."""
    option, kind = DECLARED[name], kind_of(name)
    limits = option.metadata
    if value is None and option.default is None:
        return ""
    choices = limits.get("choices")
    if choices:
        return "" if value in choices else listed(choices)
    is_number = isinstance(value, Real) and not isinstance(value, bool) and value == value  # NaN is not itself
    fits = is_number if kind in (int, float) else isinstance(value, kind)
    if not fits or (kind is int and not isinstance(value, Integral)):
        return {int: "a whole number", float: "a number", bool: "True or False", str: "a text"}[kind]
    off = " (0: off)" if limits.get("least") == 0 else ""
    for name, is_over, words in (
        ("least", lambda bound: value < bound, "{} or more" + off),
        ("most", lambda bound: value > bound, "{} or less"),
        ("above", lambda bound: not bound < value < float("inf"), "more than {}"),
        ("below", lambda bound: not value < bound, "a number below {}"),
    ):
        if limits.get(name) is not None and is_over(limits[name]):
            return words.format(limits[name])
    return ""


def refusal(name: str, value: Any) -> str:
    """Why the value of an option is refused, in full; otherwise empty."""
    wanted = problem(name, value)
    written = f'"{value}"' if isinstance(value, str) else repr(value)
    written = written if len(written) <= 60 else f"{written[:57]}..."
    return f"{flag(name)} {written}: choose {wanted}" if wanted else ""


def without_effect(given: Mapping[str, Any], present: Mapping[str, Any], facts: Mapping[str, bool]) -> str:
    """Why one of the given options has no effect; empty if all have.

    Args:
        given: options that differ from their defaults. present: all options, fairseq's among them; one that is not in
            here is off. facts: of :data:`FACTS`; those that are not in here are not checked.
    """
    for name, value in given.items():
        if name not in DECLARED:
            continue
        needed, excluding = (DECLARED[name].metadata.get(key, "") for key in ("needs", "excluded_by"))
        option, _, wanted = needed.partition("=")
        reason = ""
        if option in FACTS:
            reason = FACTS[option] if not facts.get(option, True) else ""
        elif option and not (str(present.get(option)) == wanted if wanted else _is_on(present.get(option))):
            reason = f"without {flag(option)}{f' {wanted}' if wanted else ''}"
        elif excluding and _is_on(present.get(excluding)):
            reason = f"with {shown(excluding, present[excluding])}: choose one"
        if reason:
            return f"{shown(name, value)} has no effect {reason}"
    return ""


def _is_on(value: Any) -> bool:
    return bool(value) and value != -1  # fairseq's --diverse-beam-groups


def facts_of(has_pointer: bool, allow_unk: bool) -> Dict[str, bool]:
    """The facts of :data:`FACTS` for models of which one can copy, or none."""
    return {"pointer": has_pointer, "unknown_word": allow_unk or not has_pointer}


SYSTEMS: Dict[str, str] = {
    name: option.metadata["system"] for name, option in DECLARED.items() if "system" in option.metadata
}
"""Option -> the system that implements it."""
