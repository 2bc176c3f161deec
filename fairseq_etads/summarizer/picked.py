"""Sentences that an extractor has selected for the summariser, and that a content model has chosen, as plain data."""

from dataclasses import asdict, dataclass
from typing import Any, Dict, Optional, Tuple


@dataclass(frozen=True)
class PickedSentence:
    """A selected sentence.

    Attributes:
        text: white space and invisible characters cleaned.
        start, end: the characters text[start:end] of the raw document; None where they cannot be determined.
        number: index of the sentence in the document, from 0.
        probability: the extractor's probability that a summary uses it.
    """

    text: str
    start: Optional[int]
    end: Optional[int]
    number: int
    probability: float


@dataclass(frozen=True)
class Selection:
    """Sentences selected after scoring all of a document's sentences.

    Attributes:
        sentences: the selected ones, in the document's order.
        total: number of the document's sentences.
        words: number of its words, separated by white space.
    """

    sentences: Tuple[PickedSentence, ...]
    total: int
    words: int

    def to_dict(self) -> Dict[str, Any]:
        """The selection as JSON types."""
        sentences = [{**asdict(each), "probability": round(each.probability, 4)} for each in self.sentences]
        return {"sentences": sentences, "total": self.total, "words": self.words}


@dataclass(frozen=True)
class ChosenSentence:
    """A sentence of a summary that a content model has chosen.

    Attributes:
        text: as it stands in the summary.
        source: "document" for a sentence of the document, "model" for one that the model wrote.
        number: index of the sentence in the document, from 0; None for a written one.
        start, end: the characters text[start:end] of the raw document; None for a written one, and where they cannot be
            determined.
    """

    text: str
    source: str
    number: Optional[int] = None
    start: Optional[int] = None
    end: Optional[int] = None
