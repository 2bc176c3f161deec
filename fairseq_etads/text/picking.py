"""Select the most probable sentences of a long document, up to a maximum number of words."""

import bisect
import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from ..files.inputs import read_json, report_damage
from ..platform.errors import InputError

FACTOR = "salience"
"""Name of the source factor that informs the summariser about the probability level of each selected sentence."""
FILE = "picking.json"
"""Name of the settings file in the run folder of an extractor, and in model folders that contain an extractor."""
WORDS = 200
"""Default maximum number of words in the selected sentences (the budget)."""
QUANTILES = (0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9)
"""Quantiles of the probabilities of training sentences that divide levels, closer among those usually selected."""
FULL = 0.95
"""Fraction of the budget at which the selection ends, even if more sentences would fit."""
SHORTEST = 3
"""Minimum number of words in a sentence that is selected from a longer document, unless all sentences are shorter."""
_MOST_WORDS = 1_000_000


def check_word_budget(words: Optional[int]) -> None:
    """Raise InputError if --words is outside the range that the settings file can store."""
    if words is not None and not 1 <= words <= _MOST_WORDS:
        raise InputError(f"--words {words}: choose 1 to {_MOST_WORDS:,}")


class Pick(NamedTuple):
    """A selected sentence."""

    number: int  # index of the sentence in the document
    probability: float  # predicted probability of the sentence, or 0 if the extractor did not read it
    level: str  # probability level of the sentence; the lowest is "1"


@dataclass(frozen=True)
class SentencePickingSettings:
    """Settings for selecting sentences, and the bounds of the probability levels for the factor :data:`FACTOR`."""

    words: int  # maximum number of words in the selected sentences (the budget)
    edges: Tuple[float, ...]  # lower bounds of the probability levels 2, 3, …; below the first bound is level 1

    def pick(self, sentences: Sequence[str], probabilities: Sequence[Optional[float]]) -> List[Pick]:
        """Select sentences with :func:`pick_sentences`. Those beyond the last probability have not been read."""
        known = [*probabilities, *[None] * len(sentences)][: len(sentences)]
        places = pick_sentences([len(sentence.split()) for sentence in sentences], known, self.words)
        return [Pick(place, known[place] or 0.0, self.find_probability_level(known[place] or 0.0)) for place in places]

    def find_probability_level(self, probability: float) -> str:
        """Return the level of a probability."""
        return str(1 + bisect.bisect_right(self.edges, probability))

    def to_json(self) -> str:
        """Format the settings as the content of :data:`FILE`."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def read(cls, path: Path, advice: str) -> "SentencePickingSettings":
        """Read the settings from a file. Raises InputError, which ends in ``advice``, if it is missing or damaged."""
        with report_damage(path, advice):
            found = cls(**read_json(path, advice))
            if type(found.words) is not int or not 1 <= found.words <= _MOST_WORDS:
                raise ValueError(f'"words" is {str(found.words)[:40]}, not a number of words')
            edges: Any = found.edges
            numbers = isinstance(edges, list) and all(isinstance(x, (int, float)) and 0 <= x <= 1 for x in edges)
            if not numbers or edges != sorted(edges) or len(edges) > 100:
                raise ValueError('"edges" is not an ascending list of probabilities')
            return replace(found, edges=tuple(map(float, edges)))


def pick_sentences(lengths: Sequence[int], probabilities: Sequence[Optional[float]], budget: int) -> List[int]:
    """Select the most probable sentences that together fit into a budget of words, and return their indices in order.

    If the whole document fits into the budget, all its sentences with words are selected. Otherwise, sentences are
    considered in order of decreasing probability, the earlier of equal ones first and those without a probability last,
    and a sentence is skipped if it exceeds the remaining budget. Sentences with fewer than :data:`SHORTEST` words, such
    as stray fragments, are considered only if all sentences are this short. If no sentence fits, the most probable one
    is selected. ``lengths`` are the numbers of words in the sentences.
    """
    if sum(lengths) <= budget:
        return [number for number, length in enumerate(lengths) if length]
    usable = [number for number, length in enumerate(lengths) if length >= SHORTEST]
    usable = usable or [number for number, length in enumerate(lengths) if length]
    scores = [-math.inf if probability is None else probability for probability in probabilities]
    order = sorted(usable, key=lambda number: -scores[number])
    taken: List[int] = []
    total = 0
    for number in order:
        if total + lengths[number] <= budget:
            taken.append(number)
            total += lengths[number]
        if total >= FULL * budget:
            break
    return sorted(taken) or order[:1]


def compute_probability_level_bounds(probabilities: Sequence[float]) -> Tuple[float, ...]:
    """Compute the lower bounds of the levels: QUANTILES of training sentences, rounded to four significant digits."""
    ordered = sorted(probabilities)
    if not ordered:
        raise InputError("there are no sentences from which to learn probability levels")
    places = (min(int(share * len(ordered)), len(ordered) - 1) for share in QUANTILES)
    return tuple(float(f"{ordered[place]:.4g}") for place in places)
