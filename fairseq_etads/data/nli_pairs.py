"""Read pairs of sentences for natural language inference: SNLI and MultiNLI as published, or text with tabs.

Without torch and fairseq.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Iterable, Iterator, NamedTuple, Optional, Tuple

from ..platform.errors import InputError
from ..text.files import name_of, read_lines

LABELS = ("entailment", "neutral", "contradiction")
"""Relations of a premise to a hypothesis; a model's classes are in this order."""
UNDECIDED = "-"
"""The label of SNLI and MultiNLI for a pair on which the annotators did not agree."""
SKIPPED = "pairs without a label"
"""Name of the count of unlabelled pairs in :func:`read_pairs`."""
_FIELDS = ("sentence1", "sentence2", "gold_label")


MOST_PUNCTUATED = 0.03
"""Share of words that may end in punctuation; abbreviations do."""
_PUNCTUATED = re.compile(r".*\w[.,;:!?]")


def hide_digits(text: str) -> str:
    """Replace each digit of a text by ``#``, as in Gigaword's headlines."""
    return re.sub("[0-9]", "#", text)


def punctuation_warning(words: Iterable[str], option: str) -> str:
    """Warn if more than :data:`MOST_PUNCTUATED` of the words end in punctuation, such as "airplane."; else return "".

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
    """A premise, a hypothesis, and one of :data:`LABELS`. The texts are as in the file, not tokenised."""

    premise: str
    hypothesis: str
    label: str


def read_pairs(path: Path, counts: Optional[Counter] = None) -> Iterator[NliPair]:
    """Yield the labelled pairs of a file, in order.

    Args:
        path: SNLI's or MultiNLI's JSON lines if its name has ``.jsonl``; otherwise a line
            "PREMISE<tab>HYPOTHESIS<tab>LABEL" for each pair. Plain or compressed.
        counts: a counter for the pairs that are skipped because their label is "-", under :data:`SKIPPED`.

    Raises:
        InputError: the file cannot be read, or a line is not such a pair; the message names file and line.
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
            f"{len(fields)} tab-separated fields instead of three: premise, hypothesis and label (the name of a file "
            "of JSON lines ends in .jsonl)"
        )
    return fields


def tabbed_line(pair: NliPair) -> str:
    """Format a pair as a line for :func:`read_pairs`, with its line end; white space inside a text becomes single
    spaces.
    """
    return "\t".join(" ".join(text.split()) for text in pair) + "\n"
