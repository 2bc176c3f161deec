"""Data classes for sentences that were selected by an extractor or chosen by a content model."""

from dataclasses import asdict, dataclass
from typing import Any, Dict, Optional, Tuple


@dataclass(frozen=True)
class PickedSentence:
    """A sentence that an extractor selected for the summariser.

    Attributes:
        text: text of the sentence, with normalised white space and without invisible characters.
        start, end: position text[start:end] of the sentence in the raw document, or None if it cannot be determined.
        number: index of the sentence in the document, starting at 0.
        probability: predicted probability that a summary uses the sentence.
    """

    text: str
    start: Optional[int]
    end: Optional[int]
    number: int
    probability: float


@dataclass(frozen=True)
class Selection:
    """Sentences that an extractor selected from a document.

    Attributes:
        sentences: selected sentences, in the order of the document.
        total: number of sentences in the document.
        words: number of words in the document, which are counted by splitting at white space.
    """

    sentences: Tuple[PickedSentence, ...]
    total: int
    words: int

    def to_dict(self) -> Dict[str, Any]:
        """Convert the selection to a dictionary of JSON types."""
        sentences = [{**asdict(each), "probability": round(each.probability, 4)} for each in self.sentences]
        return {"sentences": sentences, "total": self.total, "words": self.words}


@dataclass(frozen=True)
class ChosenSentence:
    """A sentence that a content model chose for a summary.

    Attributes:
        text: text of the sentence in the summary.
        source: "document" if the sentence is from the document, or "model" if the model generated it.
        number: index of the sentence in the document, starting at 0. None if the model generated the sentence.
        start, end: position text[start:end] of the sentence in the raw document. Both are None if the model generated
            the sentence, or if the position cannot be determined.
    """

    text: str
    source: str
    number: Optional[int] = None
    start: Optional[int] = None
    end: Optional[int] = None
