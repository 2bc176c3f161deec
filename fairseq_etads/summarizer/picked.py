"""Plain data classes for sentences that an extractor selected and for sentences that a content model chose."""

from dataclasses import asdict, dataclass
from typing import Any, Dict, Optional, Tuple


@dataclass(frozen=True)
class PickedSentence:
    """A sentence that an extractor selected for the summariser.

    Attributes:
        text: the text of the sentence, with normalised white space and without invisible characters.
        start, end: the position text[start:end] of the sentence in the raw document, or None if it cannot be
            determined.
        number: the 0-based index of the sentence in the document.
        probability: the probability, predicted by the extractor, that a summary uses the sentence.
    """

    text: str
    start: Optional[int]
    end: Optional[int]
    number: int
    probability: float


@dataclass(frozen=True)
class Selection:
    """The sentences that an extractor selected from a document.

    Attributes:
        sentences: the selected sentences, in the order of the document.
        total: the number of sentences in the document.
        words: the number of words in the document. Words are separated by white space.
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
        text: the text of the sentence in the summary.
        source: "document" for a sentence from the document, or "model" for a sentence that the model generated.
        number: the 0-based index of the sentence in the document. None for a sentence that the model generated.
        start, end: the position text[start:end] of the sentence in the raw document. None for a sentence that the model
            generated, or if the position cannot be determined.
    """

    text: str
    source: str
    number: Optional[int] = None
    start: Optional[int] = None
    end: Optional[int] = None
