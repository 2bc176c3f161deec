"""Read pairs of sentences for natural language inference, from SNLI and MultiNLI as published or tab-separated text.

This module needs neither torch nor fairseq.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Iterable, Iterator, NamedTuple, Optional, Tuple

from ..platform.errors import InputError
from ..text.files import name_of, read_lines

LABELS = ("entailment", "neutral", "contradiction")
"""Relations between a premise and a hypothesis, in the order of a model's classes."""
UNDECIDED = "-"
"""The label of SNLI and MultiNLI for a pair on which the annotators did not agree."""
SKIPPED = "pairs without a label"
"""Name under which :func:`read_pairs` counts unlabelled pairs."""
_FIELDS = ("sentence1", "sentence2", "gold_label")


MOST_PUNCTUATED = 0.03
"""Largest share of words that may end in punctuation, as abbreviations do."""
_PUNCTUATED = re.compile(r".*\w[.,;:!?]")


def hide_digits(text: str) -> str:
    """Replace each digit of a text by ``#``, as in Gigaword's headlines."""
    return re.sub("[0-9]", "#", text)


def punctuation_warning(words: Iterable[str], option: str) -> str:
    """Return a warning if more than :data:`MOST_PUNCTUATED` of the words end in punctuation; otherwise "".

    Words such as "airplane." suggest that the text is not tokenised.

    Args:
        option: the option that selects the tokeniser.
    """
    total, found = 0, Counter[str]()
    for word in words:
        total += 1
        if _PUNCTUATED.fullmatch(word):
            found[word] += 1
    share = sum(found.values()) / max(total, 1)
    if share <= MOST_PUNCTUATED:
        return ""
    examples = ", ".join(f'"{word}"' for word, _ in found.most_common(2))
    return (
        f"{share:.1%} of the words end in punctuation ({examples}): if the text is not tokenised, choose {option} ptb"
    )


class NliPair(NamedTuple):
    """A premise, a hypothesis, and one of :data:`LABELS`. The texts are not tokenised, but unchanged."""

    premise: str
    hypothesis: str
    label: str


def read_pairs(path: Path, counts: Optional[Counter] = None) -> Iterator[NliPair]:
    """Yield the labelled pairs of a file, in order.

    Args:
        path: a plain or compressed file. If its name contains ``.jsonl``, JSON lines as in SNLI or MultiNLI; otherwise
            a line "PREMISE<tab>HYPOTHESIS<tab>LABEL" for each pair.
        counts: counter of the pairs that are skipped because their label is "-", under the key :data:`SKIPPED`.

    Raises:
        InputError: the file cannot be read, or a line contains no valid pair; the message names file and line.
    """
    path = Path(path)
    split = _json_fields if ".jsonl" in path.suffixes else _tabbed_fields
    for number, line in enumerate(read_lines(path), 1):
        try:
            premise, hypothesis, label = split(line)
            if label not in (*LABELS, UNDECIDED):
                raise ValueError(f'the label is "{label}", not one of {", ".join(LABELS)}')
        except ValueError as error:
            raise InputError(f"{name_of(path)}, line {number}: {error}") from None
        if label != UNDECIDED:
            yield NliPair(premise, hypothesis, label)
        elif counts is not None:
            counts[SKIPPED] += 1


def _json_fields(line: str) -> Tuple[str, ...]:
    try:
        content: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error})") from None
    if not isinstance(content, dict) or not all(isinstance(content.get(name), str) for name in _FIELDS):
        raise ValueError(f"not an object with the texts {', '.join(_FIELDS)}, as in SNLI and MultiNLI")
    return tuple(content[name] for name in _FIELDS)


def _tabbed_fields(line: str) -> Tuple[str, ...]:
    fields = tuple(line.split("\t"))
    if len(fields) != 3:
        raise ValueError(
            f"{len(fields)} tab-separated fields instead of three: premise, hypothesis and label (for JSON lines, the "
            "file name must end in .jsonl)"
        )
    return fields


def tabbed_line(pair: NliPair) -> str:
    """Format a pair as a line for :func:`read_pairs`, including the line end.

    White space inside a text is replaced by single spaces.
    """
    return "\t".join(" ".join(text.split()) for text in pair) + "\n"
