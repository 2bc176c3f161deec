"""Describe the decoding options as form fields, using the table that also defines the command-line options."""

from typing import Any, Dict, List

from ..platform.errors import InputError
from ..search import call_options
from ..search.call_options import get_value

MAIN = ("beam", "min_len", "max_len", "lenpen", "no_repeat_ngram_size", "coverage_penalty")
"""Options that are always shown on the page. All other options are shown after a click."""

MOST = {"beam": 50, "min_len": 1000, "max_len": 1000, "max_len_a": 10, "exact_length": 1000, "min_sentences": 100}
"""Maximum values of options, which prevent a typing error from exhausting the memory.

If the default value in the model folder is larger, it is used as the maximum instead.
"""


def get_default_options(decoding: Dict[str, Any]) -> Dict[str, Any]:
    """Return a dictionary from option names to default values. A value is None if the default depends on the model.

    Args:
        decoding: default values in the model folder. The keys are names in
            :data:`~fairseq_etads.search.call_options.OPTIONS`.
    """
    values = {name: get_value(name, decoding) for name in call_options.OPTIONS}
    return {name: " ".join(value) if isinstance(value, tuple) else value for name, value in values.items()}


def describe_fields(decoding: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Return descriptions of the options for the page, in the order in which they are shown."""
    values = get_default_options(decoding)
    names = [*MAIN, *(name for name in call_options.OPTIONS if name not in MAIN)]
    # This option has no effect if the model folder contains no shortlist.
    if "shortlist" not in decoding:
        names.remove("shortlist")
    if "choose" not in decoding:  # these options have no effect without a content model
        names = [name for name in names if name not in ("choose", "choose_words")]
    found = []
    for name in names:
        option = call_options.OPTIONS[name]
        found.append(
            {
                "name": name,
                "label": name.replace("_", " "),
                "kind": "choice" if option.choices else option.kind.__name__,
                "help": option.help,
                "choices": option.choices,
                "least": option.least,
                "most": _get_maximum_option_value(name, values[name]) if name in MOST else None,
                "default": values[name],
                "main": name in MAIN,
            }
        )
    return found


def _get_maximum_option_value(name: str, default: Any) -> float:
    return max(MOST[name], default or 0)


def check_options(options: Dict[str, Any], decoding: Dict[str, Any]) -> None:
    """Raise InputError if an option does not exist, or if its value is invalid or too large for the page.

    The summariser later checks conditions that depend on the model.
    """
    call_options.make_call_settings(decoding, options)
    values = get_default_options(decoding)
    for name in sorted(options.keys() & MOST.keys()):
        most = _get_maximum_option_value(name, values[name])
        if options[name] > most:
            given = f"{call_options.format_option_name(name)} {options[name]}"
            raise InputError(f"{given}: choose at most {most} on this page; etads-summarize accepts more")
