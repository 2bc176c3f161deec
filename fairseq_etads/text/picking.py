"""Select the most probable sentences of a long document, up to a number of words; without torch."""

import bisect
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, List, Optional, Sequence, Tuple

from ..platform.errors import InputError

FACTOR = "salience"
"""Source factor with the probability level of each selected sentence, for the summariser."""
FILE = "picking.json"
"""Name of the settings file, in the run folder of an extractor and in a model folder with an extractor."""
WORDS = 200
"""Default budget in words."""
QUANTILES = (0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9)
"""Quantiles of the training sentences' probabilities that separate the levels; they are denser in the range of the
selected sentences.
"""
FULL = 0.95
"""Share of the budget at which the selection stops."""
SHORTEST = 3
"""Minimum number of words of a sentence that is selected from a document longer than the budget, unless all sentences
of the document are shorter.
"""
_MOST_WORDS = 1_000_000


@dataclass(frozen=True)
class Picking:
    """Settings of the selection, and bounds of the probability levels in the factor :data:`FACTOR`.

    Attributes:
        words: the budget in words.
        edges: lower bounds of the levels 2, 3, …; level 1 is below the first edge.
    """

    words: int
    edges: Tuple[float, ...]

    def pick(self, sentences: Sequence[str], probabilities: Sequence[Optional[float]]) -> List[int]:
        """Select sentences with :func:`pick`; return their numbers in the document's order."""
        return pick([len(sentence.split()) for sentence in sentences], probabilities, self.words)

    def level(self, probability: float) -> str:
        """Return the level of a sentence, "1" or higher."""
        return str(1 + bisect.bisect_right(self.edges, probability))

    def to_json(self) -> str:
        """Return the content of :data:`FILE`."""
        return json.dumps({**asdict(self), "edges": list(self.edges)}) + "\n"

    @classmethod
    def read(cls, path: Path, advice: str) -> "Picking":
        """Read and check a :data:`FILE`.

        Args:
            advice: advice for the user if the file is missing or damaged.

        Raises:
            InputError: the file is missing or damaged.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            words, edges = _checked(content)
        except FileNotFoundError:
            raise InputError(f"there is no {path}; {advice}") from None
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{path} is damaged ({error}); {advice}") from None
        return cls(words, edges)


def _checked(content: Any) -> Tuple[int, Tuple[float, ...]]:
    """Check and return the budget and the edges in a file's content; raises ValueError."""
    if not isinstance(content, dict) or set(content) != {"words", "edges"}:
        raise ValueError('expected "words" and "edges"')
    words, edges = content["words"], content["edges"]
    if type(words) is not int or not 1 <= words <= _MOST_WORDS:
        raise ValueError(f'"words" is {str(words)[:40]}, not a number of words')
    numbers = isinstance(edges, list) and all(isinstance(edge, (int, float)) and 0 <= edge <= 1 for edge in edges)
    if not numbers or edges != sorted(edges) or len(edges) > 100:
        raise ValueError('"edges" is not an ascending list of probabilities')
    return words, tuple(map(float, edges))


def pick(lengths: Sequence[int], probabilities: Sequence[Optional[float]], budget: int) -> List[int]:
    """Select sentences up to a budget, starting with the most probable; sentences that do not fit are skipped.

    A document that fits into the budget is selected as a whole. In longer documents, sentences of fewer than
    :data:`SHORTEST` words, such as stray fragments, are selected only if all sentences are this short. If no sentence
    fits, the most probable sentence is selected. Of equally probable sentences, the earlier one is preferred.

    Args:
        lengths: number of words of each sentence.
        probabilities: probability of each sentence; None for sentences that the extractor did not read, which are
            selected last.
        budget: maximum number of words.

    Returns:
        Numbers of the selected sentences in the document's order; empty for a document without words.
    """
    if sum(lengths) <= budget:
        return [number for number, length in enumerate(lengths) if length]
    usable = [number for number, length in enumerate(lengths) if length >= SHORTEST]
    usable = usable or [number for number, length in enumerate(lengths) if length]
    order = sorted(usable, key=lambda number: (-_value(probabilities[number]), number))
    taken: List[int] = []
    total = 0
    for number in order:
        if total + lengths[number] <= budget:
            taken.append(number)
            total += lengths[number]
        if total >= FULL * budget:
            break
    return sorted(taken) or order[:1]


def _value(probability: Optional[float]) -> float:
    return -math.inf if probability is None else probability


def learn_edges(probabilities: Sequence[float]) -> Tuple[float, ...]:
    """Compute the bounds of the levels: the :data:`QUANTILES` of training probabilities, to four digits."""
    ordered = sorted(probabilities)
    if not ordered:
        raise InputError("there are no sentences from which to learn probability levels")
    places = (min(int(share * len(ordered)), len(ordered) - 1) for share in QUANTILES)
    return tuple(float(f"{ordered[place]:.4g}") for place in places)
