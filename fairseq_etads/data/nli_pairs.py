"""Read sentence pairs for natural language inference from SNLI files, MultiNLI files or tab-separated text.

This module requires neither torch nor fairseq.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Iterable, Iterator, NamedTuple, Optional, Tuple

from ..files.inputs import get_display_name, read_lines
from ..platform.errors import InputError
from ..text.documents import BadDocumentError, parse_json_record

LABELS = ("entailment", "neutral", "contradiction")
"""Possible relations between a premise and a hypothesis, in the order of a model's output classes."""
UNDECIDED = "-"
"""Label of pairs in SNLI and MultiNLI on which the annotators did not agree."""
SKIPPED = "pairs without a label"
"""Key under which :func:`read_pairs` counts pairs without a label."""
_FIELDS = ("sentence1", "sentence2", "gold_label")
MOST_PUNCTUATED = 0.03
"""Fraction of words that may end in punctuation, as abbreviations do, without a warning."""
_PUNCTUATED = re.compile(r".*\w[.,;:!?]")


def hide_digits(text: str) -> str:
    """Replace each digit in a text with ``#``, as in Gigaword headlines."""
    return re.sub("[0-9]", "#", text)


def find_tokenisation_problem(words: Iterable[str], option: str) -> str:
    """Return a warning if more than MOST_PUNCTUATED of the words end in punctuation, or an empty string.

    It mentions ``option``, which selects the tokeniser.
    """
    counts = Counter(words)
    found = Counter({word: count for word, count in counts.items() if _PUNCTUATED.fullmatch(word)})
    share = sum(found.values()) / max(sum(counts.values()), 1)
    if share <= MOST_PUNCTUATED:
        return ""
    examples = ", ".join(f'"{word}"' for word, _ in found.most_common(2))
    return (
        f"{share:.1%} of the words end in punctuation ({examples}): if the text is not tokenised, choose {option} ptb"
    )


class NliPair(NamedTuple):
    """A premise, a hypothesis and their label, one of :data:`LABELS`. The texts are not tokenised."""

    premise: str
    hypothesis: str
    label: str


def read_pairs(path: Path, counts: Optional[Counter] = None) -> Iterator[NliPair]:
    """Yield the labelled pairs in a plain or compressed file.

    A file whose name contains ``.jsonl`` is read as JSON lines in the format of SNLI and MultiNLI. In other files, each
    line has the form "PREMISE<tab>HYPOTHESIS<tab>LABEL". Pairs with the label "-" are counted as :data:`SKIPPED`.
    Raises InputError, which names the file and the line, if a line cannot be read or does not contain a valid pair.
    """
    path = Path(path)
    split = _parse_json_pair if ".jsonl" in path.suffixes else _parse_tabbed_pair
    for number, line in enumerate(read_lines(path), 1):
        try:
            premise, hypothesis, label = split(line)
            if label not in (*LABELS, UNDECIDED):
                raise ValueError(f'the label is "{label}", not one of {", ".join(LABELS)}')
        except (BadDocumentError, ValueError) as error:
            raise InputError(f"{get_display_name(path)}, line {number}: {error}") from None
        if label != UNDECIDED:
            yield NliPair(premise, hypothesis, label)
        elif counts is not None:
            counts[SKIPPED] += 1


def _parse_json_pair(line: str) -> Tuple[str, ...]:
    content = parse_json_record(line)
    if not all(isinstance(content.get(name), str) for name in _FIELDS):
        raise ValueError(f"not an object with the texts {', '.join(_FIELDS)}, as in SNLI and MultiNLI")
    return tuple(content[name] for name in _FIELDS)


def _parse_tabbed_pair(line: str) -> Tuple[str, ...]:
    fields = tuple(line.split("\t"))
    if len(fields) != 3:
        raise ValueError(
            f"{len(fields)} tab-separated fields instead of three: premise, hypothesis and label (for JSON lines, the "
            "file name must end in .jsonl)"
        )
    return fields


def format_tab_separated_pair(pair: NliPair) -> str:
    """Format a pair as a line for :func:`read_pairs`, with its ending and single spaces in the texts."""
    return "\t".join(" ".join(text.split()) for text in pair) + "\n"
