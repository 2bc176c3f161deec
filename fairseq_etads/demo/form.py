"""Describe the decoding options as form fields, using the table that also defines the command-line options."""

from typing import Any, Dict, List

from ..platform.errors import InputError
from ..platform.option_checks import format_option_name
from ..search.options import CALL, DECLARED, check_call, get_bounds, get_type, get_value

MAIN = ("sentences", "words", "percent", "must_include", "beam", "lenpen")
"""Options that are always shown on the page. All other options are shown after a click."""

MOST = {"beam": 50, "min_len": 1000, "max_len": 1000, "max_len_a": 10, "exact_length": 1000, "min_sentences": 100}
"""Maximum values, unless a folder's defaults are larger, so that a typing error does not exhaust the memory."""


def get_default_options(decoding: Dict[str, Any]) -> Dict[str, Any]:
    """Return the defaults in a model folder by the names of options, or None if they depend on the model."""
    values = {name: get_value(name, decoding) for name in CALL}
    return {name: " ".join(value) if isinstance(value, tuple) else value for name, value in values.items()}


def describe_fields(decoding: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Return descriptions of the options for the page, in the order in which they are shown."""
    values = get_default_options(decoding)
    names = [*MAIN, *(name for name in CALL if name not in MAIN)]
    without_effect = {"shortlist"} - decoding.keys()
    if "choose" not in decoding:  # without a content model
        without_effect |= {"choose", "choose_words"}
    elif decoding["choose"] == "content":  # lengths of hypotheses, not of the sentences that are chosen
        without_effect |= {name for name in names if DECLARED[name].metadata.get("of_hypotheses")}
    elif decoding["choose"] == "extract":  # options of the search, because nothing is written
        without_effect |= {*names} - {*MAIN[:4], "choose", "choose_words", "readability"}
    found = []
    for name in [name for name in names if name not in without_effect]:
        metadata, bounds, type_ = DECLARED[name].metadata, get_bounds(name), get_type(name)
        kind = "choice" if "choices" in metadata else "str" if type_ == List[str] else type_.__name__
        found.append(
            {
                "name": name,
                "label": name.replace("_", " "),
                "kind": kind,
                "help": metadata.get("call_help", metadata["help"]),
                "choices": metadata.get("choices", ()),
                "least": None if bounds is None else bounds.at_least,
                "most": max(MOST[name], values[name] or 0) if name in MOST else None,
                "default": values[name],
                "main": name in MAIN,
            }
        )
    return found


def check_options(options: Dict[str, Any], decoding: Dict[str, Any]) -> None:
    """Raise InputError if an option does not exist, or its value is invalid or too large for the page."""
    check_call(decoding, options)
    values = get_default_options(decoding)
    for name in sorted(options.keys() & MOST.keys()):
        most = max(MOST[name], values[name] or 0)
        if options[name] > most:
            given = f"{format_option_name(name)} {options[name]}"
            raise InputError(f"{given}: choose at most {most} on this page; etads-summarize accepts more")
