"""Measure how surprising a document is to a model in comparison with the training documents.

The dictionary in a model folder contains the word frequencies of the training text. config.json contains percentiles of
the surprisals of the training documents. This module does not import torch or fairseq.
"""

import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterable, List, Mapping, Optional, Tuple

from ..text.words import SENTENCE_MARK

PERCENTS = (0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 100)
"""Percentiles that are stored in config.json."""
UNUSUAL = 99
"""Percentile of the training documents' surprisals above which a document is considered unusual."""
FEWEST = 10
"""Minimum number of tokens in a document. The mean surprisal of fewer tokens would be unreliable."""
SAMPLE = 2000
"""Approximate number of training documents from which the percentiles are computed."""


@dataclass(frozen=True)
class Surprisal:
    """Surprisal of the part of a document that the model reads.

    Attributes:
        bits: mean surprisal of the tokens in bits. The surprisal of a token is -log2 of its relative frequency in the
            training text.
        unknown: proportion of tokens that are not in the model's vocabulary.
        percentile: percentage of training documents with a lower surprisal.
    """

    bits: float
    unknown: float
    percentile: float

    @property
    def is_unusual(self) -> bool:
        """Return whether the document is more surprising than :data:`UNUSUAL` per cent of the training documents."""
        return self.percentile > UNUSUAL

    def describe(self, fitting: str = "") -> str:
        """Return the warning about an unusual document, which names the bundled model that fits it, if any."""
        advice = f"; the bundled model {fitting} fits better" if fitting else ""
        return (
            f"unlike the documents used to train the model ({self.unknown:.0%} of its tokens are unknown, "
            f"{self.bits:.1f} bits per token, more than in {UNUSUAL} % of them): do not rely on its summary{advice}"
        )


class WordFrequencies:
    """Relative word frequencies in the training text, with add-one smoothing.

    ``counts`` contains the counts of known words. All unknown words are treated as a single word with a count of 0.
    """

    def __init__(self, counts: Mapping[str, int]):
        total = sum(counts.values()) + len(counts) + 1
        self._bits = {word: math.log2(total / (count + 1)) for word, count in counts.items()}
        self._bits_of_unknown = math.log2(total)

    def measure_surprisal(self, tokens: Iterable[str]) -> Optional[Tuple[float, float]]:
        """Compute the mean surprisal of tokens in bits, and the proportion of unknown tokens.

        Returns None if there are fewer than :data:`FEWEST` tokens.
        """
        bits, unknown, number = 0.0, 0, 0
        for token in tokens:
            if token == SENTENCE_MARK:
                continue
            number += 1
            unknown += token not in self._bits
            bits += self._bits.get(token, self._bits_of_unknown)
        return (bits / number, unknown / number) if number >= FEWEST else None


def compute_surprisal_percentiles(path: Path, frequencies: WordFrequencies, longest: int) -> Optional[Dict[str, float]]:
    """Compute percentiles of the surprisals in an evenly spaced sample of documents.

    ``path`` is a file with the tokens of one document per line, of which a model reads ``longest``. Returns the
    surprisal at each percentile in :data:`PERCENTS`, or None if no document contains enough tokens.
    """
    with open(path, "rb") as file:
        every = max(sum(1 for _ in file) // SAMPLE, 1)
    found: List[float] = []
    with open(path, "rb") as file:
        for line in itertools.islice(file, 0, None, every):
            measured = frequencies.measure_surprisal(line.decode("utf-8", "replace").split()[:longest])
            if measured is not None:
                found.append(measured[0])
    if not found:
        return None
    found.sort()
    return {str(percent): round(found[round(percent / 100 * (len(found) - 1))], 4) for percent in PERCENTS}


class TrainingSurprisals:
    """Surprisals of the training documents, with which new documents are compared.

    ``percentiles`` is the entry "document_surprisal" in a model folder's config.json.
    """

    def __init__(self, frequencies: WordFrequencies, percentiles: Dict[str, float]):
        self._frequencies = frequencies
        self._negated = [-percentiles[str(percent)] for percent in reversed(PERCENTS)]

    def measure_surprisal(self, tokens: Iterable[str]) -> Optional[Surprisal]:
        """Compute the surprisal of a document. Returns None if the document is too short."""
        measured = self._frequencies.measure_surprisal(tokens)
        return measured and Surprisal(*measured, self.find_percentile(measured[0]))

    def find_percentile(self, bits: float) -> float:
        """Return the percentage of training documents with a lower surprisal, interpolated between the percentiles."""
        import numpy as np  # the help of commands does not need it

        return 100 - float(np.interp(-bits, self._negated, PERCENTS))  # reversed, so that ties give the lowest
