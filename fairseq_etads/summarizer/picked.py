"""The sentences of a long document that an extractor has selected for the summariser, as plain data."""

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
