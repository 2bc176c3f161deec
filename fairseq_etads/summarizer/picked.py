"""Plain data about sentences selected by an extractor for the summariser, and sentences chosen by a content model."""

from dataclasses import asdict, dataclass
from typing import Any, Dict, Optional, Tuple


@dataclass(frozen=True)
class PickedSentence:
    """A selected sentence.

    Attributes:
        text: text of the sentence, with clean white space and without invisible characters.
        start, end: characters text[start:end] of the raw document; None where they cannot be determined.
        number: index of the sentence in the document, from 0.
        probability: the extractor's probability that a summary uses the sentence.
    """

    text: str
    start: Optional[int]
    end: Optional[int]
    number: int
    probability: float


@dataclass(frozen=True)
class Selection:
    """Sentences selected after scoring all sentences of a document.

    Attributes:
        sentences: selected sentences, in the order of the document.
        total: number of sentences in the document.
        words: number of words in the document, separated by white space.
    """

    sentences: Tuple[PickedSentence, ...]
    total: int
    words: int

    def to_dict(self) -> Dict[str, Any]:
        """Return the selection as JSON types."""
        sentences = [{**asdict(each), "probability": round(each.probability, 4)} for each in self.sentences]
        return {"sentences": sentences, "total": self.total, "words": self.words}


@dataclass(frozen=True)
class ChosenSentence:
    """A sentence of a summary that a content model has chosen.

    Attributes:
        text: text of the sentence in the summary.
        source: "document" for a sentence of the document, "model" for a sentence that the model wrote.
        number: index of the sentence in the document, from 0; None for a sentence that the model wrote.
        start, end: characters text[start:end] of the raw document; None for a sentence that the model wrote, and where
            they cannot be determined.
    """

    text: str
    source: str
    number: Optional[int] = None
    start: Optional[int] = None
    end: Optional[int] = None
