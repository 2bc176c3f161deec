"""The options of decoding under the names that users know from the command line; without torch and fairseq.

Model folders store them as defaults, :meth:`Summarizer.summarize` takes them by name, ``etads-summarize`` and
``etads-export`` as ``--name``. What they mean is said in :class:`~fairseq_etads.search.settings.SearchSettings`.
"""

import argparse
import difflib
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

from ..platform.errors import InputError
from .choices import COVERAGE_KINDS, EARLY_STOPPING, INFER_DTYPES, LENGTH_KINDS


class CallOption(NamedTuple):
    """An option of decoding.

    Attributes:
        setting: what :class:`SearchSettings` calls it.
        kind: int, float, bool or str.
        help: for ``--help``.
        choices: the values of a choice; None stands for "decide by the model and the other options".
        least: smallest value of a number.
    """

    setting: str
    kind: type
    help: str
    choices: Tuple[str, ...] = ()
    least: Optional[float] = None


LARGEST = 1_000_000
"""No number of tokens or hypotheses is larger."""

OPTIONS: Dict[str, CallOption] = {
    "beam": CallOption("beam_size", int, "beam size", least=1),
    "min_len": CallOption("min_len", int, "fewest tokens of a summary", least=0),
    "max_len": CallOption("max_len_b", int, "most tokens of a summary", least=1),
    "max_len_a": CallOption("max_len_a", float, "and so many more for each token of the document", least=0),
    "exact_length": CallOption("exact_length", int, "write exactly N tokens (0: off)", least=0),
    "min_sentences": CallOption("min_sentences", int, "fewest sentences, which <q> separates (0: off)", least=0),
    "lenpen": CallOption("len_penalty", float, "length penalty: below 1 for shorter summaries, above 1 for longer"),
    "length_penalty_type": CallOption(
        "length_penalty_type", str, "what --lenpen means: avg as in fairseq, wu as in ETADS", LENGTH_KINDS
    ),
    "length_penalty_beta": CallOption("length_penalty_beta", float, "beta of --length-penalty-type wu"),
    "coverage_penalty": CallOption("coverage_penalty", float, "weight of the coverage penalty (0: off)", least=0),
    "coverage_penalty_type": CallOption(
        "coverage_penalty_type", str, "summary: a price for reading twice; wu: for leaving unread", COVERAGE_KINDS
    ),
    "stepwise_coverage_penalty": CallOption(
        "stepwise_coverage_penalty", bool, "let the coverage penalty steer the beam at every step"
    ),
    "no_repeat_ngram_size": CallOption(
        "no_repeat_ngram_size", int, "no N tokens of a summary occur in it twice (0: off)", least=0
    ),
    "ngram_ignore_tokens": CallOption(
        "ngram_ignore_tokens", str, "tokens, separated by spaces, that may repeat in spite of that"
    ),
    "extractive_weights": CallOption(
        "extractive_weights", str, "weights of log p and of the document's words, bigrams, trigrams and their order"
    ),
    "recombine": CallOption(
        "recombine", int, "of hypotheses with the same last N tokens only the best goes on (0: off)", least=0
    ),
    "early_stopping": CallOption(
        "early_stopping", str, "when the search for a summary ends, see docs/decoding.md", EARLY_STOPPING
    ),
    "temperature": CallOption("temperature", float, "divides the logits"),
    "allow_unk": CallOption("allow_unk", bool, "let models with a pointer write the unknown word"),
    "replace_unknown": CallOption(
        "replace_unk", bool, "write the document's most attended word in the place of an unknown one"
    ),
    "unkpen": CallOption("unk_penalty", float, "subtracted from the unknown word's log-probability"),
    "infer_dtype": CallOption(
        "infer_dtype",
        str,
        "number format of the model's products; auto tries which is the fastest on this processor",
        INFER_DTYPES,
    ),
    "shortlist": CallOption(
        "shortlist", bool, "write words of the folder's shortlist alone, which is faster with a large vocabulary"
    ),
}
"""Name -> option. On a command line the name has dashes for underscores. "shortlist" is no setting of the search: a
model folder may have one."""

DEFAULTS: Dict[str, Any] = {"beam": 5, "min_len": 1, "max_len": 100, "lenpen": 1.0}
"""Where these differ from :class:`SearchSettings`; they are those of ``scripts/generate.sh``."""

_KINDS = {int: "a whole number", float: "a number", bool: "True or False", str: "a text"}


def flag(name: str) -> str:
    """An option as on a command line."""
    return f"--{name.replace('_', '-')}"


def check(options: Dict[str, Any]) -> Dict[str, Any]:
    """The options, if each exists and has a possible value.

    Raises:
        InputError: names the option, the value and the values there are.
    """
    for name, value in options.items():
        if name not in OPTIONS:
            raise InputError(_unknown(name))
        problem = _problem(OPTIONS[name], value)
        if problem:
            raise InputError(f"{flag(name)} {_shown(value)}: choose {problem}")
    return options


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(str(name), OPTIONS, n=1)
    meant = f"; did you mean {close[0]}?" if close else "."
    return f"there is no option {_shown(name)} of decoding{meant} There are {', '.join(OPTIONS)}"


def _shown(value: Any) -> str:
    shown = value if isinstance(value, str) else repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _problem(option: CallOption, value: Any) -> str:
    """What a value should be, if it is something else; otherwise empty."""
    if option.choices:
        known = value is None and option.setting in ("early_stopping", "infer_dtype")
        return "" if known or value in option.choices else f"one of {', '.join(option.choices)}"
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    fits = isinstance(value, option.kind) if option.kind in (bool, str) else is_number
    if not fits or (option.kind is int and not isinstance(value, int)):
        return _KINDS[option.kind]
    if is_number and not abs(value) <= LARGEST:  # NaN is not either
        return f"a number of at most {LARGEST:,}"
    if option.least is not None and value < option.least:
        return f"{option.least} or more"
    return ""


def search_settings(options: Dict[str, Any]) -> Dict[str, Any]:
    """Checked options under the names of :class:`SearchSettings`, with :data:`DEFAULTS` where they say nothing.

    Raises:
        InputError: see :func:`check`; or the shortest summary would be longer than the longest.
    """
    given = {**DEFAULTS, **check(options)}
    if not given.get("max_len_a") and not given.get("exact_length") and given["min_len"] > given["max_len"]:
        raise InputError(f"--min-len {given['min_len']}: choose at most --max-len, which is {given['max_len']}")
    return {OPTIONS[name].setting: value for name, value in given.items()}


class _Switch(argparse.Action):
    """A switch with a twin ``--no-…``; argparse's own, before Python 3.13, writes SUPPRESS into the help."""

    def __init__(self, option_strings: Sequence[str], **kwargs: Any):
        (given,) = option_strings
        super().__init__([given, f"--no-{given[2:]}"], **kwargs)

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Optional[str] = None) -> None:
        setattr(namespace, self.dest, not str(option_string).startswith("--no-"))


def add_arguments(parser: argparse.ArgumentParser, title: str, without: Sequence[str] = ()) -> None:
    """Add the options of decoding to a parser, in a group of their own; those that are not given are left out.

    Args:
        without: options that the parser does not get.
    """
    group = parser.add_argument_group(title)
    for name, option in OPTIONS.items():
        if name in without:
            continue
        if option.kind is bool:
            group.add_argument(flag(name), action=_Switch, nargs=0, default=argparse.SUPPRESS, help=option.help)
        else:
            group.add_argument(
                flag(name),
                metavar=None if option.choices else {int: "N", float: "X", str: "TEXT"}[option.kind],
                type=option.kind,
                choices=option.choices or None,
                default=argparse.SUPPRESS,
                help=option.help,
            )


def given_on(args: argparse.Namespace) -> Dict[str, Any]:
    """The options of decoding that were given on a command line, checked."""
    return check({name: getattr(args, name) for name in OPTIONS if hasattr(args, name)})
